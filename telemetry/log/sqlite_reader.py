"""Reading the log's file: its events as they were written, whatever of their texts is stored apart or erased."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import GENESIS, Event
from foregate.schemas.event_body import Kind
from foregate.schemas.protocols import Erasure, Head, Snapshot
from foregate.telemetry.holder import LeaseHolder
from foregate.telemetry.log import chain, parts, snapshots, sqlite_file
from foregate.telemetry.log.erasing import build_erased_error

Row = tuple[Any, ...]
_COLUMNS = "SELECT session, seq, text, hash FROM events WHERE"
LAST = f"SELECT seq, hash, {sqlite_file.KIND} FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1"  # noqa: S608
"""The last event of a session: its number, hash and kind."""
_MISSING = "\0"
"""What stands for a part that is gone or was changed: no JSON holds it, so that nobody takes the rest for the event."""
_SHARED = 64
"""Parts that are kept while rows are read: sessions one after the other mostly have the same."""


class SqliteReader:
    """The events in the file at `path`, unverified. What the file holds is looked at when something is asked."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._keeps_reader = False

    async def sessions(self) -> Sequence[str]:
        """Return the names of all sessions, newest first; one whose process ended before its first event is none."""
        query = "SELECT session FROM leases WHERE seq > 0 ORDER BY number DESC"
        return [name for (name,) in await asyncio.to_thread(self._fetch_rows, query, ())]

    def find_missing(self) -> list[tuple[int, int]]:
        """Return the ranges of numbers whose sessions are gone: each session gets the next one, and none is deleted.

        Sessions that were deleted from the end are not among them; only a head kept elsewhere tells of those.
        """
        return find_gaps(number for (number,) in self._fetch_rows("SELECT number FROM leases ORDER BY number", ()))

    async def head(self, session: str) -> Head:
        """Return the last event's number and hash; see Log."""
        await self._settle_own(session)
        rows = await asyncio.to_thread(self._fetch_rows, LAST, (session,))
        if not rows:
            await asyncio.to_thread(self.head_anchor, session)
        seq, hash_, kind = rows[0] if rows else (0, GENESIS, "")
        return Head(seq, hash_, kind == "session_ended")

    async def read(
        self, session: str, *, after: int = 0, limit: int = 0, kinds: Sequence[Kind] = ()
    ) -> Sequence[Event]:
        """Return events after a number; see Log. What this process appended is among them.

        Raises LogError for a session whose events were erased, since those left do not tell how it stands.
        """
        await self._settle_own(session)
        return await asyncio.to_thread(self._read_events, session, after, limit, kinds)

    async def read_snapshot(self, session: str) -> Snapshot | None:
        """Return the snapshot of a session, None without one of an event it still has.

        Raises UnreadableSnapshot for one that this log did not put there as it is.
        """
        await self._settle_own(session)
        return await asyncio.to_thread(self._read_snapshot, session)

    async def find_holder(self, session: str) -> str:
        """Return which live process holds a session, as a person would look for it, "" for none."""
        query = "SELECT pid, started, boot, place FROM leases WHERE session = ? AND owner != ''"
        for row in await asyncio.to_thread(self._fetch_rows, query, (session,)):
            holder = LeaseHolder(*row)
            return "" if holder.find_standing(self.path.parent) == "gone" else holder.description
        return ""

    async def _settle_own(self, session: str) -> None:
        """Have it in the file what this process appended to a session: nothing, where it only reads."""

    def _check_process(self) -> None:
        """Raise LogError where this process may not open the file."""

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield (number, canonical text, hash) of each durable event as it was written, for verification.

        The text of an erased event is "". The rows are those of one moment, read one by one. Raises LogError for an
        unknown session.
        """
        self.head_anchor(session)
        for _, seq, text, hash_ in self._stream_events(f"{_COLUMNS} session = ? ORDER BY seq", (session,)):
            yield seq, text or "", hash_

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield durable events after a number, up to another, of some kinds or of all, one by one, but erased ones.

        Unverified. Raises LogError where an event cannot be read, also for one that no longer says which kind it is.
        """
        of_kind = f" AND {_build_condition(kinds)}" if kinds else ""
        upto = " AND seq <= ?" if until else ""
        query = f"{_COLUMNS} session = ? AND seq > ?{upto}{of_kind} ORDER BY seq"
        self.head_anchor(session)
        values = (session, after, *((until,) if until else ()), *kinds[:1], *kinds)
        yield from _read_rows(self._stream_events(query, values))

    def read_all_sessions(self, kinds: Sequence[Kind]) -> Iterator[Event]:
        """Yield the durable events of some kinds of all sessions, one session after the other; see `events`."""
        query = f"{_COLUMNS} {_build_condition(kinds)} ORDER BY session, seq"
        yield from _read_rows(self._stream_events(query, (*kinds[:1], *kinds)))

    def count_events(self) -> int:
        """Return how many events all sessions have, as noted beside the leases: another number means news."""
        ((count,),) = self._fetch_rows("SELECT coalesce(sum(seq), 0) FROM leases", ())
        return int(count)

    def list_erased(self, session: str) -> Mapping[int, Erasure]:
        """Return which events of a session were erased, by their numbers, and by whom."""
        query = 'SELECT seq, at, "by", why FROM erased WHERE session = ? ORDER BY seq'
        if self._is_older():
            return {}
        return {seq: Erasure(*about) for seq, *about in self._fetch_rows(query, (session,))}

    def count_erased(self) -> int:
        """Return how many events were erased of all sessions: another number means that some were since."""
        ((count,),) = [(0,)] if self._is_older() else self._fetch_rows("SELECT count(*) FROM erased", ())
        return int(count)

    def _read_snapshot(self, session: str) -> Snapshot | None:
        rows = [] if self._is_older() else self._fetch_rows(snapshots.READ, (session,))
        return snapshots.unpack_snapshot(self.path, session, *rows[0]) if rows else None

    def _is_older(self) -> bool:
        """Whether the file lacks tables of this version, since it was only opened to be read."""
        with self._reading, sqlite_file.explain_errors("read", self.path):
            return sqlite_file.is_older(self._open_reader())

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event as noted beside the lease, to find a tail that was cut off."""
        for seq, hash_ in self._fetch_rows("SELECT seq, hash FROM leases WHERE session = ?", (session,)):
            return seq, hash_
        raise self._build_unknown_error(session)

    def _read_events(self, session: str, after: int, limit: int, kinds: Sequence[Kind]) -> list[Event]:
        """Return events after a number, 0 as a limit for all; raise LogError where one was erased."""
        self.head_anchor(session)
        found = []
        of_kind = f" AND {_build_condition(kinds)}" if kinds else ""
        query = f"{_COLUMNS} session = ? AND seq > ?{of_kind} ORDER BY seq LIMIT ?"
        # To SQLite a negative limit is none.
        values = (session, after, *kinds[:1], *kinds, limit or -1)
        for _, seq, text, hash_ in self._stream_events(query, values):
            if text is None:
                raise build_erased_error(session, self.list_erased(session)[seq])
            found.append(_read_row(session, seq, text, hash_))
        return found

    def _open_reader(self) -> sqlite3.Connection:
        """Return the connection for what is read at once; whoever calls holds its lock."""
        self._reader = self._reader or sqlite_file.open_reader(self.path)
        return self._reader

    def close(self) -> None:
        """Close the file; doing it twice is harmless."""
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _fetch_rows(self, query: str, values: tuple[object, ...]) -> list[Row]:
        with self._reading, sqlite_file.explain_errors("read", self.path):
            reader = self._open_reader()
            return sqlite_file.retry_while_busy(self.path, lambda: reader.execute(query, values).fetchall())

    def _stream_events(self, query: str, values: tuple[object, ...]) -> Iterator[tuple[str, int, str | None, str]]:
        """Yield session, number, whole text and hash over a connection of its own, of one moment of the file.

        The text of an erased event is None.
        """
        self._check_process()
        with sqlite_file.explain_errors("read", self.path), self._borrow_reader() as reader:
            sqlite_file.retry_while_busy(self.path, lambda: reader.execute("BEGIN"))
            whole = _WholeTexts(reader)
            for session, seq, text, hash_ in sqlite_file.retry_while_busy(
                self.path, lambda: reader.execute(query, values)
            ):
                yield session, seq, whole.find_text(session, seq, text), hash_

    @contextmanager
    def keep_reader(self) -> Iterator[None]:
        """Keep one connection open from one reading to the next while a block runs, for one that reads single events
        by the thousand: opening the file takes longer than reading one. A file that takes its place is not noticed."""
        before, self._keeps_reader = self._keeps_reader, True
        try:
            yield
        finally:
            self._keeps_reader = before
            while self._idle and not before:
                self._idle.pop().close()

    @contextmanager
    def _borrow_reader(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that nobody else reads over meanwhile."""
        reader = self._idle.pop() if self._idle else sqlite_file.open_reader(self.path)
        kept = False
        try:
            yield reader
            kept = True
        except GeneratorExit:
            # Whoever reads only the first rows closes what yields them.
            kept = True
            raise
        finally:
            if kept and self._keeps_reader and not self._idle:
                reader.execute("ROLLBACK")
                self._idle.append(reader)
            else:
                reader.close()

    def _build_unknown_error(self, session: str) -> LogError:
        advice = "`foregate audit list` names those there are"
        return LogError(f"there is no session `{session}` in `{self.path}`; {advice}")


