"""The log in one SQLite file that several processes may share; each session is written by one of them."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from foregate.schemas.errors import InvalidJson, LogError, SessionHeld, TamperedLog
from foregate.schemas.event import GENESIS, Draft, Event
from foregate.schemas.event_body import Kind
from foregate.schemas.protocols import Head, Lease
from foregate.telemetry.log import chain, sqlite_file
from foregate.telemetry.log.group_commit import BACKLOG, GroupCommit, SessionQueue
from foregate.telemetry.log.holder import HolderMark, LeaseHolder, get_own_holder, sweep_marks

Row = tuple[Any, ...]

_NAME = 200
_ENDING = 10.0
"""Seconds to wait until whatever a dead holder had started is gone; it is killed as soon as its holder is."""
_TICK = 0.02
_LAST = f"SELECT seq, hash, {sqlite_file.KIND} FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1"  # noqa: S608

_KEPT = "SELECT reply FROM questions WHERE session = ? AND seq = ?"


class _StillEnding(SessionHeld):
    """What a dead holder had started still runs."""


class SqliteLog:
    """Sessions in the file at `path`. Memory holds the head of each open session and what is not yet written.

    With `create` the file and its folder are made when they are not there. Raises LogError for a file that is not a
    Foregate log. Close it when done; what was appended before is written then.
    """

    def __init__(self, path: Path | str, *, create: bool = True) -> None:
        self.path = Path(path)
        self._writer = GroupCommit(sqlite_file.open_log(self.path, create=create), self.path)
        weakref.finalize(self, self._writer.close)
        self._held: dict[str, SessionQueue] = {}
        self._mark: HolderMark | None = None
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()

    async def claim(self, session: str, *, create: bool = False, take_over: bool = False) -> Lease:
        """Take the session; see Log. A holder of which nothing runs any more is succeeded under a higher fence.

        `take_over` succeeds a living holder too, which can write nothing from then on; for a person who knows that
        it is stuck, or that its container is gone. Raises TamperedLog when the session's last events are missing.
        """
        if create and not (0 < len(session) <= _NAME and session.isprintable()):
            raise LogError(f"`{session[:40]!r}` cannot name a session; use up to {_NAME} printable characters")

        def take(connection: sqlite3.Connection) -> SessionQueue:
            self._set_mark(connection)
            with sqlite_file.write_transaction(connection, self.path):
                return self._take_session(connection, session, create=create, take_over=take_over)

        until = time.monotonic() + _ENDING
        while True:
            try:
                held = self._held[session] = await self._writer.run_job(take)
            except _StillEnding:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(_TICK)
            else:
                return held.lease

    def _take_session(
        self, connection: sqlite3.Connection, session: str, *, create: bool, take_over: bool
    ) -> SessionQueue:
        row = connection.execute(
            "SELECT owner, pid, started, boot, place, fence, seq, hash FROM leases WHERE session = ?", (session,)
        ).fetchone()
        if row is None and not create:
            raise self._build_unknown_error(session)
        owner, *holder, fence, seq, hash_ = row or ("", 0, "", "", "", 0, 0, GENESIS)
        other = LeaseHolder(*holder)
        standing = other.find_standing(self.path.parent) if owner and not take_over else "gone"
        if standing == "alive":
            where = other.description
            raise SessionHeld(f"session `{session}` is open in {where}; close it there, or start another session here")
        if standing == "ending":
            why = f"what {other.description} had started for session `{session}` still runs, though it has ended itself"
            raise _StillEnding(f"{why}; end it by hand")
        last = connection.execute(_LAST, (session,)).fetchone() or (0, GENESIS, "")
        if last[:2] != (seq, hash_):
            raise TamperedLog(
                f"session `{session}` ends at event {last[0]}, but event {seq} was written; "
                "run `foregate audit verify` on it and go on in another session",
                min(last[0], seq) + 1,
            )
        succeeded = other.description if owner else ""
        mine, lease = get_own_holder(), Lease(session, secrets.token_hex(16), fence + 1, succeeded)
        connection.execute(
            "INSERT INTO leases (session, owner, pid, started, boot, place, fence, seq, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, "
            "pid = excluded.pid, started = excluded.started, boot = excluded.boot, place = excluded.place, "
            "fence = excluded.fence",
            (session, lease.owner, mine.pid, mine.started, mine.boot, mine.place, lease.fence, seq, hash_),
        )
        return SessionQueue(lease, seq, hash_, durable=seq)

    def _set_mark(self, connection: sqlite3.Connection) -> None:
        """Mark this process as one that holds sessions here, before it holds the first."""
        if self._mark is None:
            query = "SELECT DISTINCT pid, started, boot, place FROM leases WHERE owner != ''"
            sweep_marks(self.path.parent, {LeaseHolder(*row).mark for row in connection.execute(query)})
            self._mark = HolderMark(self.path.parent)
            weakref.finalize(self, self._mark.close)

    async def append(self, lease: Lease, drafts: Sequence[Draft], *, policy: str, time: str) -> Sequence[Event]:
        """Number, chain and hand the drafts to the writer; see Log."""
        held = self._find_queue(lease)
        held.raise_failure()
        if held.size > BACKLOG:
            await self._writer.settle(held)
        sealed = chain.seal_drafts(
            drafts, session=lease.session, after=held.seq, prev=held.hash, policy=policy, time=time
        )
        if sealed:
            last = sealed[-1][0]
            rows = [(lease.session, event.seq, text, event.hash) for event, text in sealed]
            self._writer.enqueue(held, rows)
            held.seq, held.hash = last.seq, last.hash
        return [event for event, _ in sealed]

    async def settle(self, lease: Lease) -> None:
        """Return when everything appended under the lease is durable; see Log."""
        await self._writer.settle(self._find_queue(lease))

    async def read(self, session: str, *, after: int = 0, limit: int = 0) -> Sequence[Event]:
        """Return events after a number; see Log. What this process appended is among them."""
        query = "SELECT seq, text, hash FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
        return [_read_row(*row) for row in await self._query_session(query, session, after, limit or -1)]

    async def head(self, session: str) -> Head:
        """Return the last event's number and hash; see Log."""
        rows = await self._query_session(_LAST, session)
        seq, hash_, kind = rows[0] if rows else (0, GENESIS, "")
        return Head(seq, hash_, kind == "session_ended")

    async def sessions(self) -> Sequence[str]:
        """Return the names of all sessions, newest first."""
        rows = await asyncio.to_thread(self._fetch_rows, "SELECT session FROM leases ORDER BY number DESC", ())
        return [name for (name,) in rows]

    async def release(self, lease: Lease) -> None:
        """Give the session back; see Log. Raises LogError when something appended before could not be written."""
        held = self._held.get(lease.session)
        if held is None or held.lease != lease:
            return
        del self._held[lease.session]
        await self._writer.run_job(lambda connection: self._give_back(connection, lease))
        held.raise_failure()

    def _give_back(self, connection: sqlite3.Connection, *leases: Lease) -> None:
        with sqlite_file.write_transaction(connection, self.path):
            connection.executemany(
                "UPDATE leases SET owner = '' WHERE session = ? AND owner = ? AND fence = ?",
                [(lease.session, lease.owner, lease.fence) for lease in leases],
            )

    async def list_asked(self) -> Sequence[tuple[str, int]]:
        """Return sessions and the events by which they may wait for a person; see QuestionStore."""
        return await asyncio.to_thread(self._fetch_rows, "SELECT session, seq FROM questions ORDER BY session, seq", ())

    async def hand_in(self, session: str, seq: int, reply: str) -> str:
        """Keep an answer unless one is kept already, durably; return the one that is kept. See QuestionStore."""
        if held := self._held.get(session):
            await self._writer.settle(held)

        def keep(connection: sqlite3.Connection) -> str:
            with sqlite_file.write_transaction(connection, self.path):
                connection.execute(
                    "UPDATE questions SET reply = ? WHERE session = ? AND seq = ? AND reply IS NULL",
                    (reply, session, seq),
                )
                rows = connection.execute(_KEPT, (session, seq)).fetchall()
            return rows[0][0] if rows else ""

        return await self._writer.run_job(keep)

    async def read_handed(self, session: str, seq: int) -> str:
        """Return the answer that is kept for a question, "" for none; see QuestionStore."""
        rows = await asyncio.to_thread(self._fetch_rows, _KEPT, (session, seq))
        return rows[0][0] or "" if rows else ""

    async def find_holder(self, session: str) -> str:
        """Return which live process holds a session, as a person would look for it, "" for none."""
        query = "SELECT pid, started, boot, place FROM leases WHERE session = ? AND owner != ''"
        for row in await asyncio.to_thread(self._fetch_rows, query, (session,)):
            holder = LeaseHolder(*row)
            return "" if holder.find_standing(self.path.parent) == "gone" else holder.description
        return ""

    def close(self) -> None:
        """Write what was appended, give all sessions back and close the file; doing it twice is harmless."""
        leases = [held.lease for held in self._held.values()]
        self._held.clear()
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        self._writer.close((lambda connection: self._give_back(connection, *leases)) if leases else None)
        if self._mark is not None:
            self._mark.close()

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield (number, canonical text, hash) of each durable event as stored, for verification.

        The rows are those of one moment, read one by one. Raises LogError for an unknown session.
        """
        self.head_anchor(session)
        yield from self._stream_rows("SELECT seq, text, hash FROM events WHERE session = ? ORDER BY seq", (session,))

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield durable events after a number, up to another, of some kinds or of all, one by one. Unverified.

        Raises LogError where an event cannot be read, also for one that no longer says which kind it is.
        """
        of_kind = f" AND {_build_condition(kinds)}" if kinds else ""
        upto = " AND seq <= ?" if until else ""
        query = f"SELECT seq, text, hash FROM events WHERE session = ? AND seq > ?{upto}{of_kind} ORDER BY seq"  # noqa: S608
        self.head_anchor(session)
        for row in self._stream_rows(query, (session, after, *((until,) if until else ()), *kinds[:1], *kinds)):
            yield _read_row(*row)

    def read_all_sessions(self, kinds: Sequence[Kind]) -> Iterator[Event]:
        """Yield the durable events of some kinds of all sessions, one session after the other; see `events`."""
        query = f"SELECT seq, text, hash FROM events WHERE {_build_condition(kinds)} ORDER BY session, seq"  # noqa: S608
        for row in self._stream_rows(query, (*kinds[:1], *kinds)):
            yield _read_row(*row)

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event as noted beside the lease, to find a tail that was cut off."""
        for seq, hash_ in self._fetch_rows("SELECT seq, hash FROM leases WHERE session = ?", (session,)):
            return seq, hash_
        raise self._build_unknown_error(session)

    def _find_queue(self, lease: Lease) -> SessionQueue:
        held = self._held.get(lease.session)
        if held is None or held.lease != lease:
            raise SessionHeld(f"session `{lease.session}` is no longer ours; nothing was written")
        return held

    async def _query_session(self, query: str, session: str, *more: int) -> list[Row]:
        if held := self._held.get(session):
            await self._writer.settle(held)
        rows = await asyncio.to_thread(self._fetch_rows, query, (session, *more))
        if not rows:
            await asyncio.to_thread(self.head_anchor, session)
        return rows

    def _fetch_rows(self, query: str, values: tuple[object, ...]) -> list[Row]:
        with self._reading, sqlite_file.explain_errors("read", self.path):
            reader = self._reader = self._reader or sqlite_file.open_reader(self.path)
            return sqlite_file.retry_while_busy(self.path, lambda: reader.execute(query, values).fetchall())

    def _stream_rows(self, query: str, values: tuple[object, ...]) -> Iterator[Row]:
        """Yield rows over a connection of their own: one moment of the file, whatever is written meanwhile."""
        with sqlite_file.explain_errors("read", self.path), closing(sqlite_file.open_reader(self.path)) as reader:
            yield from sqlite_file.retry_while_busy(self.path, lambda: reader.execute(query, values))

    def _build_unknown_error(self, session: str) -> LogError:
        advice = "`foregate audit list` names those there are"
        return LogError(f"there is no session `{session}` in `{self.path}`; {advice}")


def _build_condition(kinds: Sequence[Kind]) -> str:
    """Return the condition for events of some kinds; one that says no kind counts as the first, so that it is read."""
    return f"coalesce({sqlite_file.KIND}, ?) IN ({', '.join('?' * len(kinds))})"


def _read_row(seq: int, text: str, hash_: str) -> Event:
    try:
        return chain.read_line(text, hash_)
    except InvalidJson as error:
        advice = "`foregate audit verify` tells what was changed"
        raise LogError(f"event {seq} cannot be read ({error}); {advice}") from None
