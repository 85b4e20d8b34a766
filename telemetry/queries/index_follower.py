"""Follows the log: reads what was written since, session by session, and forgets what the log no longer vouches for."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from foregate.evidence.state.recorded_turns import EventWindow
from foregate.schemas.errors import LogError
from foregate.schemas.event import GENESIS, Event
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import scrub
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries import index_tables
from foregate.telemetry.queries.index_rows import UNREADABLE, RowWriter
from foregate.telemetry.queries.rows import SessionFacts
from foregate.telemetry.queries.session_fold import SessionFold, SessionReader

if TYPE_CHECKING:
    from foregate.telemetry.queries.call_facts import CallFactsReader

_AT_ONCE = 2000
"""Events that are read in one transaction, so that other processes get their turn."""
_BAD = 100
"""Events of a session that are skipped since they cannot be read, at most."""
# "event 12 cannot be read".
_UNREAD = compile_late(r"event ([0-9]{1,18}) cannot be read")


class _IndexedHead(NamedTuple):
    """A session's last event as the log notes it beside its lease; `number` orders sessions by when they began."""

    name: str
    number: int
    seq: int
    hash: str


class _Indexed(NamedTuple):
    """A session as far as it is indexed."""

    id: int
    seq: int
    hash: str
    fold: str
    problem: str


