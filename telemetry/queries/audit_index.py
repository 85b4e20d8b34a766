"""The index over all sessions: follows the log, and answers from its own rows."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from foregate.schemas.errors import UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries import index_tables
from foregate.telemetry.queries.filters import (
    DecisionFilter,
    SessionFilter,
    SqlCondition,
    build_decision_condition,
    build_session_condition,
    join_conditions,
    list_time_conditions,
    match_phrases,
    match_words,
)
from foregate.telemetry.queries.index_follower import IndexFollower
from foregate.telemetry.queries.rows import SEVERITIES, STANDINGS, DecisionRow, FoundText, SessionRow

T = TypeVar("T")
P = ParamSpec("P")
_NAMED = {"session": "name", "events": "seq"}
_SESSION = ", ".join(_NAMED.get(name, name) for name in SessionRow.__struct_fields__ if name != "question")
_ORDER = "at DESC, session DESC, seq DESC, turn DESC, part DESC"
_ROW = f"""SELECT s.name, d.seq, t.time, g.text, c.text, d.standing, m.text, d.severity, o.text, r.text, i.text,
  (SELECT json_group_array(text) FROM (SELECT w.text FROM decision_rules n JOIN words w ON w.id = n.rule
    WHERE n.decision = d.id ORDER BY n.place)),
  k.text, p.text, a.text, f.text, d.risk, d.summary, d.id
  FROM (SELECT id FROM decisions INDEXED BY {{index}} WHERE {{where}} ORDER BY {_ORDER} LIMIT ?) AS found
  JOIN decisions d ON d.id = found.id JOIN sessions s ON s.id = d.session JOIN turns t ON t.id = d.turn
  JOIN words g ON g.id = d.gate JOIN words c ON c.id = d.code JOIN words m ON m.id = d.mode
  JOIN words o ON o.id = d.tool JOIN words r ON r.id = d.target JOIN words i ON i.id = d.call
  JOIN words k ON k.id = d.key JOIN words p ON p.id = d.policy JOIN words a ON a.id = d.approver
  JOIN words f ON f.id = d.origin
  ORDER BY d.at DESC, d.session DESC, d.seq DESC, d.turn DESC, d.part DESC"""  # noqa: S608
"""The columns stand in the order of DecisionRow's fields; three are made into what the field holds."""
_STANDING, _SEVERITY, _RULES = (DecisionRow.__struct_fields__.index(name) for name in ("standing", "severity", "rules"))
_AT_ONCE = 2000
_FEW = 20_000
"""Rows that are faster looked at one by one than found in passing over all."""


class DecisionCount(NamedTuple):
    """How many decisions fit a filter: those that said something, and those that only passed."""

    notable: int
    passed: int


