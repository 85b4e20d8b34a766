"""The cube: what recorded turns come to at every value of a key, kept beside the log and brought up to its end."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foregate.assembly.audit_index import find_index_path
from foregate.audit.cube_table import Columns, CubeTable, Head, list_missing
from foregate.audit.label_agreement import LabelledCall, list_labelled
from foregate.audit.pieces import SessionPiece, Workers, cores, split_session, work_on_pieces
from foregate.audit.reach_index import ReachIndex, hash_code
from foregate.audit.recorded_counts import PieceCounter, RecordedCounts
from foregate.audit.sweep import Figure, SweepResult, SweepSums, conclude_sweep, find_paths
from foregate.audit.swept_pieces import PieceSweeper, plan_pieces
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.review.reviews import Reviews

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAME = "cube"
"""The folder's name, beside the tuning index."""
RECORDED: Columns = {"session": "text", "policy": "text", "gate": "text", "what": "text", "count": "number"}
CHANGES: Columns = {
    "session": "text",
    "seq": "number",
    "call": "text",
    "gate": "text",
    "what": "text",
    "at": "number",
    "by": "number",
}
_COUNTED = """SELECT policy, gate, what, sum("count")::BIGINT FROM read_parquet(?) {where} GROUP BY ALL"""
_CHANGED = 'SELECT gate, what, "at", sum("by")::BIGINT FROM read_parquet(?) {where} GROUP BY ALL'
_OF_CALLS = """SELECT session, seq, call, what, "at", sum("by")::BIGINT FROM read_parquet(?)
JOIN (SELECT unnest(?) AS session, unnest(?) AS seq, unnest(?) AS call) USING (session, seq, call) GROUP BY ALL"""
_TURNING = """SELECT "at", count(*) FROM (
  SELECT DISTINCT "at", session, seq, call FROM (
    SELECT "at", session, seq, call, what, sum("by") AS s FROM read_parquet(?) {where} AND call != '' GROUP BY ALL
  ) WHERE s != 0) GROUP BY "at" ORDER BY "at\""""
_TURNED = """WITH changed AS (
  SELECT session, seq, call, gate, what, sum("by")::BIGINT AS s FROM read_parquet(?)
  {where} AND call != '' AND "at" > ? AND "at" <= ? GROUP BY ALL
)
SELECT session, seq, call, arg_max(gate, s * ?),
  sum(s) FILTER (what = 'held')::BIGINT AS held, sum(s) FILTER (what = 'asked')::BIGINT AS asked, count(*) OVER ()
FROM changed GROUP BY session, seq, call HAVING coalesce(held, 0) != 0 OR coalesce(asked, 0) != 0
ORDER BY session DESC, seq DESC, call LIMIT ?"""


class TurnedCall(NamedTuple):
    """A call that comes out otherwise at another value: the gate that decides so there or, where it is let go, did
    before; and by how much it is `held` and `asked` about more (1), the same (0) or less (-1)."""

    session: str
    seq: int
    call: str
    gate: str
    held: int
    asked: int


def has_libraries() -> bool:
    """Whether what the cube needs is installed."""
    return all(find_spec(name) is not None for name in ("duckdb", "pyarrow"))


@contextmanager
def open_cube(log: SqliteLog, index: ReachIndex | None, workers: Workers = 0) -> Iterator[Cube | None]:
    """Yield the cube of a home's log, for as long as nobody else may use it; None where no folder is to be had.

    Raises UsageError where a library is missing.
    """
    if not has_libraries():
        raise UsageError("this needs two libraries; run `pip install 'foregate[tuning]'`")
    beside = find_index_path(log.path.parent, keeps_out=log.read_only)
    if beside is None:
        yield None
        return
    folder = beside.with_name(NAME)
    folder.mkdir(mode=0o700, exist_ok=True)
    with open_locked(folder):
        yield Cube(log, folder, index, workers)


