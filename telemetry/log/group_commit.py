"""One writer at a time: whatever is waiting when it commits becomes durable together.

A thread writes. A session that is alone in its log writes itself what it waits for, since to hand it over and to be
told takes longer than the commit; where the thread writes, or another process does, the thread gets it all the same.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from foregate.schemas.errors import LogError, SessionHeld
from foregate.schemas.protocols import Lease
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.parts import Part
from foregate.telemetry.log.sqlite_file import build_error, retry_while_busy

T = TypeVar("T")

LINGER = 0.01
"""Seconds an event nobody waits for may stay in memory, so that neighbours share its commit; at most twice as long
where a session wrote meanwhile."""
BACKLOG = 4 * 1024 * 1024
"""Characters of one session that may wait to be written; beyond it appending waits for the disk."""
Row = tuple[str, int, str, str]
"""Session, number, text as it is stored, hash."""
Cut = tuple[int, Part]
"""The number of an event, and a part that was cut out of its text."""


class SessionQueue(Struct, eq=False):
    """A session this process appends to: its head in memory, what waits to be written, and who waits for it."""

    lease: Lease
    seq: int
    hash: str
    durable: int
    failed: LogError | None = None
    rows: list[Row] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    size: int = 0
    waiting: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)

    def raise_failure(self) -> None:
        """Raise the error that ended this lease, if one did."""
        if self.failed is not None:
            raise type(self.failed)(str(self.failed))


Batch = tuple[SessionQueue, list[Row], list[Cut]]


class GroupCommit:
    """One thread owns the writing connection and commits whatever has queued up since its last commit."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._guard, self._writing = threading.RLock(), threading.Lock()
        self._changed = threading.Condition(self._guard)
        self._ready: dict[int, SessionQueue] = {}
        self._jobs: list[tuple[Callable[[sqlite3.Connection], object], Future[object]]] = []
        self._taken = 0
        self._urgent = self._closing = self._is_idle = False
        self._thread = threading.Thread(target=self._run_thread, name=f"foregate-log {path.name}", daemon=True)
        self._thread.start()

    def enqueue(self, held: SessionQueue, rows: list[Row], cuts: Sequence[Cut] = ()) -> None:
        """Hand over rows in order; they are written when they have lingered, or at once when somebody settles.

        `cuts` are the parts that were cut out of them, which are written with them.
        """
        with self._guard:
            if self._closing:
                self._refuse_when_closed()
            held.rows += rows
            held.cuts += cuts
            for row in rows:
                held.size += len(row[2])
            self._ready[id(held)] = held
            if self._is_idle:
                self._changed.notify()

    async def settle(self, held: SessionQueue, *, is_alone: bool = False) -> None:
        """Return when all rows of `held` are durable; raise LogError when they cannot be.

        `is_alone` says that no other session could have something to write in the same commit.
        """
        if held.durable >= held.seq and held.failed is None:
            return
        if held.failed is not None:
            held.raise_failure()
        if is_alone and self._write_here():
            if held.durable < held.seq and held.failed is None:
                held.failed = LogError(f"writing to the log `{self._path}` was interrupted; resume the session")
        else:
            loop = asyncio.get_running_loop()
            with self._guard:
                wanting = held.failed is None and held.durable < held.seq
                if wanting:
                    done = loop.create_future()
                    held.waiting.append((held.seq, done))
            if wanting:
                # Whoever else is about to settle appends first: one commit is for all.
                loop.call_soon(self._hurry)
                await done
        if held.failed is not None:
            held.raise_failure()

    def _write_here(self) -> bool:
        """Write what is ready; return False, with nothing done, where the thread is at it or the file is not free."""
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if self._jobs or self._closing:
                return False
            self._connection.execute("BEGIN IMMEDIATE")
            self._store_batch(self._take_batch(), has_begun=True)
        except sqlite3.OperationalError:
            # The thread meets the same, waits for it and says so.
            return False
        finally:
            # A signal came between.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._writing.release()
        return True

    def _take_batch(self) -> list[Batch]:
        """Return all rows that are ready; only for whoever holds `_writing`, so that no row overtakes another."""
        with self._guard:
            batch = [(held, held.rows, held.cuts) for held in self._ready.values()]
            for held, *_ in batch:
                held.rows, held.cuts, held.size = [], [], 0
            self._ready.clear()
            self._taken += 1
            return batch

    def _hurry(self) -> None:
        with self._guard:
            self._urgent = True
            self._changed.notify()

    async def run_job(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run `job` on the writing thread after everything handed over before; return what it returns."""
        return await asyncio.wrap_future(self.hand_job(job))

    def hand_job(self, job: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Hand over a job, which runs on the writing thread after everything handed over before."""
        future: Future[T] = Future()
        with self._changed:
            self._refuse_when_closed()
            self._jobs.append((job, future))  # type: ignore[arg-type]
            self._changed.notify()
        return future

    def finish(self, job: Callable[[sqlite3.Connection], object]) -> None:
        """Run `job` after everything handed over before, and wait for it; whether it fails is nobody's concern."""
        future: Future[object] = Future()
        with self._changed:
            self._refuse_when_closed()
            self._jobs.append((job, future))
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            future.exception()

    def close(self) -> None:
        """Write what is left, stop the thread, close the connection; doing it twice is harmless."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _refuse_when_closed(self) -> None:
        if self._closing:
            raise LogError(f"the log `{self._path}` is closed; open it again")

    def _run_thread(self) -> None:
        while True:
            with self._changed:
                taken = self._taken
                if not self._changed.wait_for(self._must_write, LINGER) and (not self._ready or taken != self._taken):
                    if not self._ready:
                        self._is_idle = True
                        self._changed.wait_for(lambda: self._ready or self._must_write())
                        self._is_idle = False
                    # What has come since then, or since a session wrote, lingers so that neighbours share its commit.
                    continue
            with self._writing:
                with self._changed:
                    batch = self._take_batch()
                    jobs, self._jobs, self._urgent = self._jobs, [], False
                    last = self._closing and not batch and not jobs
                if last:
                    self._connection.close()
                    return
                if batch:
                    self._store_batch(batch)
                for job, future in jobs:
                    self._run_one(job, future)

    def _must_write(self) -> bool:
        """Whether somebody waits, so that nothing lingers."""
        return bool(self._urgent or self._jobs or self._closing)

    def _run_one(self, job: Callable[[sqlite3.Connection], object], future: Future[object]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(job(self._connection))
        except sqlite3.Error as error:
            future.set_exception(build_error("write", self._path, error))
        except BaseException as error:
            future.set_exception(error)

    def _store_batch(self, batch: list[Batch], *, has_begun: bool = False) -> None:
        """Commit the batch as one; when that fails, each session on its own, so that one cannot fail the others."""
        # A lease that has failed once writes nothing more: its later rows would stand behind a gap.
        sound = [given for given in batch if given[0].failed is None]
        try:
            self._commit_batch(sound, has_begun=has_begun)
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, (sqlite3.Error, SessionHeld)):
                for alone in batch:
                    self._store_batch([alone])
                return
            for held, *_ in batch:
                held.failed = self._explain_failure(error)
            if not isinstance(error, Exception):
                raise
        else:
            for held, rows, _ in sound:
                held.durable = rows[-1][1]
        self._wake_waiters([held for held, *_ in batch])

    def _commit_batch(self, batch: list[Batch], *, has_begun: bool) -> None:
        try:
            if not has_begun:
                retry_while_busy(self._path, lambda: self._connection.execute("BEGIN IMMEDIATE"))
            for held, rows, cuts in batch:
                self._insert_rows(held, rows)
                if cuts:
                    self._insert_parts(held.lease.session, cuts)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _insert_rows(self, held: SessionQueue, rows: list[Row]) -> None:
        """Insert rows under the lease's fence, and note the new head beside it, in the transaction under way."""
        lease = held.lease
        session, seq, _, hash_ = rows[-1]
        # Rows before these were lost, and the chain must have no gap.
        if rows[0][1] != held.durable + 1:
            raise LogError(
                f"writing to session `{session}` was interrupted before event {rows[0][1]}; resume the session"
            )
        ours = self._connection.execute(
            "UPDATE leases SET seq = ?, hash = ? WHERE session = ? AND owner = ? AND fence = ? AND seq = ?",
            (seq, hash_, session, lease.owner, lease.fence, held.durable),
        )
        # The row has another owner or fence now: the session was taken over.
        if ours.rowcount != 1:
            raise SessionHeld(f"session `{session}` was taken over by another process; nothing more was written here")
        self._connection.executemany("INSERT INTO events (session, seq, text, hash) VALUES (?, ?, ?, ?)", rows)
        for _, number, text, _ in rows:
            if '"need_' in text or '"task_ended"' in text:
                for note in (sqlite_file.NOTE_RAISED, sqlite_file.NOTE_ENDED):
                    self._connection.execute(note, (session, number))

    def _insert_parts(self, session: str, cuts: list[Cut]) -> None:
        """Insert where parts of events belong, and the parts that are not there; what is there is not believed."""
        for seq, part in cuts:
            self._connection.execute(
                "INSERT INTO parts (hash, text) VALUES (?, ?) "
                "ON CONFLICT (hash) DO UPDATE SET text = excluded.text WHERE text != excluded.text",
                (part.hash, part.text),
            )
            self._connection.execute("INSERT INTO cuts VALUES (?, ?, ?, ?)", (session, seq, part.place, part.hash))

    def _explain_failure(self, error: BaseException) -> LogError:
        if isinstance(error, LogError):
            # Without its traceback, which holds the rows.
            return type(error)(str(error))
        why = error if isinstance(error, Exception) else LogError(type(error).__name__)
        return LogError(f"{build_error('write', self._path, why)}; then resume the session")

    def _wake_waiters(self, done: list[SessionQueue]) -> None:
        """Tell everybody whose rows are durable, or whose lease failed; their loops may be gone by now."""
        loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        with self._guard:
            for held in done:
                if held.failed is not None:
                    held.rows, held.cuts = [], []
                waiting, held.waiting = held.waiting, []
                for wait in waiting:
                    if held.failed is None and wait[0] > held.durable:
                        held.waiting.append(wait)
                    else:
                        loops.setdefault(wait[1].get_loop(), []).append(wait[1])
        for loop, futures in loops.items():
            try:
                loop.call_soon_threadsafe(_resolve_futures, futures)
            # The loop is closed, and with it has gone whoever waited.
            except RuntimeError:
                continue


def _resolve_futures(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
