"""What a snapshot of a workspace keeps: the entries that a scan meets, and contents by their SHA-256."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.sandbox.attributes import choose_attributes, pack_attributes, read_attributes
from foregate.agent.workspace.copying import copy_content, hash_content, sync_file_system
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathKind, PathState
from foregate.schemas.strict_json import sha256

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGE = 1 << 20
_HALF = ".half"
LATEST, PENDING, AFTER = "latest", "pending", "after"
"""The notes: the snapshot that was taken last, that its command is not settled, and where that changed something."""
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEEPEST = 200
"""Folders inside folders that are looked into."""
_READABLE = 0o500
_KINDS: dict[int, PathKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SETTLED = 2_000_000_000
"""Nanoseconds after which the times of a file are sure to tell a later change apart, on any file system."""


class FileSnapshotStore:
    """A folder for the snapshots of one workspace, closed to other users; one process at a time may hold it.

    `with` holds it. Contents are on disk after `sync` and not before. Raises WorkspaceError where it cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self._folder = folder, -1
        self._has_new = False

    def __enter__(self) -> FileSnapshotStore:
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            self._folder = os.open(self.path, _FOLDER)
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            raise WorkspaceError("another command changes this workspace; wait until it has ended") from None
        except OSError as error:
            raise WorkspaceError(f"no copies can be kept in `{self.path}` ({error.strerror}); make room") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def put(self, data: bytes) -> str:
        """Keep bytes and return their hash."""
        name = strict_json.sha256(data)
        if not self._has(name):
            self._write(_HALF, data)
            self._place(name)
        return name

    def put_file(self, file: int) -> str:
        """Keep the content of an open file, read from where it is, and return its hash."""
        if os.fstat(file).st_size < _LARGE:
            return self.put(os.read(file, _LARGE))
        half = os.open(_HALF, _NEW, 0o600, dir_fd=self._folder)
        try:
            name = copy_content(file, half)
        finally:
            os.close(half)
        self._place(name)
        return name

    def link(self, folder: int, name: str, as_name: str) -> bool:
        """Keep a file of an open folder by giving it a further name; False where that cannot be done."""
        try:
            os.link(name, as_name, src_dir_fd=folder, dst_dir_fd=self._folder, follow_symlinks=False)
        except FileExistsError:
            return os.path.samestat(os.lstat(name, dir_fd=folder), os.lstat(as_name, dir_fd=self._folder))
        except OSError:
            return False
        self._has_new = True
        return True

    def link_back(self, as_name: str, folder: int, name: str) -> None:
        """Give a file that was linked its name in an open folder again. Raises OSError."""
        os.link(as_name, name, src_dir_fd=self._folder, dst_dir_fd=folder, follow_symlinks=False)

    def open(self, name: str) -> int:
        """Open what is kept under a name for reading; raise WorkspaceError where it is gone."""
        try:
            return os.open(name, _READ, dir_fd=self._folder)
        except OSError as error:
            raise WorkspaceError(f"a copy in `{self.path}` cannot be read ({error.strerror})") from None

    def get(self, name: str) -> bytes:
        """Return bytes that were kept, raise WorkspaceError where they are gone or others."""
        with os.fdopen(self.open(name), "rb") as stream:
            data = stream.read()
        if strict_json.sha256(data) != name:
            raise WorkspaceError(f"the copies in `{self.path}` were damaged; look what is in the workspace")
        return data

    def note(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write a note of that name anew; a durable one survives a power cut."""
        self._write(_HALF, data, durable=durable)
        os.rename(_HALF, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        if durable:
            os.fsync(self._folder)

    def read_note(self, name: str) -> bytes:
        """Return what was noted under a name, nothing where nothing was."""
        try:
            file = os.open(name, _READ, dir_fd=self._folder)
        except FileNotFoundError:
            return b""
        with os.fdopen(file, "rb") as stream:
            return stream.read()

    def keep_only(self, names: Iterable[str]) -> None:
        """Remove every copy but those of these names; notes stay."""
        wanted = {*names, LATEST, PENDING, AFTER}
        for name in os.listdir(self._folder):  # noqa: PTH208 - a descriptor is no path
            if name not in wanted:
                os.unlink(name, dir_fd=self._folder)

    def forget(self, name: str) -> None:
        """Remove a note."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def sync(self) -> None:
        """Put what was kept on disk; raise SyncError where the disk refuses."""
        if self._has_new:
            sync_file_system(self._folder)
            self._has_new = False

    def _has(self, name: str) -> bool:
        with suppress(OSError):
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            return True
        return False

    def _write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        file = os.open(name, _NEW, 0o600, dir_fd=self._folder)
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(file)

    def _place(self, name: str) -> None:
        os.rename(_HALF, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._has_new = True


class Met(NamedTuple):
    """Something in a folder: its path relative to the top, "." for that itself, and the open folder it is named in.

    The folder is open until the next one is met. A path that is no text holds surrogates.
    """

    path: str
    folder: int
    name: str
    found: os.stat_result


def refuse_depth(path: str) -> None:
    """Raise WorkspaceError for a folder that lies too deep."""
    raise WorkspaceError(f"the workspace holds folders more than {DEEPEST} deep, as `{path[:80]}`; flatten them")


def scan(
    top: int,
    *,
    skips: Callable[[str], bool] = lambda path: False,
    opens: Callable[[str], bool] = lambda path: False,
    leaves: Callable[[str], None] = refuse_depth,
) -> Iterator[Met]:
    """Yield an open folder and all that is in it, each folder before what it holds, but what is skipped.

    What vanishes on the way is left out. So is what is in an unreadable folder, unless `opens` says that it may be made
    readable meanwhile. `leaves` is told of a folder that lies too deep to be looked into. Raises what that raises, and
    OSError.
    """
    yield Met(".", top, ".", os.stat(top))
    yield from _scan_folder(top, "", skips, opens, leaves, 0)


def _scan_folder(
    folder: int,
    prefix: str,
    skips: Callable[[str], bool],
    opens: Callable[[str], bool],
    leaves: Callable[[str], None],
    depth: int,
) -> Iterator[Met]:
    if depth > DEEPEST:
        leaves(prefix)
        return
    inner: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if skips(path):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield Met(path, folder, entry.name, found)
            if stat.S_ISDIR(found.st_mode):
                inner.append(entry.name)
    for name in inner:
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            opened, mode = _open(folder, name, lifts=opens(f"{prefix}{name}"))
            try:
                yield from _scan_folder(opened, f"{prefix}{name}/", skips, opens, leaves, depth + 1)
            finally:
                if mode is not None:
                    os.fchmod(opened, mode)
                os.close(opened)


def _open(folder: int, name: str, *, lifts: bool) -> tuple[int, int | None]:
    """Open a folder, and return the mode to give back to it where it had to be lifted."""
    if not lifts:
        return os.open(name, _OPEN_FOLDER, dir_fd=folder), None
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(found).st_mode)
        if mode & _READABLE != _READABLE:
            os.chmod(f"/proc/self/fd/{found}", mode | _READABLE)  # noqa: PTH101 - no path
        return os.open(".", _OPEN_FOLDER, dir_fd=found), mode if mode & _READABLE != _READABLE else None
    finally:
        os.close(found)


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
