"""The cube: what recorded turns come to at every value of a key, kept beside the log and brought up to its end."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foregate.assembly.audit_index import find_index_path
from foregate.audit.cube_table import Columns, CubeTable, Head, list_missing
from foregate.audit.cube_view import CubeView
from foregate.audit.kept_pieces import hash_code
from foregate.audit.pieces import Progress, SessionPiece, Workers, cores, split_session, work_on_pieces
from foregate.audit.reach_index import ReachIndex, open_reach_index
from foregate.audit.recorded_counts import PieceCounter
from foregate.audit.sweep import find_paths
from foregate.audit.swept_pieces import PieceSweeper, plan_pieces
from foregate.policy.source.strict_yaml import Path as KeyPath
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog

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


def has_libraries() -> bool:
    """Whether what the cube needs is installed."""
    return all(find_spec(name) is not None for name in ("duckdb", "pyarrow"))


FindIndex = Callable[[Sequence[str]], AbstractContextManager[ReachIndex | None]]
"""Opens the tuning index, which has caught up with some sessions."""


class CubeUnusable(UsageError):
    """There is no cube to be had: the message says why. What it would tell can be judged."""


@contextmanager
def open_cube(
    log: SqliteLog, workers: Workers = 0, progress: Progress | None = None, warn: Callable[[str], object] | None = None
) -> Iterator[Cube]:
    """Yield the cube of a home's log, for as long as nobody else may use it; `warn` is told why that takes a while.

    Raises CubeUnusable where a library is missing or there is no folder for it, also later, when it cannot be written.
    """
    if not has_libraries():
        raise CubeUnusable("this needs two libraries; run `pip install 'foregate[tuning]'`")
    from duckdb import Error

    beside = find_index_path(log.path.parent, keeps_out=log.read_only)
    if beside is None:
        raise CubeUnusable("the cube has no place; make the folder of the log, or `~/.cache`, yours to write")
    folder = beside.with_name(NAME)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise NotADirectoryError("it is a link")
        with open_locked(folder, warn):
            yield Cube(log, folder, partial(open_reach_index, log, progress=progress), workers, progress)
    except (OSError, Error) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise CubeUnusable(f"the cube in {folder} cannot be used ({why}); make room there, or remove it") from None


@contextmanager
def open_locked(folder: Path, warn: Callable[[str], object] | None = None) -> Iterator[None]:
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
    deleted at any time. `progress` is told how many pieces of work are done, and of how many.
    """

    def __init__(
        self,
        log: SqliteLog,
        folder: Path,
        find_index: FindIndex,
        workers: Workers = 0,
        progress: Progress | None = None,
    ) -> None:
        self._log, self._folder, self._find_index, self._workers = log, folder, find_index, workers
        self._progress = progress
        self.connection = connect(folder)
        self.stamp = f"{hash_code()} {log.count_erased()}"

    def bring_up(self, key: str, sessions: Sequence[str]) -> CubeView:
        """Return what is known of a key, up to the end of sessions: what is new of them is judged.

        Raises UsageError for a key that cannot be swept, and LogError for a log that cannot be read.
        """
        (path,) = find_paths([key])
        recorded = CubeTable(self._folder / "recorded", RECORDED, self.stamp)
        changes = CubeTable(self._folder / "changes" / key, CHANGES, self.stamp)
        heads = {session: self._log.head_anchor(session) for session in sessions}
        missing = list_missing(changes, self._log, heads)
        judged = self._sweep_missing(key, path, changes, missing, heads) if missing else 0
        self._count_recorded(recorded, heads)
        return CubeView(key, sessions, (recorded, changes), self.connection, judged)

    def _sweep_missing(
        self, key: str, path: KeyPath, table: CubeTable, missing: Mapping[str, int], heads: Mapping[str, Head]
    ) -> int:
        """Judge what a table lacks; return how many turns that were."""
        with self._find_index(list(missing)) as index:
            pieces = [
                piece
                for session, begin in missing.items()
                for whole in plan_pieces(self._log, index, [path], session, begin)
                for piece in cut_piece(whole, heads[session][0])
            ]
        rows, count = list[tuple[Any, ...]](), 0
        for piece, (judged, found) in self._work(pieces, partial(PieceSweeper, keys=(key,))):
            count += judged
            rows += [(piece.session, seq, *figure, *place, by) for seq, figure, place, by in found]
        table.add(rows, {session: heads[session] for session in missing}, self.connection)
        return count

    def _count_recorded(self, table: CubeTable, heads: Mapping[str, Head]) -> None:
        missing = list_missing(table, self._log, heads)
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
            table.add(rows, {session: heads[session] for session in missing}, self.connection, policies)

    def _work(self, pieces: Sequence[SessionPiece], prepare: Any) -> Iterator[tuple[SessionPiece, Any]]:
        events = sum(piece.count_events() for piece in pieces)
        work = work_on_pieces(self._log, pieces, events, prepare, self._workers)
        for count, found in enumerate(work, start=1):
            yield found
            if self._progress is not None:
                self._progress(count, len(pieces))


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