@contextmanager
def open_locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, once nobody else does."""
    held = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


class Cube:
    """For each key the places at which turns change, as judging found them, and what was recorded of all turns.

    So its figures are those of judging every turn at every value. It holds nothing that the log does not, and may be
    deleted at any time; `judged` counts the turns that had to be judged since it was opened.
    """

    def __init__(self, log: SqliteLog, folder: Path, index: ReachIndex | None, workers: Workers = 0) -> None:
        self._log, self._folder, self._index, self._workers = log, folder, index, workers
        self.connection = connect(folder)
        self.stamp = f"{hash_code()} {log.count_erased()}"
        self.judged = 0

    def sweep(self, key: str, sessions: Sequence[str], reviews: Reviews) -> SweepResult:
        """Return what the turns of sessions come to for every value of a key.

        Raises UsageError for a key that cannot be swept, and LogError for a log that cannot be read.
        """
        table = self._catch_up(key, sessions)
        counts = self._ask(_COUNTED, self._recorded, sessions)
        recorded = RecordedCounts(
            Counter({(policy, gate, what): count for policy, gate, what, count in counts}), self._read_policies()
        )
        sums = SweepSums(list(list_labelled(self._log, reviews, sessions)))
        for gate, what, at, by in self._ask(_CHANGED, table, sessions):
            sums.changes[(at,), Figure(gate, what)] += by
        self._add_labelled(table, sums.labelled, sums)
        return conclude_sweep([key], recorded, sums, self.judged)

    def count_turning(self, key: str, sessions: Sequence[str]) -> dict[int, int]:
        """Return how many calls come out otherwise from a value on than at the value before it."""
        return dict(self._ask(_TURNING, self._catch_up(key, sessions), sessions))

    def list_turned(
        self, key: str, sessions: Sequence[str], before: int, after: int, limit: int
    ) -> tuple[list[TurnedCall], int]:
        """Return calls that come out otherwise at another value, newest first, and how many there are in all."""
        table, sign = self._catch_up(key, sessions), 1 if after >= before else -1
        values = (min(before, after), max(before, after), sign, limit)
        rows = self._ask(_TURNED, table, sessions, *values)
        found = [
            TurnedCall(session, seq, call, gate, sign * (held or 0), sign * (asked or 0))
            for session, seq, call, gate, held, asked, _ in rows
        ]
        return found, rows[0][-1] if rows else 0

    def _catch_up(self, key: str, sessions: Sequence[str]) -> CubeTable:
        """Bring both tables to the end of the sessions."""
        (path,) = find_paths([key])
        self._recorded = CubeTable(self._folder / "recorded", RECORDED, self.stamp)
        table = CubeTable(self._folder / "changes" / key, CHANGES, self.stamp)
        heads = {session: self._log.head_anchor(session) for session in sessions}
        missing = list_missing(table, self._log, heads)
        pieces = [
            piece
            for session, begin in missing.items()
            for whole in plan_pieces(self._log, self._index, [path], session, begin)
            for piece in cut_piece(whole, heads[session][0])
        ]
        rows = list[tuple[Any, ...]]()
        for piece, (judged, found) in self._work(pieces, partial(PieceSweeper, keys=(key,))):
            self.judged += judged
            rows += [(piece.session, seq, *figure, *place, by) for seq, figure, place, by in found]
        self._count_recorded(heads)
        if missing:
            table.add(rows, {session: heads[session] for session in missing}, self.connection)
        return table

    def _count_recorded(self, heads: Mapping[str, Head]) -> None:
        missing = list_missing(self._recorded, self._log, heads)
        pieces = [
            piece
            for session, begin in missing.items()
            for whole in split_session(self._log, session, begin)
            for piece in cut_piece(whole, heads[session][0])
        ]
        found, policies = Counter[tuple[str, str, str, str]](), dict[str, str]()
        for piece, counted in self._work(pieces, PieceCounter):
            found.update({(piece.session, *one): count for one, count in counted.counts.items()})
            policies |= {name: strict_json.canonical(values).decode() for name, values in counted.policies.items()}
        if missing:
            rows = [(*one, count) for one, count in found.items()]
            self._recorded.add(rows, {session: heads[session] for session in missing}, self.connection, policies)

    def _work(self, pieces: Sequence[SessionPiece], prepare: Any) -> Iterator[tuple[SessionPiece, Any]]:
        events = sum(piece.count_events() for piece in pieces)
        return work_on_pieces(self._log, pieces, events, prepare, self._workers)

    def _read_policies(self) -> dict[str, Any]:
        found = {}
        for name, text in self._recorded.contents.texts.items():
            if strict_json.sha256(text.encode()) != name:  # it is the canonical text
                raise LogError(f"the policy `{name[:20]}` is not what its hash says; run `foregate audit verify`")
            found[name] = strict_json.as_object(strict_json.decode_record(text))
        return found

    def _ask(self, query: str, table: CubeTable, sessions: Sequence[str], *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query about some sessions of a table."""
        if not table.paths:
            return []
        if table.contents.covered.keys() <= set(sessions):
            where, chosen = "WHERE true", list[Any]()
        else:
            where, chosen = "WHERE session IN (SELECT unnest(?))", [list(sessions)]
        return self.connection.execute(query.format(where=where), [table.paths, *chosen, *values]).fetchall()

    def _add_labelled(self, table: CubeTable, labelled: Sequence[LabelledCall], sums: SweepSums) -> None:
        if not (labelled and table.paths):
            return
        sessions, seqs, calls = (list(column) for column in zip(*sums.by_call, strict=True))
        rows = self.connection.execute(_OF_CALLS, [table.paths, sessions, seqs, calls]).fetchall()
        for session, seq, call, what, at, by in rows:
            sums.by_call[session, seq, call][(at,), what] += by


def connect(folder: Path) -> DuckDBPyConnection:
    """Return a connection to DuckDB that may touch nothing but a folder, and fetches nothing."""
    import duckdb

    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "threads": str(cores()),
    }
    connection = duckdb.connect(":memory:", config=config)
    where = str(folder.resolve()).replace("'", "''")
    for setting in (
        f"allowed_directories = ['{where}/']",
        f"temp_directory = '{where}/spill'",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")
    return connection


def cut_piece(piece: SessionPiece, head: int) -> Iterator[SessionPiece]:
    """Yield what of a piece lies before the end of its session as it was when the work began."""
    if piece.after < head:
        only = None if piece.only is None else tuple(seq for seq in piece.only if seq <= head)
        if only is None or only:
            yield SessionPiece(piece.session, piece.after, min(piece.until, head), piece.laid, only)