def _guarded(act: Callable[Concatenate[AuditIndex, P], T]) -> Callable[Concatenate[AuditIndex, P], T]:
    """Run a method one thread at a time; an index that turns out to be damaged is made anew, once."""

    @wraps(act)
    def run(index: AuditIndex, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return index.guard(lambda: act(index, *args, **kwargs))

    return run


class AuditIndex:
    """The index of `log` in the file at `path`, or in memory with None. Close it when done.

    Every query but `catch_up` answers from what was read of the log until then. Raises LogError where the file cannot
    be used.
    """

    def __init__(self, log: SqliteLog, path: Path | None) -> None:
        self._log, self._path = log, path
        self._follower = IndexFollower(log, path)
        self._using = threading.RLock()

    @_guarded
    def catch_up(self, on_session: Callable[[int, int], None] | None = None) -> None:
        """Read what was written to the log since; only of sessions whose last event is another one now.

        `on_session` is told before each of them how many were read, and of how many.
        """
        self._follower.catch_up(on_session)

    @_guarded
    def list_sessions(self, wanted: SessionFilter | None = None, *, limit: int = 0) -> list[SessionRow]:
        """Return sessions, newest first; `limit` 0 is all."""
        asked = self._follower.read_asked()
        where = self._select_sessions(wanted or SessionFilter(), list(asked))
        query = f"SELECT {_SESSION} FROM sessions WHERE {where.sql} ORDER BY number DESC LIMIT ?"  # noqa: S608
        rows = self._run(query, (*where.values, limit or -1))
        return [SessionRow(*(*row, asked.get(row[0], 0))) for row in rows]

    @_guarded
    def find_decisions(
        self, wanted: DecisionFilter, *, after: int | None = None, limit: int = 100
    ) -> list[DecisionRow]:
        """Return decisions, newest first; `after` is the `id` of the last one had before, `limit` 0 is all."""
        where = build_decision_condition(wanted, full_text=self.full_text)
        if after is not None:
            places = self._run("SELECT at, session, seq, turn, part FROM decisions WHERE id = ?", (after,))
            if not places:
                raise UsageError("the list has been made anew since; begin at its first page")
            further = SqlCondition("(at, session, seq, turn, part) < (?, ?, ?, ?, ?)", places[0])
            where = join_conditions([where, further])
        sql = _ROW.format(index=self._choose_index(wanted), where=where.sql)
        return [_build_row(row) for row in self._run(sql, (*where.values, limit or -1))]

    def stream_decisions(self, wanted: DecisionFilter) -> Iterator[DecisionRow]:
        """Yield all decisions that fit, newest first, a few thousand of them in memory."""
        after = None
        while rows := self.find_decisions(wanted, after=after, limit=_AT_ONCE):
            yield from rows
            after = rows[-1].id

    @_guarded
    def count_decisions(self, wanted: DecisionFilter) -> DecisionCount:
        """Return how many decisions fit, those that only passed apart, whether or not the filter takes them in."""
        from msgspec.structs import replace

        counts = []
        for passed in (False, True):
            both = replace(wanted, passed=passed)
            where = build_decision_condition(both, full_text=self.full_text)
            query = f"SELECT count(*) FROM decisions INDEXED BY {self._choose_index(both)} WHERE {where.sql}"  # noqa: S608
            counts.append(int(self._run(query, where.values)[0][0]))
        return DecisionCount(counts[0], counts[1] - counts[0])

    @_guarded
    def search(self, phrases: Sequence[str], wanted: SessionFilter, *, limit: int = 100) -> list[FoundText]:
        """Return the texts in which all phrases stand, newest first."""
        found = match_phrases(phrases, full_text=self.full_text)
        of_session = self._select_sessions(wanted, list(self._follower.read_asked()))
        in_time = join_conditions(list_time_conditions(wanted, "texts.at", "texts.at"))
        query = f"""SELECT sessions.name, texts.seq, texts.time, texts.what FROM passages
  JOIN texts ON texts.id = passages.rowid JOIN sessions ON sessions.id = texts.session
  WHERE {found.sql} AND {in_time.sql} AND texts.session IN (SELECT id FROM sessions WHERE {of_session.sql})
  ORDER BY texts.at DESC, texts.session DESC, texts.seq DESC, texts.id LIMIT ?"""  # noqa: S608
        values = (*found.values, *in_time.values, *of_session.values, limit or -1)
        return [FoundText(*row) for row in self._run(query, values)]

    def list_asides(self, session: str) -> list[int]:
        """Return the events of a session that a timeline may show beside its decisions."""
        query = "SELECT seq FROM asides WHERE session = (SELECT id FROM sessions WHERE name = ?) ORDER BY seq"
        return [seq for (seq,) in self.query(query, (session,))]

    def count_cut_texts(self) -> int:
        """Return how many texts are longer than what is searched of each."""
        return int(self.query("SELECT count(*) FROM texts WHERE cut = 1")[0][0])

    @_guarded
    def choose_decisions(self, wanted: DecisionFilter) -> None:
        """Make the decisions that fit, of turns that count, the rows of the temporary table `chosen`, and their turns
        those of `chosen_turns`."""
        where = build_decision_condition(wanted, full_text=self.full_text)
        for table in ("chosen", "chosen_turns"):
            self._run(f"DROP TABLE IF EXISTS temp.{table}")
        columns = "turn, gate, shadow, fired, main, standing"
        of = f"decisions INDEXED BY {self._choose_index(wanted)} WHERE early = 0 AND {where.sql}"
        self._run(f"CREATE TEMP TABLE chosen AS SELECT {columns} FROM {of}", where.values)  # noqa: S608
        self._run("CREATE TEMP TABLE chosen_turns (id INTEGER PRIMARY KEY)")
        self._run("INSERT OR IGNORE INTO chosen_turns SELECT turn FROM chosen")

    @_guarded
    def query(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query of this package's; `sql` holds no text from outside."""
        return self._run(sql, values)

    def hold(self) -> AbstractContextManager[object]:
        """Return what keeps other threads waiting for as long as a block of several queries runs."""
        return self._using

    @property
    def full_text(self) -> bool:
        """Whether words are found by a full-text index."""
        return index_tables.has_full_text(self._follower.connection)

    def close(self) -> None:
        """Close the file; doing it twice is harmless."""
        self._follower.close()

    def guard(self, act: Callable[[], T]) -> T:
        """Do something with the index, one thread at a time; one that turns out to be damaged is made anew, once."""
        with self._using:
            try:
                with index_tables.explain_damage():
                    return act()
            except index_tables.BrokenIndex:
                self._follower.make_anew()
            except sqlite3.Error as error:
                raise index_tables.build_error(self._path, error) from None
            try:
                with index_tables.explain_damage():
                    self._follower.catch_up()
                    return act()
            except (index_tables.BrokenIndex, sqlite3.Error) as error:
                raise index_tables.build_error(self._path, error) from None

    def _run(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._follower.connection.execute(sql, tuple(values)).fetchall()

    def _select_sessions(self, wanted: SessionFilter, asked: Sequence[str]) -> SqlCondition:
        through = self._choose_index(wanted.decisions) if wanted.decisions is not None else "decisions_by_time"
        return build_session_condition(wanted, asked, full_text=self.full_text, through=through)

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


def _build_row(row: Sequence[Any]) -> DecisionRow:
    values = list(row)
    values[_STANDING], values[_SEVERITY] = STANDINGS[row[_STANDING]].value, SEVERITIES[row[_SEVERITY]]
    values[_RULES] = tuple(json.loads(row[_RULES]))
    return DecisionRow(*values)
