"""One thing of a workspace as a snapshot has it, and by what it is known again without reading it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.sandbox.attributes import choose_attributes, pack_attributes, read_attributes
from foregate.agent.workspace.copying import hash_content
from foregate.agent.workspace.scan import Met
from foregate.schemas.sandbox import PathKind, PathState
from foregate.schemas.strict_json import sha256

_KINDS: dict[int, PathKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SETTLED = 2_000_000_000
"""Nanoseconds after which the times of a file are sure to tell a later change apart, on any file system."""


class Stamp(Struct, frozen=True, array_like=True):
    """What the kernel says of a file: while it says the same, and is `settled`, nothing of the file has changed.

    `modified` and `changed` are in nanoseconds; the latter cannot be set. `inode` is device and number.
    """

    mode: int
    owner: tuple[int, int]
    size: int
    modified: int
    changed: int
    inode: tuple[int, int]
    links: int

    @property
    def kind(self) -> PathKind:
        """What kind of thing it is."""
        return _KINDS.get(stat.S_IFMT(self.mode), "other")


def stamp(found: os.stat_result) -> Stamp:
    """Return what the kernel says of a file."""
    folder = stat.S_ISDIR(found.st_mode)
    return Stamp(
        mode=found.st_mode,
        owner=(found.st_uid, found.st_gid),
        size=0 if folder else found.st_size,
        modified=found.st_mtime_ns,
        changed=found.st_ctime_ns,
        inode=(found.st_dev, found.st_ino),
        links=1 if folder else found.st_nlink,
    )


class SnapshotEntry(Struct, frozen=True, array_like=True):
    """A thing in a snapshot. `content` is the SHA-256 of a file's content, "" for what has none or could not be read.

    A link's is that of its target. `attributes` is the SHA-256 of the packed extended attributes. Of a file that is
    kept by a further `name` the content is hashed when somebody asks. `settled` says that its stamp is enough, `unread`
    that nobody could read it.
    """

    stamp: Stamp
    content: str = ""
    attributes: str = ""
    name: str = ""
    settled: bool = False
    unread: bool = False

    def is_still(self, now: Stamp) -> bool:
        """Whether this is for sure what the kernel now says it is."""
        return self.settled and self.stamp == now

    @property
    def state(self) -> PathState:
        """What lists of changes say of it."""
        return PathState(
            kind=self.stamp.kind,
            hash=self.content,
            mode=stat.S_IMODE(self.stamp.mode),
            size=self.stamp.size,
            traits=self.attributes,
            owner="{}:{}".format(*self.stamp.owner),
        )


def read_entry(met: Met, put: Callable[[bytes], str], put_file: Callable[[int], str], name: str = "") -> SnapshotEntry:
    """Return what was met, with its content given to `put_file`, and what else is bytes to `put`; both return hashes.

    `name` is by which it is kept already. Raises OSError for what cannot be read.
    """
    at = time.time_ns()
    if stat.S_ISLNK(met.found.st_mode):
        return _settle(SnapshotEntry(stamp(met.found), put(os.fsencode(os.readlink(met.name, dir_fd=met.folder)))), at)
    if stamp(met.found).kind == "other":
        kind = f"{stat.S_IFMT(met.found.st_mode)} {met.found.st_rdev}".encode()
        return _settle(SnapshotEntry(stamp(met.found), sha256(kind)), at)
    file = os.open(met.name, _OPEN, dir_fd=met.folder)
    try:
        content = put_file(file) if stat.S_ISREG(met.found.st_mode) else ""
        found = choose_attributes(read_attributes(file))
        entry = SnapshotEntry(stamp(met.found), content, put(pack_attributes(found)) if found else "", name)
        return _settle(entry, at if stamp(os.fstat(file)) == entry.stamp else 0)
    finally:
        os.close(file)


def _settle(entry: SnapshotEntry, at: int) -> SnapshotEntry:
    newest = max(entry.stamp.modified, entry.stamp.changed)
    return replace(entry, settled=at - newest > _SETTLED)


def look_at(met: Met) -> SnapshotEntry:
    """Return what was met and keep nothing. Raises OSError but for what this user may not read."""
    with suppress(PermissionError):
        return read_entry(met, sha256, hash_content)
    return SnapshotEntry(stamp(met.found), unread=True)
