"""The cube: where recorded turns turn along each key, kept in a DuckDB file beside the log."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foregate.assembly.home import find_index_path
from foregate.policy.source.strict_yaml import Path as KeyPath
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.protocols import Readable
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.reviews import Reviews
from foregate.tuning.piece_store import Head, hash_code
from foregate.tuning.pieces import Progress, SessionPiece, Workers, cores, split_session, work_on_pieces
from foregate.tuning.reach_index import ReachIndex, open_reach_index
from foregate.tuning.sweep import Figure, SweepResult, SweepSums, conclude_sweep, find_labelled, find_paths
from foregate.tuning.turn_figures import PieceCounter, PieceSweeper, RecordedCounts, plan_pieces

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
NAME, FILE = "cube", "cube.duckdb"
"""The folder's name, beside the tuning index, and that of the file in it."""
_TABLES = """
CREATE TABLE notes (stamp TEXT);
CREATE TABLE covered (key TEXT, session TEXT, seq BIGINT, hash TEXT, PRIMARY KEY (key, session));
CREATE TABLE policies (hash TEXT PRIMARY KEY, value TEXT);
CREATE TABLE recorded (session TEXT, policy TEXT, gate TEXT, what TEXT, "count" BIGINT);
"""
_CHANGES = 'session TEXT, seq BIGINT, call TEXT, gate TEXT, what TEXT, "at" BIGINT, "by" BIGINT'
"""The columns of the table of one key."""
_WITH_KEYS = ("covered", "policies")
FindIndex = Callable[[Sequence[str]], AbstractContextManager[ReachIndex | None]]
"""Opens the tuning index, which has caught up with some sessions."""


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


"""`covered` says up to which event a session is swept for a key, and under "" up to where its turns are counted."""


def has_libraries() -> bool:
    """Whether what the cube needs is installed."""
    return find_spec("duckdb") is not None


class CubeUnusable(UsageError):
    """The cube cannot be used: the message says why. What it would tell can be judged."""


@contextmanager
def open_cube(
    log: SqliteLog, workers: Workers = 0, progress: Progress | None = None, warn: Callable[[str], object] | None = None
) -> Iterator[Cube]:
    """Yield the cube of a home's log, for as long as nobody else may use it; `warn` is told why that takes a while.

    Raises CubeUnusable where DuckDB is missing or there is no folder for it, also later, when it cannot be written.
    """
    if not has_libraries():
        raise CubeUnusable("this needs DuckDB; run `pip install 'foregate[tuning]'`")
    from duckdb import Error

    beside = find_index_path(log.path.parent, keeps_out=log.read_only)
    if beside is None:
        raise CubeUnusable("the cube has no place; make the folder of the log, or `~/.cache`, yours to write")
    folder = beside.with_name(NAME)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise NotADirectoryError("it is a link")
        with _lock(folder, warn), Cube(log, folder, partial(open_reach_index, log, progress=progress), workers) as cube:
            cube.progress = progress
            yield cube
    except (OSError, Error) as error:
        if _is_damage(error):
            _remove(folder / FILE)
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise CubeUnusable(f"the cube in {folder} cannot be used ({why}); make room there, or remove it") from None


def _is_damage(error: Exception) -> bool:
    """Whether an error is about what is in the file: it is made anew the next time."""
    from duckdb import OutOfMemoryException

    return not isinstance(error, (OSError, OutOfMemoryException)) and "No space left" not in str(error)


@contextmanager
def _lock(folder: Path, warn: Callable[[str], object] | None) -> Iterator[None]:
    """Hold the lock of a folder, once nobody else does; `warn` is told where somebody does."""
    held = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if warn is not None:
                warn(f"another process works on the cube in {folder}; this goes on once it is through")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


