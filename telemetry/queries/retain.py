"""Which sessions may go because they are too old, or because the log is too large."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.session_link import find_root
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.sqlite_file import KIND
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.log_place import LogPlace
from foregate.telemetry.queries.used_blobs import find_used

# "30d", "6 w".
_AGE = compile_late(r"(\d{1,6})\s*([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 168, "y": 8766}
# "500MB", "1.5 GiB".
_SIZE = compile_late(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_ENDED = f"""SELECT leases.number, leases.session, leases.seq,
  CASE WHEN events.text != '' THEN CASE WHEN {KIND} = 'session_ended' THEN json_extract(text, '$.time') END END
  FROM leases LEFT JOIN events USING (session, seq) ORDER BY leases.number"""  # noqa: S608
_SIZES = "SELECT session, count(*), sum(length(CAST(text AS BLOB))) FROM events WHERE text != '' GROUP BY session"
_SNAPSHOTS = "SELECT session, length(data) FROM snapshots"


_LAST_TIMES = """SELECT leases.session, json_extract(text, '$.time') FROM leases JOIN events USING (session, seq)
  WHERE json_valid(text)"""


class Expired(Struct, frozen=True):
    """A session that may go: when it ended, and the events and bytes of it that are left."""

    session: str
    ended: str
    events: int
    bytes: int


class Retention(Struct, frozen=True):
    """Which sessions may go, oldest first. `before` is what the log takes in bytes with all that is stored, `after`
    what it would about take then. `open` counts sessions that are too old and have never ended: they stay.
    """

    expired: tuple[Expired, ...]
    before: int
    after: int
    open: int


class _Family(Struct):
    """A session with those that belong to it."""

    names: list[str] = field(default_factory=list)
    ended: str = ""
    is_over: bool = True
    left: int = 0
    """Events that would be erased."""


def parse_age(text: str) -> timedelta:
    """Return the time that a person names as `90d`; raise UsageError for what is none."""
    found = _AGE.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise UsageError(f"`{text[:40]}` is no age; write a number and h, d, w or y, as in 90d")
    return timedelta(hours=int(found[1]) * _HOURS[found[2]])


def parse_size(text: str) -> int:
    """Return the bytes that a person names as `2GB`, in steps of 1024; raise UsageError for what is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"`{text[:40]}` is no size; write a number and KB, MB, GB or TB, as in 2GB")
    return int(float(found[1]) * 1024 ** _UNITS[found[2].lower()])


def choose_expired(
    place: LogPlace, store: FileBlobs, *, age: timedelta | None, size: int | None, now: datetime | None = None
) -> Retention:
    """Return which sessions may go: those that ended longer ago than `age`, and the oldest ones until all takes `size`.

    A session goes with those that belong to it, once all of them have ended.
    """
    sizes, families = _read_families(place)
    limit = f"{(now or datetime.now(UTC)) - age:%Y-%m-%dT%H:%M:%S}" if age is not None else ""
    over = sorted((one for one in families.values() if one.is_over and one.left), key=lambda one: one.ended)
    before = place.size + sum(blob.size for blob in store.list_blobs())
    chosen, after = [one for one in over if one.ended < limit], before
    if size is not None or chosen:
        needs = _BlobNeeds(place, store, families)
        for one in over:
            if one not in chosen and (size is None or after <= size):
                break
            if one not in chosen:
                chosen.append(one)
            after -= sum(sizes[name][1] for name in one.names) + needs.drop(one)
    expired = [Expired(name, one.ended, *sizes[name]) for one in chosen for name in one.names if sizes[name][0]]
    open_ = sum(not one.is_over and one.ended < limit for one in families.values())
    return Retention(tuple(expired), before, max(0, after), open_)


def _read_families(place: LogPlace) -> tuple[dict[str, tuple[int, int]], dict[str, _Family]]:
    """Return events and bytes left of each session, and the sessions with those that belong to them."""
    with place.open_reader() as reader:
        reader.execute("BEGIN")
        rows = reader.execute(_ENDED).fetchall()
        sizes: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        sizes |= {session: (events, total or 0) for session, events, total in reader.execute(_SIZES)}
        kept = reader.execute(_SNAPSHOTS).fetchall() if sqlite_file.has_table(reader, "snapshots") else []
        sizes |= {session: (sizes[session][0], sizes[session][1] + size) for session, size in kept}
        times = dict(reader.execute(_LAST_TIMES))
    known = {session for _, session, _, _ in rows}
    families: dict[str, _Family] = defaultdict(_Family)
    for _, session, seq, ended in rows:
        family = families[find_root(session, known)]
        if not seq:
            continue
        family.names.append(session)
        family.is_over &= ended is not None
        family.ended = max(family.ended, ended or times.get(session) or "")
        family.left += sizes[session][0] - (ended is not None)
    return sizes, families


class _BlobNeeds:
    """How many sessions still need each of the stored bytes."""

    def __init__(self, place: LogPlace, store: FileBlobs, families: dict[str, _Family]) -> None:
        self._place, self._store = place, store
        self._sizes = {blob.name: blob.size for blob in store.list_blobs()}
        self._needed: dict[int, set[str]] = {}
        self._count: dict[str, int] = defaultdict(int)
        for family in families.values():
            mine = find_used(self._read(family.names), store, self._sizes)
            self._needed[id(family)] = mine
            for name in mine:
                self._count[name] += 1

    def drop(self, family: _Family) -> int:
        """Return the bytes that nobody needs any more without a family."""
        freed = 0
        for name in self._needed[id(family)]:
            self._count[name] -= 1
            freed += 0 if self._count[name] else self._sizes[name]
        return freed

    def _read(self, names: list[str]) -> Iterator[bytes]:
        with self._place.open_reader() as reader:
            reader.text_factory = bytes
            for name in names:
                yield from (text for (text,) in reader.execute("SELECT text FROM events WHERE session = ?", (name,)))
