"""Working on pieces of sessions on a Ray cluster: the same work as in processes, past one machine."""

from __future__ import annotations

import os
import secrets
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager, nullcontext
from importlib.util import find_spec
from logging import ERROR
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind
from foregate.schemas.protocols import Erasure, Readable
from foregate.telemetry.log.chain import read_line
from foregate.tuning.piece_store import hash_code
from foregate.tuning.pieces import PIECES_AHEAD, SessionPiece, Work, Workers, cores

T = TypeVar("T")
Lines = Sequence[tuple[int, str, str]]
LOCAL = "local"
_PATIENCE = 5.0
"""Seconds in which a cluster must answer."""


def open_workers(address: str | None) -> AbstractContextManager[Workers]:
    """Return who works: a Ray cluster where one is named, else the processes of this machine."""
    return nullcontext(0) if address is None else open_ray(address)


@contextmanager
def open_ray(address: str) -> Iterator[RayWorkers]:
    """Yield workers on the cluster at an address, as Ray writes it; `local` starts one on this machine for as long.

    Raises UsageError where Ray is not installed, or nothing answers there.
    """
    if find_spec("ray") is None:
        raise UsageError("Ray is not installed; run `pip install 'foregate[ray]'`")
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    more: dict[str, Any] = {}
    with ExitStack() as stack:
        if address == LOCAL:
            # it listens beyond loopback: without the token, anybody on the network could have it run anything
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
            # what it keeps beside memory holds what was said in sessions; a socket lies in it, so its name is short
            folder = TemporaryDirectory(prefix="fg-", dir="/tmp", ignore_cleanup_errors=True)
            more = {"num_cpus": cores(), "include_dashboard": False, "_temp_dir": stack.enter_context(folder)}
        ray = _load_ray()
        try:
            # Workers look for modules in the current folder first, and a workspace may hold any.
            with chdir("/"):
                ray.init(address=address, log_to_driver=False, logging_level=ERROR, **more)
        except (ConnectionError, ValueError, RuntimeError) as error:
            why = f"no Ray cluster takes work at `{address[:100]}` ({_shorten(error)})"
            raise UsageError(f"{why}; `ray start --head` starts one") from None
        stack.callback(ray.shutdown)
        yield RayWorkers(max(1, int(ray.cluster_resources().get("CPU", 1))))


def _load_ray() -> Any:
    import ray

    return ray


def _shorten(error: Exception) -> str:
    return str(error).splitlines()[0][:200]


def _check_reachable(address: str) -> None:
    """Raise UsageError where nothing listens at an address: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address in (LOCAL, "auto"):
        return
    if not (host and port.isascii() and port.isdigit() and len(port) < 6):
        raise UsageError(f"`{address[:100]}` is no address of Ray; write local, auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError):
        raise UsageError(f"nothing answers at `{address[:100]}`; start a cluster by `ray start --head`") from None


class RayWorkers:
    """So many workers on a cluster. What they need of the log is sent to them, session by session."""

    def __init__(self, count: int) -> None:
        self._count = count

    def work(
        self, pieces: Iterable[SessionPiece], log: Readable, prepare: Callable[[Readable], Work[T]]
    ) -> Iterator[tuple[SessionPiece, T]]:
        """Yield what the workers find, in the order of the pieces; few pieces are under way at a time.

        Raises what a worker raises, UsageError for a node with another Foregate, and LogError for one that is gone.
        """
        ray = _load_ray()
        # as wide as the pieces are: a worker that has nothing to do costs a process all the same
        every = list(pieces)
        workers = [ray.remote(RayWorker).remote(prepare, hash_code()) for _ in range(min(self._count, len(every)))]
        under_way: deque[tuple[SessionPiece, Any]] = deque()
        session, sent = "", None
        try:
            for number, piece in enumerate(every):
                if piece.session != session:
                    session, sent = piece.session, ray.put(list(log.lines(piece.session)))
                under_way.append((piece, workers[number % len(workers)].work.remote(piece, sent)))
                if len(under_way) >= PIECES_AHEAD * len(workers):
                    yield _take(*under_way.popleft())
            while under_way:
                yield _take(*under_way.popleft())
        finally:
            for worker in workers:
                ray.kill(worker)


def _take(piece: SessionPiece, found: Any) -> tuple[SessionPiece, Any]:
    """Return the result of a piece once it is there."""
    ray = _load_ray()
    try:
        return piece, ray.get(found)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        why = f"a worker of the Ray cluster cannot do its work ({_shorten(error)})"
        raise LogError(f"{why}; see the cluster's own log") from None


class RayWorker:
    """A worker on a node: it has the same Foregate, and gets the sessions it works on."""

    def __init__(self, prepare: Callable[[Readable], Work[Any]], code: str) -> None:
        self._same = hash_code() == code
        self._log = SentLog()
        self._work = prepare(self._log)

    def work(self, piece: SessionPiece, lines: Lines) -> Any:
        """Return the result of a piece; raise UsageError where other code would judge here."""
        if not self._same:
            raise UsageError("a node of the cluster has another Foregate; install the same version on all of them")
        self._log.take(piece.session, lines)
        return self._work(piece)


class SentLog:
    """The events of the session that was sent last, read as they are asked for."""

    def __init__(self) -> None:
        self._session, self._lines = "", list[tuple[int, str, str]]()
        self._events: dict[int, Event] = {}

    def take(self, session: str, lines: Lines) -> None:
        """Take the lines of a session, as `Readable.lines` gives them."""
        if (session, len(lines)) != (self._session, len(self._lines)):
            self._session, self._lines, self._events = session, list(lines), {}

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield number, text and hash of each event; see Readable."""
        self.head_anchor(session)
        yield from self._lines

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield events after a number; see Readable."""
        self.head_anchor(session)
        for seq, text, hash_ in self._lines[max(after, 0) : until or None]:
            if text:
                if seq not in self._events:
                    self._events[seq] = read_line(text, hash_)
                if not kinds or self._events[seq].kind in kinds:
                    yield self._events[seq]

    def list_erased(self, session: str) -> Mapping[int, Erasure]:
        """Return none: their texts were not sent."""
        return {}

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event; raise LogError for another session."""
        if session != self._session or not self._lines:
            raise LogError(f"session `{session}` was not sent to this worker")
        return self._lines[-1][0], self._lines[-1][2]
