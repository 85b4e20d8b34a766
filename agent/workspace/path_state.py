"""What lies at a path, as a list of changes says it: looked at beneath open folders, no link followed."""

from __future__ import annotations

import hashlib
import os
import stat
import time

from msgspec import Struct

from foregate.agent.sandbox.attributes import hash_attributes, read_attributes
from foregate.agent.workspace.copying import hash_content
from foregate.agent.workspace.workspace import get_kind
from foregate.schemas.sandbox import PathChange, PathState

NOTHING = PathState()
READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SETTLED = 100_000_000
"""Nanoseconds after which a file's time of change is sure to tell a later write apart."""


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
