"""Freeing the disk of what a log does not need any more."""

from __future__ import annotations

from contextlib import closing

from msgspec import Struct

from foregate.telemetry.keeping.place import LogPlace, hold_place, list_running
from foregate.telemetry.keeping.used_blobs import Collected, collect_unused
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.file_blobs import FileBlobs


class Compaction(Struct, frozen=True):
    """What compacting did: stored bytes removed, and the size of the log's file before and after.

    `running` are sessions that processes have open, with their processes: while there are any the file stays as large
    as it is, because rewriting it would keep them from recording, and what was stored of late is kept.
    """

    blobs: Collected
    before: int
    after: int
    running: dict[str, str]

    @property
    def freed(self) -> int:
        """Bytes that were freed."""
        return self.blobs.removed.bytes + max(0, self.before - self.after)


def compact_log(place: LogPlace, store: FileBlobs) -> Compaction:
    """Remove stored bytes that nothing names, and rewrite the log's file without what is free in it.

    Sessions that run are not disturbed. Ended in the middle, the log is as it was, and some of the bytes are gone that
    nothing names. Raises LogError where another process keeps the same log.
    """
    with hold_place(place):
        return compact_held(place, store)


def compact_held(place: LogPlace, store: FileBlobs) -> Compaction:
    """Do what `compact_log` does, for whoever keeps the log already."""
    before, running = _measure(place), list_running(place)
    collected = collect_unused(place, store, is_busy=bool(running))
    if not running:
        with (
            sqlite_file.explain_errors("compact", place.events),
            closing(sqlite_file.open_log(place.events, create=False)) as connection,
        ):
            sqlite_file.retry_while_busy(place.events, lambda: connection.execute("VACUUM"))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return Compaction(collected, before, _measure(place), running)


def _measure(place: LogPlace) -> int:
    return sum(path.stat().st_size for path in place.files)
