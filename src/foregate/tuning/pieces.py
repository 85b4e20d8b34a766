"""Sessions of a log in pieces, each with what holds before it, worked on in order by one process or by several."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from heapq import merge
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from foregate.evidence.state.recorded_turns import (
    JUDGING,
    LAYING,
    EventWindow,
    InForce,
    RecordedTurn,
    read_judged_turns,
)
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.protocols import Readable
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.sqlite_reader import SqliteReader

T = TypeVar("T")

EVENTS_PER_PIECE = 2000
"""Events of a session that are judged again as one piece of work."""
MIN_EVENTS_FOR_WORKERS = 4 * EVENTS_PER_PIECE
"""Events from which starting further processes takes less time than it saves."""
PIECES_AHEAD = 4
"""Pieces that are under way at a time, for each worker."""
EVENTS_PER_BATCH = EVENTS_PER_PIECE // 4
"""Events, about, whose pieces are sent to a process together."""
_READ = 4
"""Events that are read for one turn, about."""
_ONE_BY_ONE = 16
"""Events that are gone through in the time in which a turn is found by itself."""
_PLAYED = 5
"""How many times as long playing an event again takes as judging it."""
_MADE = 20_000
"""Objects that are made before one looks for circles among them; judging leaves hardly any."""
_REPLACED = {
    "session_started": ("policy", "catalogue"),
    "catalog_changed": ("catalogue",),
    "policy_changed": ("policy",),
}
"""What holds anew from an event of a kind on."""
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, InvalidJson)
"""What reading a log that somebody changed may raise."""


def explain_unreadable(session: str, error: Exception, last: int | None = None) -> LogError:
    """Return the error that says why a session cannot be judged again, with the last event that could be read."""
    why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    after = f" after event {last}" if last is not None else ""
    advice = "`foregate audit verify` tells what was changed"
    return LogError(f"session `{session}` cannot be judged again{after} ({why}); {advice}")


class SessionPiece(Struct, frozen=True):
    """Some events of a session, and the numbers of the events that say which policy and tools hold before them.

    `only` are the events of the turns that matter, None where all do.
    """

    session: str
    after: int
    until: int
    in_force_at: tuple[int, ...]
    only: tuple[int, ...] | None = None

    def count_events(self) -> int:
        """Return about how many events are read for it."""
        return self.until - self.after if self.only is None else _READ * len(self.only)


Work = Callable[[SessionPiece], T]
"""What is done to a piece."""


class WorkerPool(Protocol):
    """What works on pieces beside this process."""

    def work(
        self, pieces: Iterable[SessionPiece], log: Readable, prepare: Callable[[Readable], Work[T]]
    ) -> Iterator[tuple[SessionPiece, T]]:
        """Yield the result of each piece, in their order; `prepare` makes of a log what works on its pieces."""


Workers = int | WorkerPool
"""Processes of this machine, 0 for one for each core, or who else does the work."""


Progress = Callable[[int, int], object]
"""Is told how many pieces are done, and of how many."""


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split_session(log: Readable, session: str, begin: int = 0) -> Iterator[SessionPiece]:
    """Yield a session in pieces, from behind an event on; raise LogError for an unknown one."""
    last, _ = log.head_anchor(session)
    laying = [
        (event.seq, _REPLACED[event.kind])
        for event in (log.events(session, kinds=LAYING) if last > EVENTS_PER_PIECE or begin else ())
        if not isinstance(event.body, PolicyChanged) or event.body.policy is not None
    ]
    for after in range(begin, max(last, 1), EVENTS_PER_PIECE):
        found: dict[str, int] = {}
        for seq, what in laying:
            if seq <= after:
                found.update(dict.fromkeys(what, seq))
        until, in_force_at = min(after + EVENTS_PER_PIECE, max(last, 1)), tuple(sorted(set(found.values())))
        yield SessionPiece(session, after, until, in_force_at)


def split_whole(log: Readable, session: str) -> Iterator[SessionPiece]:
    """Yield a session as one piece; raise LogError for an unknown one."""
    last, _ = log.head_anchor(session)
    yield SessionPiece(session, 0, last, ())


def read_turns(log: Readable, piece: SessionPiece, *, early: bool = False) -> Iterator[RecordedTurn]:
    """Yield the judged turns of a piece; those of `early` reads only where that is asked for.

    Raises one of UNREADABLE, or LogError, where the log cannot be read.
    """
    near = EventWindow(log, piece.session)
    start = InForce.of(map(near, piece.in_force_at))
    if piece.only is not None and _ONE_BY_ONE * len(piece.only) < log.head_anchor(piece.session)[0] - piece.after:
        yield from _read_some_turns(log, piece, near, start)
        return
    judging = log.events(piece.session, after=piece.after, until=piece.until, kinds=JUDGING)
    wanted = set(piece.only) if piece.only is not None else None
    events = (event for event in near.follow(judging) if _is_wanted(event, wanted, early=early))
    yield from read_judged_turns(events, near, start)


def _is_wanted(event: Event, wanted: set[int] | None, *, early: bool) -> bool:
    """Whether an event is none of a judged turn, or that of one that matters."""
    if not isinstance(event.body, TurnJudged):
        return True
    return event.seq in wanted if wanted is not None else early or not event.body.early


def _read_some_turns(log: Readable, piece: SessionPiece, near: EventWindow, start: InForce) -> Iterator[RecordedTurn]:
    """Yield only the turns of a piece that matter, each read by itself."""
    laying = log.events(piece.session, after=piece.after, until=piece.until, kinds=LAYING)
    wanted = (near(seq) for seq in piece.only or ())
    events = merge(laying, wanted, key=attrgetter("seq"))
    yield from read_judged_turns(events, near, start)


def work_on_sessions(
    log: Readable,
    sessions: Sequence[str],
    prepare: Callable[[Readable], Work[T]],
    workers: Workers = 0,
    *,
    whole: bool = False,
) -> Iterator[tuple[SessionPiece, T]]:
    """Yield the result of each piece of sessions, in the order of the log; on all cores where that is worth it.

    `prepare` makes of a log what works on its pieces; it is sent to the processes. `workers` 0 is one for each core.
    With `whole` each session is one piece, and worth as much as many events that are only judged.
    """
    size = sum(log.head_anchor(session)[0] for session in sessions) * (_PLAYED if whole else 1)
    split = split_whole if whole else split_session
    pieces = (piece for session in sessions for piece in split(log, session))
    yield from work_on_pieces(log, pieces, size, prepare, workers)


def keep_reader(log: Readable) -> AbstractContextManager[None]:
    """Return a context in which a log's file is opened once."""
    return log.keep_reader() if isinstance(log, SqliteReader) else nullcontext()


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Look for circles of objects less often, which takes a sixth of the time of judging a log."""
    before = gc.get_threshold()
    gc.set_threshold(max(_MADE, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def work_on_pieces(
    log: Readable,
    pieces: Iterable[SessionPiece],
    events: int,
    prepare: Callable[[Readable], Work[T]],
    workers: Workers = 0,
) -> Iterator[tuple[SessionPiece, T]]:
    """Yield the result of each piece, in their order; `events` is about how many are read for it."""
    with closing(PieceWorkers(workers)) as kept:
        yield from kept.work(log, pieces, events, prepare)


class PieceWorkers:
    """Who works on pieces several times in the same way; what they have prepared is kept until they are closed."""

    def __init__(self, workers: Workers = 0) -> None:
        self._workers = workers or cores()
        self._chosen = workers if not isinstance(workers, int) else None
        self._work: Work[Any] | None = None

    def work(
        self, log: Readable, pieces: Iterable[SessionPiece], events: int, prepare: Callable[[Readable], Work[T]]
    ) -> Iterator[tuple[SessionPiece, T]]:
        """Yield the result of each piece, see `work_on_pieces`; log and `prepare` are the same each time."""
        if isinstance(self._workers, int) and self._workers > 1 and events > MIN_EVENTS_FOR_WORKERS:
            self._chosen = self._chosen or (ProcessWorkers(self._workers) if isinstance(log, SqliteLog) else None)
        with keep_reader(log), collect_seldom():
            if self._chosen is not None:
                yield from self._chosen.work(pieces, log, prepare)
            else:
                self._work = self._work or prepare(log)
                for piece in pieces:
                    yield piece, self._work(piece)

    def close(self) -> None:
        """Let processes go; doing it twice is harmless."""
        if isinstance(self._chosen, ProcessWorkers):
            self._chosen.close()
        self._work = None


def gather_pieces(pieces: Iterable[SessionPiece]) -> Iterator[list[SessionPiece]]:
    """Yield pieces in their order, so many at a time that sending them takes no time beside the work on them."""
    some, events = list[SessionPiece](), 0
    for piece in pieces:
        some.append(piece)
        events += piece.count_events()
        if events >= EVENTS_PER_BATCH:
            yield some
            some, events = [], 0
    if some:
        yield some


@contextmanager
def hold_back_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from each process that begins in here, also while it loads; this one may see it later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ProcessWorkers:
    """So many processes of this machine; each reads the log's file by itself. They stay until this is
    closed, and do what they were prepared for first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None
        self._ends: tuple[Connection, ...] = ()

    def work(
        self, pieces: Iterable[SessionPiece], log: Readable, prepare: Callable[[Readable], Work[T]]
    ) -> Iterator[tuple[SessionPiece, T]]:
        """Yield what worker processes find, in the order of the pieces; few pieces are under way at a time."""
        assert isinstance(log, SqliteLog), "processes open the log by its path"
        under_way: deque[tuple[list[SessionPiece], Future[list[T]]]] = deque()
        pool = self._pool = self._pool or self._start(log, prepare)
        try:
            for some in gather_pieces(pieces):
                with hold_back_interrupts():
                    under_way.append((some, pool.submit(_work_on_pieces, some)))
                if len(under_way) >= PIECES_AHEAD * self._count:
                    done, future = under_way.popleft()
                    yield from zip(done, future.result(), strict=True)
            for done, future in under_way:
                yield from zip(done, future.result(), strict=True)
        except BaseException as error:
            # Ctrl-C, say: nobody waits for pieces that are under way.
            for end in self._ends:
                end.close()
            self.close()
            if not isinstance(error, BrokenProcessPool):
                raise
            why = "a process that judges recorded turns was ended from outside; see whether memory ran out"
            raise LogError(why) from None

    def _start(self, log: SqliteLog, prepare: Callable[[Readable], Work[Any]]) -> ProcessPoolExecutor:
        spawn = get_context("spawn")
        wanted, _ = self._ends = spawn.Pipe(duplex=False)
        return ProcessPoolExecutor(self._count, spawn, start_worker, (log.path, prepare, log.read_only, wanted))

    def close(self) -> None:
        """Let the processes go; doing it twice is harmless."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        for end in self._ends:
            end.close()


_work: Work[Any] | None = None
_kept = ExitStack()
"""What a worker process keeps open to its end."""


def start_worker(
    path: Path, prepare: Callable[[Readable], Work[Any]], read_only: bool = False, wanted: Connection | None = None
) -> None:
    """Prepare a worker process: it reads the log by itself, leaves Ctrl-C to its parent, and ends with it.

    It also ends, in the midst of its work, when the other end of `wanted` is closed.
    """
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(wanted,), daemon=True).start()
    log = SqliteLog(path, create=False, read_only=read_only)
    _kept.enter_context(log.keep_reader())
    _kept.enter_context(collect_seldom())
    _work = prepare(log)


def _end_with_parent(wanted: Connection | None) -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel, *filter(None, [wanted])])
    os._exit(1)


def _work_on_pieces(pieces: Sequence[SessionPiece]) -> list[Any]:
    assert _work is not None
    return [_work(piece) for piece in pieces]
