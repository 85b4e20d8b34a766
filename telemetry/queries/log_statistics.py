"""What a log holds and what it costs: events by kind, sessions, stored bytes, and what could be freed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from msgspec import Struct

from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.snapshots import Unkept, read_unkept
from foregate.telemetry.log.sqlite_file import KIND
from foregate.telemetry.log.sqlite_reader import find_gaps
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.log_place import LogPlace, list_running
from foregate.telemetry.queries.used_blobs import BlobCount, find_unused

_ENDED = f"""SELECT count(*) FROM leases JOIN events USING (session, seq)
  WHERE CASE WHEN events.text != '' THEN {KIND} END = 'session_ended'"""  # noqa: S608
_KINDS = f"""SELECT coalesce({KIND}, CASE WHEN text = '' THEN 'erased' ELSE 'unreadable' END) AS named,
  count(*), sum(length(CAST(text AS BLOB))) FROM events GROUP BY named ORDER BY 3 DESC, named"""  # noqa: S608
_COUNTS = {
    "parts": "SELECT count(*), coalesce(sum(length(CAST(text AS BLOB))), 0) FROM parts",
    "snapshots": "SELECT count(*), coalesce(sum(length(data)), 0) FROM snapshots WHERE data != x''",
}


class KindSize(Struct, frozen=True):
    """Events of a kind, and the bytes of their texts."""

    events: int
    bytes: int


class LogStatistics(Struct, frozen=True):
    """What a log holds. `kinds` are its events by kind; texts that several have in common are `shared`, once.

    Of the sessions some have `ended`, are `running` or were `never_begun`; `children` are tasks of others. `missing`
    are ranges of numbers of sessions that are gone: every session gets the next number, so somebody deleted those.
    `snapshots` are the sessions that have one, and `unkept` those without a recent one, with why.
    `file` is what the log's file takes and `free` what `compact` would take away of it; `blobs` are all stored bytes,
    and `unused` those nothing names.
    """

    sessions: int
    children: int
    ended: int
    running: int
    never_begun: int
    missing: tuple[tuple[int, int], ...]
    events: int
    kinds: Mapping[str, KindSize]
    shared: KindSize
    snapshots: KindSize
    unkept: tuple[Unkept, ...]
    file: int
    free: int
    blobs: BlobCount
    unused: BlobCount

    @property
    def freed(self) -> int:
        """Bytes that `compact` would free."""
        return self.free + self.unused.bytes


def count_log(place: LogPlace, store: FileBlobs) -> LogStatistics:
    """Count what a log and its stored bytes hold; raise LogError where they cannot be read."""
    with place.open_reader() as reader:
        reader.execute("BEGIN")
        kinds = {kind: KindSize(events, size) for kind, events, size in reader.execute(_KINDS)}
        shared, snapshots = _count_rows(reader, "parts"), _count_rows(reader, "snapshots")
        unkept = read_unkept(reader)
        rows = reader.execute("SELECT number, session, seq FROM leases ORDER BY number").fetchall()
        (ended,) = reader.execute(_ENDED).fetchone()
        (page,), (free,) = (reader.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "freelist_count"))
    begun = [session for _, session, seq in rows if seq]
    return LogStatistics(
        sessions=len(begun),
        children=sum("." in session for session in begun),
        ended=ended,
        running=len(list_running(place)),
        never_begun=len(rows) - len(begun),
        missing=tuple(find_gaps(number for number, _, _ in rows)),
        events=sum(one.events for one in kinds.values()),
        kinds=kinds,
        shared=shared,
        snapshots=snapshots,
        unkept=tuple(unkept),
        file=place.size,
        free=free * page,
        blobs=BlobCount.of(store.list_blobs()),
        unused=BlobCount.of(find_unused(place, store)),
    )


def _count_rows(reader: sqlite3.Connection, table: str) -> KindSize:
    if not sqlite_file.has_table(reader, table):
        return KindSize(0, 0)
    return KindSize(*reader.execute(_COUNTS[table]).fetchone())
