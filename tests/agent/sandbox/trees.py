"""Random trees, what a script may do to them, and what they are afterwards, told without any code of the product."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "ü c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
DATA = st.sampled_from(["", "one", "two", "one" * 30])
FILE_MODES, FOLDER_MODES = [0o644, 0o600, 0o755, 0o400], [0o755, 0o700, 0o750]
TREES = st.dictionaries(PATHS, st.tuples(st.sampled_from(["file", "folder", "link", "fifo"]), DATA), max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "append", "replace"]), PATHS, DATA),
        st.tuples(st.sampled_from(["mkdir", "rmdir", "unlink", "rmtree", "touch", "mkfifo", "renew"]), PATHS),
        st.tuples(st.sampled_from(["rename", "link", "symlink"]), PATHS, PATHS),
        st.tuples(st.just("chmod"), PATHS, st.sampled_from(FILE_MODES), st.sampled_from(FOLDER_MODES)),
        st.tuples(st.just("attribute"), PATHS, DATA.filter(lambda data: len(data) < 9)),
    ),
    max_size=12,
)
CLOSED = st.lists(PATHS, max_size=2)
"""What nobody may read in the end; it is made so last, for a folder that cannot be read cannot be copied either."""

_LOOK = """
import json, os, stat, sys
def look(path, found):
    seen = os.lstat(path)
    mode, kind = stat.S_IMODE(seen.st_mode), stat.S_IFMT(seen.st_mode)
    entry = {"mode": mode, "kind": kind, "owner": seen.st_uid, "content": "", "attribute": None}
    found[path] = entry
    if kind == stat.S_IFLNK:
        entry["content"] = os.readlink(path)
        return found
    os.chmod(path, mode | 0o700)  # so that whoever runs can look
    if kind in (stat.S_IFREG, stat.S_IFDIR) and "user.x" in os.listxattr(path):
        entry["attribute"] = os.getxattr(path, "user.x").decode()
    if kind == stat.S_IFREG:
        entry["content"] = open(path).read()
    for name in sorted(os.listdir(path)) if kind == stat.S_IFDIR else []:
        look(f"{path}/{name}", found)
    os.chmod(path, mode)
    return found
"""
RUNNER = (
    f"{_LOOK}\n"
    + """
before = look(".", {})
import errno, json, os, shutil, stat, subprocess, sys
def rename(old, new):
    try:
        os.rename(old, new)
    except OSError as error:
        if error.errno == errno.EXDEV:  # what a program that cares does
            subprocess.run(["mv", "-T", old, new], check=False)
def chmod(path, file, folder):
    if not os.path.islink(path):
        os.chmod(path, folder if os.path.isdir(path) else file)
def replace(path, data):
    write(path + "~", data)
    os.rename(path + "~", path)
def write(path, data, how="w"):
    if not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode):
        with open(path, how) as file:
            file.write(data)
def rmtree(path):
    os.rmdir(path + "/none") if not os.path.isdir(path) else shutil.rmtree(path)  # it would open a named pipe
def renew(path):
    rmtree(path)
    os.mkdir(path)
    write(path + "/new", "new")
def attribute(path, data):
    os.setxattr(path, "user.x", data.encode(), follow_symlinks=False)
def close(path):
    if not os.path.islink(path):
        os.chmod(path, 0)
steps = {
    "write": write, "append": lambda path, data: write(path, data, "a"), "replace": replace, "mkdir": os.mkdir,
    "rmdir": os.rmdir, "unlink": os.unlink, "rmtree": rmtree, "touch": lambda path: os.utime(path, (1, 1)),
    "mkfifo": os.mkfifo, "renew": renew, "rename": rename, "link": os.link, "symlink": os.symlink, "chmod": chmod,
    "attribute": attribute, "close": close,
}
os.umask(0o022)
for name, *values in json.loads(sys.argv[1]):
    try:
        steps[name](*values)
    except OSError:
        pass
print(json.dumps([before, look(".", {})]))
"""
)
LOOK = f'{_LOOK}\nprint(json.dumps(look(".", {{}})))'
Seen = dict[str, dict[str, Any]]


def make_tree(folder: Path, tree: dict[str, tuple[str, str]], user: int | None) -> None:
    """Make a folder with a tree in it that belongs to a user; what has no place in it is left out."""
    folder.mkdir()
    for path, (kind, data) in sorted(tree.items()):
        at = folder / path
        if all(not up.is_symlink() and (up.is_dir() or not up.exists()) for up in at.parents):
            at.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                at.write_text(data)
            elif kind == "link":
                at.symlink_to("b/a")
            elif kind == "fifo":
                os.mkfifo(at)
            else:
                at.mkdir()
    for path in [folder, *folder.rglob("*")] if user is not None else []:
        os.chown(path, user, user, follow_symlinks=False)  # type: ignore[arg-type]


def find_difference(before: Seen, after: Seen) -> dict[str, tuple[object, object]]:
    """Return the paths that differ, each with what `describe` says of both."""
    differ = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    return {path.removeprefix("./"): (describe(before.get(path)), describe(after.get(path))) for path in differ}


def describe(entry: dict[str, Any] | None) -> object:
    """Return kind, permission bits, size and SHA-256 of what `LOOKER` saw."""
    if entry is None:
        return ("", 0, 0, "")
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    kind, data = kinds.get(entry["kind"], "other"), entry["content"].encode()
    digest = hashlib.sha256(data).hexdigest() if kind in ("file", "link") else ""
    return (kind, entry["mode"], len(data), digest)