class Cube:
    """For each key the places at which turns change, as judging found them, and what was recorded of all turns.

    So its figures are those of judging every turn at every value. It holds nothing that the log does not, and may be
    deleted at any time. `progress` is told how many pieces of work are done, and of how many. Close it when done.
    """

    progress: Progress | None = None

    def __init__(self, log: SqliteLog, folder: Path, find_index: FindIndex, workers: Workers = 0) -> None:
        self._log, self._find_index, self._workers = log, find_index, workers
        self.connection = open_tables(folder / FILE, f"{hash_code()} {log.count_erased()}")

    def __enter__(self) -> Cube:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def bring_up(self, key: str, sessions: Sequence[str]) -> CubeView:
        """Return what is known of a key, up to the end of sessions: what is new of them is judged.

        Raises UsageError for a key that cannot be swept, and LogError for a log that cannot be read.
        """
        (path,) = find_paths([key])
        heads = {session: self._log.head_anchor(session) for session in sessions}
        self.create_table(key)
        judged = self._sweep_missing(key, path, heads)
        self._count_missing(heads)
        return CubeView(key, sessions, self.connection, judged)

    def create_table(self, key: str) -> str:
        """Return the name of the table of a key, which is made where it is missing."""
        name = name_table(key)
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({_CHANGES})")
        return name

    def _sweep_missing(self, key: str, path: KeyPath, heads: Mapping[str, Head]) -> int:
        """Judge what is missing of a key; return how many turns that were."""
        if not (missing := self._list_missing(key, heads)):
            return 0
        with self._find_index(list(missing)) as index:
            plans = [plan_pieces(self._log, index, [path], name, begin) for name, begin in missing.items()]
            pieces = list_pieces(plans, heads)
        rows, count = list[tuple[Any, ...]](), 0
        for piece, (judged, changes) in self._work(pieces, partial(PieceSweeper, keys=(key,))):
            count += judged
            rows += [(piece.session, seq, *figure, *place, by) for seq, figure, place, by in changes]
        self._add(key, missing, heads, {name_table(key): rows})
        return count

    def _count_missing(self, heads: Mapping[str, Head]) -> None:
        if not (missing := self._list_missing("", heads)):
            return
        pieces = list_pieces((split_session(self._log, *one) for one in missing.items()), heads)
        counts, policies = Counter[tuple[str, str, str, str]](), dict[str, str]()
        for piece, counted in self._work(pieces, PieceCounter):
            counts.update({(piece.session, *one): count for one, count in counted.counts.items()})
            policies |= {name: strict_json.canonical(values).decode() for name, values in counted.policies.items()}
        recorded = [(*one, count) for one, count in counts.items()]
        self._add("", missing, heads, {"recorded": recorded, "policies": list(policies.items())})

    def _work(self, pieces: Sequence[SessionPiece], prepare: Any) -> Iterator[tuple[SessionPiece, Any]]:
        events = sum(piece.count_events() for piece in pieces)
        work = work_on_pieces(self._log, pieces, events, prepare, self._workers)
        for count, found in enumerate(work, start=1):
            yield found
            if self.progress is not None:
                self.progress(count, len(pieces))

    def _list_missing(self, key: str, heads: Mapping[str, Head]) -> dict[str, int]:
        """Return the sessions that are not covered up to their heads, each with the event to begin behind.

        Where one is of another history all that is known of the key is forgotten.
        """
        rows = self.connection.execute("SELECT session, seq, hash FROM covered WHERE key = ?", [key]).fetchall()
        covered = {session: (seq, hash_) for session, seq, hash_ in rows}
        if not all(self._is_of_log(name, covered[name], head) for name, head in heads.items() if name in covered):
            self.connection.execute("DELETE FROM covered WHERE key = ?", [key])
            self.connection.execute(f"TRUNCATE {name_table(key)}")
            covered = {}
        return {name: covered.get(name, (0, ""))[0] for name, head in heads.items() if covered.get(name) != head}

    def _is_of_log(self, session: str, known: Head, head: Head) -> bool:
        """Whether a session's history still has the event up to which it is covered."""
        seq, hash_ = known
        with suppress(LogError):
            events = self._log.events(session, after=seq - 1, until=seq) if 0 < seq < head[0] else ()
            return known == head or next((event.hash for event in events), "") == hash_
        return False

    def _add(
        self,
        key: str,
        missing: Mapping[str, int],
        heads: Mapping[str, Head],
        tables: Mapping[str, Sequence[Sequence[Any]]],
    ) -> None:
        """Add rows to tables, and say up to where sessions are covered now; all of it or nothing."""
        covered = [(key, session, *heads[session]) for session in missing]
        self.connection.begin()
        for table, rows in {**tables, "covered": covered}.items():
            if rows:
                columns = [list(column) for column in zip(*rows, strict=True)]
                values = ", ".join(["unnest(?)"] * len(columns))
                verb = "INSERT OR REPLACE" if table in _WITH_KEYS else "INSERT"
                self.connection.execute(f"{verb} INTO {table} SELECT {values}", columns)
        self.connection.commit()


def open_tables(file: Path, stamp: str) -> DuckDBPyConnection:
    """Return a connection to the tables in a file; one made under another stamp, or damaged, is made anew."""
    from duckdb import Error

    with suppress(Error):
        connection = _connect(file)
        with suppress(Error):
            if connection.execute("SELECT stamp FROM notes").fetchall() == [(stamp,)]:
                return connection
        connection.close()
    _remove(file)
    connection = _connect(file)
    connection.execute(_TABLES)
    connection.execute("INSERT INTO notes VALUES (?)", [stamp])
    return connection


def _connect(file: Path) -> DuckDBPyConnection:
    """Return a connection to DuckDB that touches nothing but a file, and fetches nothing."""
    import duckdb

    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "enable_external_access": "false",
        "lock_configuration": "true",
        "temp_directory": str(file.with_name("spill")),
        "threads": str(cores()),
    }
    return duckdb.connect(str(file), config=config)


def _remove(file: Path) -> None:
    for path in (file, file.with_name(f"{file.name}.wal")):
        path.unlink(missing_ok=True)


def list_pieces(plans: Iterable[Iterable[SessionPiece]], heads: Mapping[str, Head]) -> list[SessionPiece]:
    """Return what of pieces lies before the ends of their sessions as they were when the work began."""
    found = []
    for piece in chain.from_iterable(plans):
        head = heads[piece.session][0]
        only = None if piece.only is None else tuple(seq for seq in piece.only if seq <= head)
        if piece.after < head and only != ():
            found.append(SessionPiece(piece.session, piece.after, min(piece.until, head), piece.in_force_at, only))
    return found
