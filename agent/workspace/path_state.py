"""What lies at a path, the step that brings it to another state, and the folder where new contents wait for that."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Protocol

from msgspec import Struct

from foregate.agent.sandbox.attributes import hash_attributes, read_attributes
from foregate.agent.workspace.copying import hash_content
from foregate.agent.workspace.file_traits import FileTraits
from foregate.agent.workspace.workspace import Workspace, get_kind, refuse_errors
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathChange, PathState

NOTHING = PathState()
READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SETTLED = 100_000_000
"""Nanoseconds after which a file's time of change is sure to tell a later write apart."""
_SAID = 5
_AT_ONCE = 8
_READY = "ready"
"""A name in a staging folder that says that everything is written: from now on things come and go."""


class SeenPath(Struct, frozen=True):
    """A state, and by what the thing that was looked at is known again: `found` is None for nothing."""

    state: PathState
    found: os.stat_result | None = None
    at: int = 0
    """When it was looked at, in nanoseconds."""

    def is_same(self, found: os.stat_result) -> bool:
        """Whether this is what was looked at, unchanged, for sure."""
        was = self.found
        return was is not None and all(
            (
                (was.st_dev, was.st_ino, was.st_size) == (found.st_dev, found.st_ino, found.st_size),
                (was.st_mode, was.st_mtime_ns) == (found.st_mode, found.st_mtime_ns),
                self.at - was.st_mtime_ns > _SETTLED,
            )
        )


def look_at(folder: int, name: str) -> SeenPath:
    """Return what a name of an open folder is, all of its content hashed; raise OSError where it cannot be read."""
    at = time.time_ns()
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return SeenPath(NOTHING)
    kind = get_kind(found.st_mode)
    if kind == "link":
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        digest = hashlib.sha256(target).hexdigest()
        return SeenPath(PathState("link", digest, 0, len(target), owner=_name_owner(found)), found, at)
    if kind == "other":
        return SeenPath(PathState("other", mode=stat.S_IMODE(found.st_mode)), found, at)
    file = os.open(name, READ_FOLDER if kind == "directory" else READ_FILE, dir_fd=folder)
    try:
        found = os.fstat(file)
        # It was replaced by something special in between.
        if get_kind(found.st_mode) != kind:
            return SeenPath(PathState("other"), found, at)
        mode, traits = stat.S_IMODE(found.st_mode), hash_attributes(read_attributes(file))
        owner = _name_owner(found)
        if kind == "directory":
            return SeenPath(PathState("directory", "", mode, 0, traits, owner), found, at)
        return SeenPath(PathState("file", hash_content(file), mode, found.st_size, traits, owner), found, at)
    finally:
        os.close(file)


def _name_owner(found: os.stat_result) -> str:
    return f"{found.st_uid}:{found.st_gid}"


def is_at(now: PathState, wanted: PathState) -> bool:
    """Whether a state is the wanted one, as far as the kind of thing has what is compared.

    Owners are not compared: a file that is put in a place may have to stay ours.
    """
    if now.kind != wanted.kind:
        return False
    if now.kind == "link":
        return now.hash == wanted.hash
    mode_and_traits = (now.mode, now.traits) == (wanted.mode, wanted.traits)
    return now.kind in ("", "other") or (mode_and_traits and (now.kind == "directory" or now.hash == wanted.hash))


def is_adjusted(now: PathState, then: PathState) -> bool:
    """Whether a file becomes what it is to be where it lies: its content and attributes are as they are to be."""
    same = (now.hash, now.traits, now.owner) == (then.hash, then.traits, then.owner)
    return now.kind == then.kind == "file" and same


def is_between(now: PathState, change: PathChange) -> bool:
    """Whether a path can be so in the middle of a change: a folder not yet finished, or nothing between two kinds."""
    before, after = change.before, change.after
    if now.kind == "directory":
        modes = {mode | more for mode in (before.mode, after.mode) for more in (0, 0o700)} | {0o700}
        return "directory" in (before.kind, after.kind) and now.mode in modes
    return not now.kind and before.kind != after.kind


class Conflict(WorkspaceError):
    """Paths are not what was to be replaced. `paths` names them, `left` those that could not be brought back."""

    def __init__(self, paths: Sequence[str], left: Sequence[str] = ()) -> None:
        named = ", ".join(f"`{path[:80]}`" for path in paths[:_SAID]) + " and more" * (len(paths) > _SAID)
        super().__init__(f"{named} changed meanwhile; look what is there, then repeat the call")
        self.paths, self.left = tuple(paths), tuple(left)


