"""Random trees of files, what may be done to them, and what they are, told without any code of the product."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "ü c", "\udcff"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
DATA = st.sampled_from(["", "one", "two", "large"])
TREES = st.dictionaries(PATHS, st.tuples(st.sampled_from(["file", "folder", "link", "pipe", "kept"]), DATA), max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "append", "replace"]), PATHS, DATA),
        st.tuples(st.sampled_from(["make", "remove", "touch", "pipe"]), PATHS),
        st.tuples(st.sampled_from(["rename", "link", "symlink"]), PATHS, PATHS),
        st.tuples(st.just("mode"), PATHS, st.sampled_from([0o600, 0o755, 0o444, 0])),
        st.tuples(st.just("attribute"), PATHS, st.sampled_from([b"x", b"y"])),
    ),
    max_size=10,
)


def make_tree(folder: Path, tree: dict[str, tuple[str, str]]) -> None:
    """Make a tree in a folder; what has no place in it is left out."""
    for name, (kind, data) in sorted(tree.items()):
        path = folder / name
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "link":
                path.symlink_to("b/a")
            elif kind == "folder":
                path.mkdir()
            elif kind == "pipe":
                os.mkfifo(path)
            else:
                path.write_bytes(_fill(data))
                path.chmod(0o444 if kind == "kept" else 0o640)


def take_steps(folder: Path, steps: Sequence[Sequence[Any]]) -> None:
    """Do things beneath a folder; what cannot be done is left out."""
    for what, name, *values in steps:
        with suppress(OSError, ValueError):
            _take_step(folder, what, folder / name, *values)


def _take_step(folder: Path, what: str, path: Path, *values: Any) -> None:
    if what in ("write", "append"):
        if stat.S_ISREG(path.lstat().st_mode) if os.path.lexists(path) else True:
            with path.open("wb" if what == "write" else "ab") as stream:
                stream.write(_fill(values[0]))
    elif what == "replace":
        new = path.with_name("new")
        new.write_bytes(_fill(values[0]))
        new.rename(path)
    elif what == "remove":
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    elif what == "rename":
        path.rename(folder / values[0])
    elif what == "link":
        (folder / values[0]).hardlink_to(path)
    elif what == "symlink":
        path.symlink_to(values[0])
    elif what == "attribute":
        os.setxattr(path, "user.x", values[0], follow_symlinks=False)
    elif what == "mode":
        path.chmod(values[0])
    else:
        {"make": Path.mkdir, "touch": lambda one: os.utime(one, (1, 1), follow_symlinks=False), "pipe": os.mkfifo}[
            what
        ](path)


def _fill(data: str) -> bytes:
    return data.encode() * (40_000 if data == "large" else 1)


def look(folder: Path) -> dict[str, Any]:
    """Return what a folder and everything in it is, with all that can be told of it but numbers and times of access."""
    found: dict[str, Any] = {}
    numbers: dict[int, list[str]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        seen = path.lstat()
        content: Any = b""
        attributes: Any = ()
        if path.is_symlink():
            content = os.readlink(path)
        elif stat.S_ISREG(seen.st_mode):
            content = path.read_bytes()
            numbers.setdefault(seen.st_ino, []).append(str(path))
        if not path.is_symlink():
            names = [name for name in os.listxattr(path) if name.startswith("user.")]
            attributes = [(name, os.getxattr(path, name)) for name in names]
        found[str(path.relative_to(folder))] = (seen.st_mode, seen.st_uid, seen.st_mtime_ns, content, attributes)
    found["names"] = sorted(names for names in numbers.values() if len(names) > 1)
    return found
