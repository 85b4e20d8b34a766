"""Where a log lies with what belongs to it: held by one process at a time, copied whole or not at all, by families."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from foregate.schemas.errors import LogError
from foregate.schemas.session_link import find_root
from foregate.telemetry.holder import LeaseHolder
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.temporary_file import open_folder, sync_all, sync_folder

_LOCK = ".keeping"


class LogPlace(Struct, frozen=True):
    """The file of a log, the folder of its blobs, and further files and folders that a backup takes along.

    `reviews` is the file of what people said of its decisions, in a folder of its own.
    """

    events: Path
    blobs: Path
    others: tuple[Path, ...] = ()
    reviews: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the log that are there: the file itself, and what SQLite keeps beside it."""
        beside = (self.events, *(self.events.with_name(f"{self.events.name}{end}") for end in ("-wal", "-shm")))
        return tuple(path for path in beside if path.exists())

    @property
    def size(self) -> int:
        """The bytes that the files of the log take."""
        return sum(path.stat().st_size for path in self.files)

    @contextmanager
    def open_reader(self) -> Iterator[sqlite3.Connection]:
        """Open the log's file for a block; raise LogError where it cannot be read."""
        with sqlite_file.explain_errors("read", self.events), closing(sqlite_file.open_reader(self.events)) as reader:
            yield reader


def copy_database(source: Path, target: Path) -> None:
    """Copy a log's file, which may be in use, to a new one; raise LogError where that cannot be done."""
    target.touch(mode=0o600)
    with (
        sqlite_file.explain_errors("copy", source),
        closing(sqlite_file.open_reader(source)) as reader,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        sqlite_file.retry_while_busy(source, lambda: reader.backup(copy))
        leave_copy(copy)


def leave_copy(copy: sqlite3.Connection) -> None:
    """Leave a copy so that nobody has its sessions, and that it is one file, which can be read where nobody writes.

    It has no snapshots: they count only where the key is that they were made with.
    """
    sqlite_file.overwrite_deleted(copy)
    copy.execute("UPDATE leases SET owner = '', pid = 0, started = '', boot = '', place = '' WHERE owner != ''")
    if sqlite_file.has_table(copy, "snapshots"):
        copy.execute("DELETE FROM snapshots")
    copy.execute("PRAGMA journal_mode=DELETE").fetchone()


@contextmanager
def hold_place(place: LogPlace) -> Iterator[None]:
    """Be the only process that keeps a log; raise LogError where another does just now."""
    path = place.events.parent / _LOCK
    with sqlite_file.explain_errors("keep", place.events):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = f"another `foregate log` works on `{place.events}`; wait until it has ended"
            raise LogError(busy) from None
        yield
    finally:
        os.close(file)


def list_running(place: LogPlace) -> dict[str, str]:
    """Return the sessions that a process has open, and which process that is, as a person would look for it."""
    query = "SELECT session, pid, started, boot, place FROM leases WHERE owner != '' ORDER BY number"
    with place.open_reader() as reader:
        rows = reader.execute(query).fetchall()
    holders = {session: LeaseHolder(*about) for session, *about in rows}
    folder = place.events.parent
    return {name: one.description for name, one in holders.items() if one.find_standing(folder) != "gone"}


@contextmanager
def make_target(target: Path) -> Iterator[Path]:
    """Give a new folder to a block; when the block ends well it is `target`, and survives a power cut.

    Raises LogError where something is at `target` already, and where the folder cannot be made.
    """
    if os.path.lexists(target):
        raise LogError(f"there is something at `{target}` already; name a new folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".foregate-copy-", dir=target.parent))
    except OSError as error:
        raise _build_error(target, error) from None
    try:
        yield made
        with open_folder(made) as opened:
            sync_all(opened)
        _name(made, target)
    except OSError as error:
        raise _build_error(target, error) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _name(made: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise LogError(f"somebody made `{target}` meanwhile; name another folder")
    made.rename(target)
    with open_folder(target.parent) as opened:
        sync_folder(opened)


def _build_error(target: Path, error: OSError) -> LogError:
    return LogError(f"`{target}` cannot be written ({error.strerror}); name a folder on a disk with room")


def find_families(wanted: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return sessions with all that belong to them, oldest first; `known` are all, newest first.

    Of a task that a session handed on, named in full, only itself and what it handed on.
    """
    names, everything = list(wanted), set(known)
    roots = {find_root(name, everything) for name in names if "." not in name}
    parts = tuple(f"{name}." for name in names if "." in name)
    return [
        name
        for name in reversed(known)
        if find_root(name, everything) in roots or name in names or name.startswith(parts)
    ]