class PlacementFailed(WorkspaceError):
    """Placing broke off for another reason. `left` names the paths that could not be brought back."""

    def __init__(self, why: str, left: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.left = tuple(left)


class Step(Struct, frozen=True):
    """What a path is now, and what it is to be. `number` names it among the steps of one list.

    `linked` says that its file has or had other names, which a change of mode must not reach.
    """

    number: int
    path: str
    now: PathState
    then: PathState
    linked: bool = False

    @property
    def is_staged(self) -> bool:
        """Whether something new takes the place."""
        return self.then.kind in ("file", "link") and (self.linked or not is_adjusted(self.now, self.then))

    @property
    def is_moved(self) -> bool:
        """Whether a name in its folder comes, goes, or becomes that of another thing."""
        return self.is_staged or self.now.kind != self.then.kind


class Content(Struct, frozen=True):
    """What a path is to hold: an open file, which is closed after reading, or bytes; a link's target is bytes.

    Paths with the same `twin` are names of one file; None is alone.
    """

    data: int | bytes
    traits: FileTraits
    twin: object = None


class Source(Protocol):
    """Where new contents come from."""

    def open_content(self, path: str, then: PathState) -> Content:
        """Return what a file or a link is to hold; raise WorkspaceError where there is nothing that fits."""

    def read_traits(self, path: str, then: PathState) -> FileTraits:
        """Return what a file or a folder is to have beside its content; raises as `open_content`."""


@contextmanager
def open_parent(workspace: Workspace, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder that holds a path; raise OSError where it is none, and WorkspaceError on another file system."""
    with workspace.parent(path) as (folder, name), workspace.directory(".") as root:
        if os.fstat(folder).st_dev != os.fstat(root).st_dev:
            raise WorkspaceError(f"`{path[:80]}` lies on another file system than the workspace; change it by hand")
        yield folder, name


def look_at_path(workspace: Workspace, path: str) -> SeenPath:
    """Return what a path is, nothing where a folder above it is none; raise WorkspaceError for what cannot be read."""
    try:
        with open_parent(workspace, path) as (folder, name):
            return look_at(folder, name)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return SeenPath(NOTHING)
        raise WorkspaceError(f"cannot look at `{path[:80]}`: {error.strerror}") from None


def rank_path(path: str) -> int:
    """Return a number by which git's files are put: never a name before what it names; others come in between."""
    parts = path.split("/")
    if ".git" not in parts[:-1]:
        return 2
    inside = parts[parts.index(".git") + 1 :]
    if "objects" in inside[:-1]:
        return 1 if path.endswith(".idx") else 0
    return 3 if "logs" in inside else {"index": 4, "HEAD": 5}.get(inside[-1], 3)


_NO_REPLACE, _EXCHANGE = 1, 2
_NOT_OFFERED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""What a kernel or a file system says that knows no such rename."""


@cache
def _load_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def exchange(old: int, source: str, new: int, target: str) -> bool:
    """Swap two names of open folders at once; return False where that is not offered. Raises OSError."""
    return rename_with(old, source, new, target, _EXCHANGE)


def move_new(old: int, source: str, new: int, target: str) -> None:
    """Rename a thing of one open folder to a name of another where nothing is; raise OSError, also where something is.

    Where no rename that overwrites nothing is offered, what comes into the place between looking and renaming is lost.
    """
    if rename_with(old, source, new, target, _NO_REPLACE):
        return
    try:
        os.stat(target, dir_fd=new, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=old, dst_dir_fd=new)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)


def rename_with(old: int, source: str, new: int, target: str, flags: int) -> bool:
    """Rename with flags of the kernel; return False where it does not offer them. Raises OSError."""
    call = getattr(_load_library(), "renameat2", None)
    if call is None:
        return False
    if call(old, os.fsencode(source), new, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), target)


def mark_ready(staging: int) -> None:
    """Say of an open staging folder that everything in it is written, before the first of it is put in its place."""
    os.close(os.open(_READY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=staging))


def remove_staging(root: int, name: str) -> None:
    """Remove a staging folder and what is left in it, as far as that can be done."""
    with suppress(OSError):
        staging = os.open(name, READ_FOLDER, dir_fd=root)
        try:
            inside = os.listdir(staging)  # noqa: PTH208 - a descriptor is no path
            # Starting threads takes longer.
            if len(inside) <= _AT_ONCE:
                for old in inside:
                    os.unlink(old, dir_fd=staging)
            else:
                # One after the other, each waits for a busy disk.
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    list(pool.map(lambda old: os.unlink(old, dir_fd=staging), inside))
        finally:
            os.close(staging)
        os.rmdir(name, dir_fd=root)


def clear_staging(workspace: Workspace, name: str, steps: Sequence[Step]) -> list[str]:
    """Remove the staging folder of a dead process; return the paths to which it had to bring something back.

    That is what came out of a place and is not what was to be replaced: somebody saved it in the last moment. Raises
    WorkspaceError where it cannot be brought back.
    """
    found = []
    with refuse_errors("read", name), workspace.directory(".") as root:
        if not workspace.look(name).kind:
            return []
        staging = os.open(name, READ_FOLDER, dir_fd=root)
        try:
            by_number = {str(step.number): step for step in steps}
            names = os.listdir(staging)  # noqa: PTH208 - a descriptor is no path
            for inside in sorted(names) if _READY in names else ():
                step = by_number.get(inside.removesuffix(".old"))
                if step is not None and _bring_back(workspace, staging, inside, step):
                    found.append(step.path)
        finally:
            os.close(staging)
        remove_staging(root, name)
    return found


def _bring_back(workspace: Workspace, staging: int, name: str, step: Step) -> bool:
    """Bring back what came out of the place of a step, where it is not what was to; return whether it was so."""
    state = look_at(staging, name).state
    if is_at(state, step.now) or is_at(state, step.then):
        return False
    with suppress(FileNotFoundError, NotADirectoryError), open_parent(workspace, step.path) as (folder, own):
        there = look_at(folder, own).state
        if not there.kind and step.now.kind:
            move_new(staging, name, folder, own)
            return True
        if there.kind and is_at(there, step.then):
            return exchange(staging, name, folder, own)
    return False