def find_gaps(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges that lack between 1 and the last of some numbers in order.

    >>> find_gaps([2, 3, 7])
    [(1, 1), (4, 6)]
    """
    gaps, wanted = [], 1
    for number in numbers:
        if number > wanted:
            gaps.append((wanted, number - 1))
        wanted = number + 1
    return gaps


class _WholeTexts:
    """Puts the texts of events together again, over a connection in a transaction, session by session."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._session: str | None = None
        self._cuts: dict[int, list[tuple[int, str]]] = {}
        self._erased: set[int] = set()
        self._find_part = lru_cache(_SHARED)(self._read_part)

    def find_text(self, session: str, seq: int, text: str) -> str | None:
        """Return the whole text of an event, None where it was erased; a text with a missing part is no JSON."""
        if session != self._session:
            self._load(session)
        if seq in self._cuts:
            return parts.join_text(text, ((place, self._find_part(name)) for place, name in self._cuts[seq]))
        return None if not text and seq in self._erased else text

    def _load(self, session: str) -> None:
        self._session, self._cuts, self._erased = session, {}, set()
        if sqlite_file.is_older(self._connection):
            return
        query = "SELECT seq, place, hash FROM cuts WHERE session = ? ORDER BY seq, place"
        for seq, place, hash_ in self._connection.execute(query, (session,)):
            self._cuts.setdefault(seq, []).append((place, hash_))
        rows = self._connection.execute("SELECT seq FROM erased WHERE session = ?", (session,))
        self._erased = {seq for (seq,) in rows}

    def _read_part(self, name: str) -> str:
        row = self._connection.execute("SELECT text FROM parts WHERE hash = ?", (name,)).fetchone()
        found = row[0] if row is not None else ""
        return found if strict_json.sha256(found.encode("utf-8", "surrogatepass")) == name else _MISSING


def _build_condition(kinds: Sequence[Kind]) -> str:
    """Return the condition for events of some kinds; one that says no kind counts as the first, so that it is read."""
    return f"coalesce({sqlite_file.KIND}, ?) IN ({', '.join('?' * len(kinds))})"


def _read_rows(rows: Iterator[tuple[str, int, str | None, str]]) -> Iterator[Event]:
    return (_read_row(session, seq, text, hash_) for session, seq, text, hash_ in rows if text is not None)


def _read_row(session: str, seq: int, text: str, hash_: str) -> Event:
    """Return the event of a row; raise LogError where it cannot be read."""
    try:
        return chain.read_line(text, hash_)
    except InvalidJson as error:
        advice = f"`foregate audit verify {session[:80]}` tells what was changed"
        raise LogError(f"event {seq} cannot be read ({error}); {advice}") from None
