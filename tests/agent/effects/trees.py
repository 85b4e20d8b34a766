"""Folders with all kinds of things in them, made at random: put on disk, read back, and told apart as changes."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import Phase
from hypothesis import strategies as st

from foregate.agent.workspace.path_state import NOTHING, is_at, look_at
from foregate.schemas.sandbox import PathChange, PathState
from foregate.schemas.tool_spec import Effect

NAMES = ("a", "b", "d", "b-1", ".git")
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""Trees on a disk are small enough, and making them smaller takes minutes."""
TIMES = st.integers(min_value=1, max_value=2_000_000_000_000_000_000)


@dataclass(frozen=True)
class Node:
    """A thing of a tree; `twin` files of one number are one file."""

    kind: str
    text: str = ""
    mode: int = 0o644
    modified: int = 10**18
    note: str = ""
    twin: int = 0


Tree = Mapping[str, Node]
Told = dict[str, tuple[object, ...]]
"""What can be told of the things in a folder."""


@st.composite
def draw_trees(draw: st.DrawFn) -> Tree:
    """Draw a tree: paths of up to three parts, each below folders."""
    tree: dict[str, Node] = {}
    twins: dict[int, Node] = {}
    for path in draw(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), max_size=8)):
        parts = path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            if tree.setdefault(above, draw(folders())).kind != "directory":
                break
        else:
            node = draw(st.one_of(files(), links(), folders()))
            if node.twin:
                node = twins.setdefault(node.twin, node)
            tree.setdefault(path, node)
    return tree


def files() -> st.SearchStrategy[Node]:
    """Draw a file, sometimes with a note and sometimes one of several names."""
    texts, modes = st.sampled_from(["", "one", "two", "x" * 3000]), st.sampled_from([0o644, 0o755, 0o600, 0o444])
    notes, twins = st.sampled_from(["", "", "here", "there"]), st.sampled_from([0, 0, 0, 1, 2])
    return st.builds(Node, st.just("file"), texts, modes, TIMES, notes, twins)


def links() -> st.SearchStrategy[Node]:
    return st.builds(Node, st.just("link"), st.sampled_from(["a", "nowhere", "../d"]), st.just(0o777), TIMES)


def folders() -> st.SearchStrategy[Node]:
    modes = st.sampled_from([0o755, 0o700, 0o555])
    return st.builds(Node, st.just("directory"), st.just(""), modes, TIMES, st.sampled_from(["", "", "kept"]))


def build_tree(folder: Path, tree: Tree) -> None:
    """Put a tree into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    twins: dict[int, Path] = {}
    for name in sorted(tree):
        path, node = folder / name, tree[name]
        if node.kind == "directory":
            path.mkdir()
        elif node.kind == "link":
            path.symlink_to(node.text)
            os.utime(path, ns=(node.modified, node.modified), follow_symlinks=False)
        elif node.twin in twins:
            path.hardlink_to(twins[node.twin])
        else:
            path.write_text(node.text)
            finish(path, node)
            if node.twin:
                twins[node.twin] = path
    for name in sorted(tree, reverse=True):
        if tree[name].kind == "directory":
            finish(folder / name, tree[name])
    os.utime(folder, ns=(10**18, 10**18))


def finish(path: Path, node: Node) -> None:
    """Give a file or folder its note, mode and time."""
    if node.note:
        try:
            os.setxattr(path, "user.note", node.note.encode())
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EPERM):
                raise
    path.chmod(node.mode)
    os.utime(path, ns=(node.modified, node.modified))


def read_tree(folder: Path, *, root: bool = True) -> Told:
    """Return all that can be told of what is in a folder, and of it as its `root`; hard links by their first name."""
    found: Told = {}
    first: dict[int, str] = {}
    for path in sorted([*[folder] * root, *folder.rglob("*")]):
        seen, name = path.lstat(), str(path.relative_to(folder))
        notes = {} if path.is_symlink() else {one: os.getxattr(path, one) for one in os.listxattr(path)}
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        twin = "" if path.is_dir() and not path.is_symlink() else first.setdefault(seen.st_ino, name)
        found[name] = (stat.S_IFMT(seen.st_mode), stat.S_IMODE(seen.st_mode), seen.st_mtime_ns, notes, content, twin)
    return found


def read_states(folder: Path) -> dict[str, PathState]:
    """Return the state of each path of a folder."""
    found = {}
    for path in folder.rglob("*"):
        fd = os.open(path.parent, os.O_RDONLY)
        try:
            found[str(path.relative_to(folder))] = look_at(fd, path.name).state
        finally:
            os.close(fd)
    return found


def list_changes(before: Path, after: Path) -> list[PathChange]:
    """Return how one folder differs from another, deleted folders before what was in them."""
    old, new = read_states(before), read_states(after)
    found = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path, NOTHING), new.get(path, NOTHING)
        if not is_at(was, now):
            effect = Effect.CREATE if not was.kind else Effect.DELETE if not now.kind else Effect.EDIT
            found.append(PathChange(path, effect, was, now))
    return found


def find_parted(found: Told, changed: set[str]) -> set[str]:
    """Return the names of files of which some names are changed and some are not."""
    names = {name: value[5] for name, value in found.items() if value[5]}
    kept = {twin for name, twin in names.items() if name not in changed}
    parted = {twin for name, twin in names.items() if name in changed} & kept
    return {name for name, twin in names.items() if twin in parted}


def forget_twins(found: Told, parted: set[str]) -> Told:
    return {name: value[:5] if name in parted else value for name, value in found.items()}


def tell_after(folder: Path, unchanged: set[str]) -> Told:
    """Return what can be told of a folder: of what is on no list of changes not its time and its other names."""
    found = read_tree(folder)
    first: dict[object, str] = {}
    told = {name: value[:2] + value[3:5] for name, value in found.items() if name in unchanged}
    for name in sorted(found.keys() - unchanged):
        value = found[name]
        told[name] = (*value[:5], value[5] and first.setdefault(value[5], name))
    return told
