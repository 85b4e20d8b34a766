"""What the cube says of one key: the sweep, how many calls turn at each value, and which turn between two values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError
from foregate.schemas.protocols import Readable
from foregate.telemetry.queries.reviews import Reviews
from foregate.tuning.sweep import Figure, SweepResult, SweepSums, conclude_sweep, find_labelled
from foregate.tuning.turn_figures import RecordedCounts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COUNTED = """SELECT policy, gate, what, sum("count")::BIGINT FROM {table} {where} GROUP BY ALL"""
_CHANGED = 'SELECT gate, what, "at", sum("by")::BIGINT FROM {table} {where} GROUP BY ALL'
_OF_CALLS = """SELECT session, seq, call, what, "at", sum("by")::BIGINT FROM {table}
JOIN (SELECT unnest(?) AS session, unnest(?) AS seq, unnest(?) AS call) USING (session, seq, call)
GROUP BY ALL"""
_TURNING = """SELECT "at", count(*) FROM (
  SELECT DISTINCT "at", session, seq, call FROM (
    SELECT "at", session, seq, call, what, sum("by") AS s FROM {table} {where} AND call != '' GROUP BY ALL
  ) WHERE s != 0) GROUP BY "at" ORDER BY "at\""""
_TURNED = """WITH changed AS (
  SELECT session, seq, call, gate, what, sum("by")::BIGINT AS s FROM {table}
  {where} AND call != '' AND "at" > ? AND "at" <= ? GROUP BY ALL
)
SELECT session, seq, call, arg_max(gate, s * ?),
  sum(s) FILTER (what = 'held')::BIGINT AS held, sum(s) FILTER (what = 'asked')::BIGINT AS asked, count(*) OVER ()
FROM changed GROUP BY session, seq, call HAVING coalesce(held, 0) != 0 OR coalesce(asked, 0) != 0
ORDER BY session DESC, seq DESC, call LIMIT ? OFFSET ?"""


class TurnedCall(NamedTuple):
    """A call that comes out otherwise at another value: the gate that decides so there or, where it is let go, did
    before; and by how much it is `held` and `asked` about more (1), the same (0) or less (-1)."""

    session: str
    seq: int
    call: str
    gate: str
    held: int
    asked: int


class CubeView:
    """The turns of some sessions at every value of a key, as a cube holds them.

    `judged` counts the turns that had to be judged to bring them up to the end of the sessions.
    """

    def __init__(self, key: str, sessions: Sequence[str], connection: DuckDBPyConnection, judged: int) -> None:
        self._key, self._sessions, self._connection, self.judged = key, sessions, connection, judged

    def sweep(self, log: Readable, reviews: Reviews) -> SweepResult:
        """Return what the turns come to for every value; the labels are looked up in the log."""
        counts = {(policy, gate, what): count for policy, gate, what, count in self._ask(_COUNTED, "")}
        sums = SweepSums(find_labelled(log, reviews, self._sessions))
        for gate, what, at, by in self._ask(_CHANGED, self._key):
            sums.changes[(at,), Figure(gate, what)] += by
        if sums.by_call:
            columns = [list(column) for column in zip(*sums.by_call, strict=True)]
            query = _OF_CALLS.format(table=name_table(self._key))
            for session, seq, call, what, at, by in self._connection.execute(query, columns).fetchall():
                sums.by_call[session, seq, call][(at,), what] += by
        recorded = RecordedCounts(Counter(counts), self._read_policies())
        return conclude_sweep([self._key], recorded, sums, self.judged)

    def count_turning(self) -> dict[int, int]:
        """Return how many calls come out otherwise from a value on than at the value before it."""
        return dict(self._ask(_TURNING, self._key))

    def list_turned(self, before: int, after: int, limit: int, start: int = 0) -> tuple[list[TurnedCall], int]:
        """Return calls that come out otherwise at another value, newest first, from a place in that order on, and how
        many there are in all; that is 0 where none stands there."""
        sign = 1 if after >= before else -1
        rows = self._ask(_TURNED, self._key, min(before, after), max(before, after), sign, limit, start)
        found = [
            TurnedCall(session, seq, call, gate, sign * (held or 0), sign * (asked or 0))
            for session, seq, call, gate, held, asked, _ in rows
        ]
        return found, rows[0][-1] if rows else 0

    def _read_policies(self) -> dict[str, Any]:
        found = {}
        for name, text in self._connection.execute("SELECT hash, value FROM policies").fetchall():
            # It is the canonical text.
            if strict_json.sha256(text.encode()) != name:
                raise LogError(f"the policy `{name[:20]}` is not what its hash says; run `foregate audit verify`")
            found[name] = strict_json.as_object(strict_json.decode_record(text))
        return found

    def _ask(self, query: str, key: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query about the sessions, of the changes along a key or with "" of all that is recorded.

        Which sessions are asked about is left out where they are all that the table holds.
        """
        where, chosen = "WHERE true", list[Any]()
        covered = self._connection.execute("SELECT session FROM covered WHERE key = ?", [key]).fetchall()
        if not {session for (session,) in covered} <= set(self._sessions):
            where, chosen = "WHERE session IN (SELECT unnest(?))", [list(self._sessions)]
        query = query.format(table=name_table(key), where=where)
        return self._connection.execute(query, [*chosen, *values]).fetchall()


def name_table(key: str) -> str:
    """Return the table of the changes along a key, of "" that of what is recorded."""
    return f'"changes {key}"' if key else "recorded"