class IndexFollower:
    """Keeps the index at `path` (None: in memory) at what `log` says."""

    def __init__(self, log: SqliteLog, path: Path | None) -> None:
        self._log, self._path = log, path
        self._reader: sqlite3.Connection | None = None
        self._open()

    def _open(self) -> None:
        self.connection = index_tables.open_index(self._path)
        self._writer = RowWriter(self.connection)

    def close(self) -> None:
        """Close index and log reader; doing it twice is harmless."""
        self.connection.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def make_anew(self) -> None:
        """Throw the index away and begin with an empty one."""
        self.connection.close()
        if self._path is not None:
            index_tables.remove_index(self._path)
        self._open()

    def catch_up(self, on_session: Callable[[int, int], None] | None = None) -> None:
        """Read what was written since of each session whose last event is another one than was indexed."""
        self._forget_erased()
        heads = self._read_heads()
        query = "SELECT name, seq, hash FROM sessions"
        known = {name: (seq, hash_) for name, seq, hash_ in self.connection.execute(query)}
        for name in known.keys() - {head.name for head in heads}:
            with self._writing():
                for (number,) in self.connection.execute("SELECT id FROM sessions WHERE name = ?", (name,)).fetchall():
                    self._writer.drop_session(number)
        moved = [head for head in reversed(heads) if known.get(head.name) != (head.seq, head.hash)]
        for count, head in enumerate(moved):
            if on_session is not None:
                on_session(count, len(moved))
            self._follow_session(head)

    def read_asked(self) -> dict[str, int]:
        """Return the sessions that wait for a person, and the events that ask, as the log keeps them."""
        rows = self._query_log("questions", "SELECT session, seq FROM questions")
        return dict(rows)

    @cached_property
    def _facts(self) -> CallFactsReader:
        # Gates and policies, for what is new only.
        from foregate.telemetry.queries.call_facts import CallFactsReader

        return CallFactsReader()

    def _read_heads(self) -> list[_IndexedHead]:
        """Return the heads of all sessions, newest first; without those of no events, and of names that are no text."""
        rows = self._query_log(
            "leases", "SELECT session, number, seq, hash FROM leases WHERE seq > 0 ORDER BY number DESC"
        )
        return [_IndexedHead(*row) for row in rows if _is_text(row[0])]

    def _forget_erased(self) -> None:
        """Begin anew where something was erased since: the words of what is gone must not stay in a full-text index."""
        rows = self._query_log("erased", "SELECT count(*) FROM erased")
        erased = rows[0][0] if rows else 0
        noted = self.connection.execute("SELECT value FROM notes WHERE name = 'erased'").fetchone()
        if (noted[0] if noted else 0) == erased:
            return
        self.make_anew()
        with self._writing():
            self.connection.execute("INSERT OR REPLACE INTO notes VALUES ('erased', ?)", (erased,))

    def _is_erased(self, session: str) -> bool:
        """Whether the log says that the beginning of a session was erased."""
        return bool(self._query_log("erased", "SELECT 1 FROM erased WHERE session = ? AND seq = 1", (session,)))

    def _query_log(self, table: str, query: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        """Return rows of a table of the log, none where this log is of a version without it."""
        with sqlite_file.explain_errors("read", self._log.path):
            reader = self._reader = self._reader or sqlite_file.open_reader(self._log.path)
            exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
            if not sqlite_file.retry_while_busy(self._log.path, lambda: reader.execute(exists, (table,)).fetchall()):
                return []
            return sqlite_file.retry_while_busy(self._log.path, lambda: reader.execute(query, values).fetchall())

    def _writing(self) -> AbstractContextManager[None]:
        return index_tables.hold_writing(self.connection, self._path or Path(":memory:"))

    def _follow_session(self, head: _IndexedHead) -> None:
        """Read a session up to its head, a piece in each transaction; another process may do the same meanwhile."""
        while True:
            with self._writing():
                self._writer.begin()
                try:
                    more = self._read_piece(head)
                except BaseException:
                    self._writer.forget()
                    raise
            if not more:
                return

    def _read_piece(self, head: _IndexedHead) -> bool:
        """Read the next events of a session; return whether there are more."""
        indexed = self._find_indexed(head)
        if indexed.seq > head.seq or (indexed.seq == head.seq and indexed.hash != head.hash):
            indexed = self._begin_anew(indexed.id)
        if indexed.seq == head.seq:
            return False
        window = EventWindow(self._log, head.name)
        fold = msgspec.json.decode(indexed.fold, type=SessionFold)
        if not indexed.seq and self._is_erased(head.name):
            # What is left of it may say otherwise.
            fold.state = "erased"
        reader = SessionReader(self._writer, indexed.id, fold, self._facts, window)
        seq, hash_, problems = indexed.seq, indexed.hash, [indexed.problem] if indexed.problem else []
        count = 0
        for event in islice(window.follow(self._read_events(head, seq, problems)), _AT_ONCE):
            if count == 0 and indexed.seq and event.prev != hash_:
                self._save(self._begin_anew(indexed.id), SessionFold(), 0, GENESIS, [])
                # What was indexed is not what this event goes on from.
                return True
            seq, hash_, count = event.seq, event.hash, count + 1
            try:
                reader.read_event(event)
            except UNREADABLE as error:
                why = f"event {event.seq} cannot be counted ({type(error).__name__}: {error})"
                problems.append(f"{why[:300]}; `foregate audit verify` tells what was changed")
        if more := count == _AT_ONCE and seq < head.seq:
            self._save(indexed, reader.fold, seq, hash_, problems)
        else:
            self._save(indexed, reader.fold, head.seq, head.hash, problems)
        return more

    def _find_indexed(self, head: _IndexedHead) -> _Indexed:
        query = "SELECT id, seq, hash, fold, problem FROM sessions WHERE name = ?"
        if row := self.connection.execute(query, (head.name,)).fetchone():
            return _Indexed(*row)
        fold = SessionFold()
        columns = {"name": head.name, "number": head.number, "seq": 0, "hash": GENESIS, "problem": ""}
        number = self._writer.insert("sessions", **columns, fold=_encode(fold), **_list_columns(fold))
        return _Indexed(number, 0, GENESIS, _encode(fold), "")

    def _begin_anew(self, session: int) -> _Indexed:
        """Forget a session that is another one now than was indexed."""
        self._writer.clear_session(session)
        return _Indexed(session, 0, GENESIS, _encode(SessionFold()), "")

    def _save(self, indexed: _Indexed, fold: SessionFold, seq: int, hash_: str, problems: list[str]) -> None:
        columns = {"seq": seq, "hash": hash_, "fold": _encode(fold), "problem": problems[0] if problems else ""}
        self._writer.update("sessions", indexed.id, **columns, **_list_columns(fold))

    def _read_events(self, head: _IndexedHead, after: int, problems: list[str]) -> Iterator[Event]:
        """Yield the events of a session after one, up to its head; those that cannot be read are left out."""
        last = after
        for _ in range(_BAD):
            try:
                for event in self._log.events(head.name, after=last, until=head.seq):
                    last = event.seq
                    yield event
                return
            except LogError as error:
                if (found := _UNREAD.match(str(error))) is None:
                    raise
                problems.append(str(error))
                last = int(found[1])


def _encode(fold: SessionFold) -> str:
    return msgspec.json.encode(fold).decode()


def _list_columns(fold: SessionFold) -> dict[str, str | int]:
    return {name: getattr(fold, name) for name in SessionFacts.__struct_fields__}


def _is_text(name: str) -> bool:
    """Whether a name can be written; what is no UTF-8 in a damaged log cannot."""
    return name == scrub(name)
