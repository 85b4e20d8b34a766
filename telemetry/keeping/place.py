"""Where a log lies with what belongs to it, and that one process at a time keeps it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from foregate.schemas.errors import LogError
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.holder import LeaseHolder

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
    with closing(sqlite_file.open_reader(place.events)) as reader:
        rows = reader.execute(query).fetchall()
    holders = {session: LeaseHolder(*about) for session, *about in rows}
    folder = place.events.parent
    return {name: one.description for name, one in holders.items() if one.find_standing(folder) != "gone"}
