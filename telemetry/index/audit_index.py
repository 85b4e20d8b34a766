"""The index over all sessions: follows the log, and answers from its own rows."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from foregate.schemas.errors import UsageError
from foregate.telemetry.index import tables
from foregate.telemetry.index.catching_up import Follower
from foregate.telemetry.index.filters import (
    Condition,
    DecisionFilter,
    SessionFilter,
    build_decision_conditions,
    build_session_conditions,
    build_time_conditions,
    join_conditions,
    match_phrases,
    match_words,
)
from foregate.telemetry.index.rows import SEVERITIES, STANDINGS, DecisionRow, Passage, SessionRow
from foregate.telemetry.log.sqlite_log import SqliteLog

T = TypeVar("T")
_SESSION = """name, seq, tasks, state, asked, started, workspace, model, ended, last, ran_by, allowed,
  asked_about, held, denied, problem, follows"""
_ORDER = "at DESC, session DESC, seq DESC, turn DESC, part DESC"
_ROW = f"""SELECT d.id, s.name, d.seq, t.time, d.summary, d.risk, d.standing, d.severity,
  g.text, c.text, m.text, o.text, r.text, i.text, k.text, p.text, a.text, f.text
  FROM (SELECT id FROM decisions INDEXED BY {{index}} WHERE {{where}} ORDER BY {_ORDER} LIMIT ?) AS found
  JOIN decisions d ON d.id = found.id JOIN sessions s ON s.id = d.session JOIN turns t ON t.id = d.turn
  JOIN words g ON g.id = d.gate JOIN words c ON c.id = d.code JOIN words m ON m.id = d.mode
  JOIN words o ON o.id = d.tool JOIN words r ON r.id = d.target JOIN words i ON i.id = d.call
  JOIN words k ON k.id = d.key JOIN words p ON p.id = d.policy JOIN words a ON a.id = d.approver
  JOIN words f ON f.id = d.origin
  ORDER BY d.at DESC, d.session DESC, d.seq DESC, d.turn DESC, d.part DESC"""  # noqa: S608
_RULES = """SELECT w.text FROM decision_rules r JOIN words w ON w.id = r.rule WHERE r.decision = ? ORDER BY r.place"""
_AT_ONCE = 2000
_FEW = 20_000
"""Rows that are faster looked at one by one than found in passing over all."""


class DecisionCount(NamedTuple):
    """How many decisions fit a filter: those that said something, and those that only passed."""

    notable: int
    passed: int


class AuditIndex:
    """The index of `log` in the file at `path`, or in memory with None. Close it when done.

    Every query but `catch_up` answers from what was read of the log until then. Raises LogError where the file cannot
    be used.
    """

    def __init__(self, log: SqliteLog, path: Path | None) -> None:
        self._log, self._path = log, path
        self._follower = Follower(log, path)
        self._using = threading.RLock()

    def catch_up(self, on_session: Callable[[int, int], None] | None = None) -> None:
        """Read what was written to the log since; only of sessions whose last event is another one now.

        `on_session` is told before each of them how many were read, and of how many.
        """
        self._guard(lambda: self._follower.catch_up(on_session))

    def list_sessions(self, wanted: SessionFilter | None = None, *, limit: int = 0) -> list[SessionRow]:
        """Return sessions, newest first; `limit` 0 is all."""
        return self._guard(lambda: self._list_sessions(wanted or SessionFilter(), limit))

    def find_decisions(
        self, wanted: DecisionFilter, *, after: int | None = None, limit: int = 100
    ) -> list[DecisionRow]:
        """Return decisions, newest first; `after` is the `id` of the last one had before, `limit` 0 is all."""
        return self._guard(lambda: self._find_decisions(wanted, after, limit))

    def stream_decisions(self, wanted: DecisionFilter) -> Iterator[DecisionRow]:
        """Yield all decisions that fit, newest first, a few thousand of them in memory."""
        after = None
        while rows := self.find_decisions(wanted, after=after, limit=_AT_ONCE):
            yield from rows
            after = rows[-1].id

    def count_decisions(self, wanted: DecisionFilter) -> DecisionCount:
        """Return how many decisions fit, those that only passed apart, whether or not the filter takes them in."""
        return self._guard(lambda: self._count_decisions(wanted))

    def search(self, phrases: Sequence[str], wanted: SessionFilter, *, limit: int = 100) -> list[Passage]:
        """Return the texts in which all phrases stand, newest first."""
        return self._guard(lambda: self._search(phrases, wanted, limit))

    def list_asides(self, session: str) -> list[int]:
        """Return the events of a session that a timeline may show beside its decisions."""
        query = "SELECT seq FROM asides WHERE session = (SELECT id FROM sessions WHERE name = ?) ORDER BY seq"
        return [seq for (seq,) in self.query(query, (session,))]

    def count_cut_texts(self) -> int:
        """Return how many texts are longer than what is searched of each."""
        return self._guard(lambda: int(self._run("SELECT count(*) FROM texts WHERE cut = 1")[0][0]))

    def choose_decisions(self, wanted: DecisionFilter) -> None:
        """Make the decisions that fit, of turns that count, the rows of the temporary table `chosen`, and their turns
        those of `chosen_turns`."""
        self._guard(lambda: self._choose_decisions(wanted))

    def query(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query of this package's; `sql` holds no text from outside."""
        return self._guard(lambda: self._run(sql, values))

    def hold(self) -> AbstractContextManager[object]:
        """Return what keeps other threads waiting for as long as a block of several queries runs."""
        return self._using

    @property
    def full_text(self) -> bool:
        """Whether words are found by a full-text index."""
        return tables.has_full_text(self._follower.connection)

    def close(self) -> None:
        """Close the file; doing it twice is harmless."""
        self._follower.close()

    def _guard(self, act: Callable[[], T]) -> T:
        """Do something with the index, one thread at a time; one that turns out to be damaged is made anew, once."""
        with self._using:
            try:
                with tables.explain_damage():
                    return act()
            except tables.BrokenIndex:
                self._follower.make_anew()
            except sqlite3.Error as error:
                raise tables.build_error(self._path, error) from None
            try:
                with tables.explain_damage():
                    self._follower.catch_up()
                    return act()
            except (tables.BrokenIndex, sqlite3.Error) as error:
                raise tables.build_error(self._path, error) from None

    def _run(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._follower.connection.execute(sql, tuple(values)).fetchall()

    def _list_sessions(self, wanted: SessionFilter, limit: int) -> list[SessionRow]:
        asked = self._follower.read_asked()
        where = self._select_sessions(wanted, list(asked))
        query = f"SELECT {_SESSION} FROM sessions WHERE {where.sql} ORDER BY number DESC LIMIT ?"  # noqa: S608
        rows = self._run(query, (*where.values, limit or -1))
        return [SessionRow(*(*row, asked.get(row[0], 0))) for row in rows]

    def _find_decisions(self, wanted: DecisionFilter, after: int | None, limit: int) -> list[DecisionRow]:
        conditions = build_decision_conditions(wanted, full_text=self.full_text)
        if after is not None:
            places = self._run("SELECT at, session, seq, turn, part FROM decisions WHERE id = ?", (after,))
            if not places:
                raise UsageError("the list has been made anew since; begin at its first page")
            conditions.append(Condition("(at, session, seq, turn, part) < (?, ?, ?, ?, ?)", places[0]))
        where = join_conditions(conditions)
        sql = _ROW.format(index=self._choose_index(wanted), where=where.sql)
        return [self._build_row(*row) for row in self._run(sql, (*where.values, limit or -1))]

    def _build_row(
        self,
        number: int,
        session: str,
        seq: int,
        time: str,
        summary: str,
        risk: int | None,
        standing: int,
        severity: int,
        *words: str,
    ) -> DecisionRow:
        gate, code, mode, tool, target, call, key, policy, approver, origin = words
        rules = tuple(text for (text,) in self._run(_RULES, (number,)))
        return DecisionRow(
            session,
            seq,
            time,
            gate,
            code,
            STANDINGS[standing].value,
            mode,
            SEVERITIES[severity],
            tool,
            target,
            call,
            rules,
            key,
            policy,
            approver,
            origin,
            risk,
            summary,
            number,
        )

    def _count_decisions(self, wanted: DecisionFilter) -> DecisionCount:
        from msgspec.structs import replace

        counts = []
        for passed in (False, True):
            both = replace(wanted, passed=passed)
            where = join_conditions(build_decision_conditions(both, full_text=self.full_text))
            query = f"SELECT count(*) FROM decisions INDEXED BY {self._choose_index(both)} WHERE {where.sql}"  # noqa: S608
            counts.append(int(self._run(query, where.values)[0][0]))
        return DecisionCount(counts[0], counts[1] - counts[0])

    def _choose_decisions(self, wanted: DecisionFilter) -> None:
        where = join_conditions(build_decision_conditions(wanted, full_text=self.full_text))
        for table in ("chosen", "chosen_turns"):
            self._run(f"DROP TABLE IF EXISTS temp.{table}")
        columns = "turn, gate, shadow, fired, main, standing"
        of = f"decisions INDEXED BY {self._choose_index(wanted)} WHERE early = 0 AND {where.sql}"
        self._run(f"CREATE TEMP TABLE chosen AS SELECT {columns} FROM {of}", where.values)  # noqa: S608
        self._run("CREATE TEMP TABLE chosen_turns (id INTEGER PRIMARY KEY)")
        self._run("INSERT OR IGNORE INTO chosen_turns SELECT turn FROM chosen")

    def _search(self, phrases: Sequence[str], wanted: SessionFilter, limit: int) -> list[Passage]:
        found = match_phrases(phrases, full_text=self.full_text)
        of_session = self._select_sessions(wanted, list(self._follower.read_asked()))
        in_time = join_conditions(build_time_conditions("texts.at", wanted.since, wanted.until))
        query = f"""SELECT sessions.name, texts.seq, texts.time, texts.what FROM passages
  JOIN texts ON texts.id = passages.rowid JOIN sessions ON sessions.id = texts.session
  WHERE {found.sql} AND {in_time.sql} AND texts.session IN (SELECT id FROM sessions WHERE {of_session.sql})
  ORDER BY texts.at DESC, texts.session DESC, texts.seq DESC, texts.id LIMIT ?"""  # noqa: S608
        return [
            Passage(*row) for row in self._run(query, (*found.values, *in_time.values, *of_session.values, limit or -1))
        ]

    def _select_sessions(self, wanted: SessionFilter, asked: Sequence[str]) -> Condition:
        through = self._choose_index(wanted.decisions) if wanted.decisions is not None else "decisions_by_time"
        return join_conditions(build_session_conditions(wanted, asked, full_text=self.full_text, through=through))

    def _choose_index(self, wanted: DecisionFilter) -> str:
        """Return the index that is gone through: of sessions, of a target that few rows have, or of all by time."""
        if wanted.sessions:
            return "decisions_by_session"
        if wanted.target:
            targets = match_words("target", wanted.target)
            query = f"SELECT count(*) FROM (SELECT 1 FROM decisions WHERE {targets.sql} LIMIT ?)"  # noqa: S608
            if self._run(query, (*targets.values, _FEW))[0][0] < _FEW:
                return "decisions_by_target"
        return "decisions_by_time" if wanted.passed else "notable_by_time"
