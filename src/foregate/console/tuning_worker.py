"""What the pages of tuning ask the cube: one question after the other, beside the pages, however long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar, cast

from foregate.console.form import FormRefused
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.cube import CubeView, open_cube

T = TypeVar("T")
PATIENCE = 2.0
"""Seconds that a page waits for an answer; after that it says how far the work is."""
_MOST = 8
"""Questions that are under way at most."""


class WorkerClosed(Exception):
    """The console ends, so nobody waits for the rest."""


class TuningWorker:
    """Answers questions about keys of the policy over all sessions of a log.

    `done` of `all` pieces of work are through. Close it when done: what is under way stops at the next piece.
    """

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._thread = ThreadPoolExecutor(1, "foregate-tuning")
        self._jobs: dict[str, Future[Any]] = {}
        self._closing = False
        self.done, self.all = 0, 0

    async def ask(self, key: str, name: str, question: Callable[[CubeView], T]) -> T | None:
        """Return what is found in the turns at every value of a key; None where that is not known yet, ask again then.

        Questions of one `name` are one. Raises what the work raises.
        """
        job = self._jobs.get(name)
        if job is None:
            if len(self._jobs) >= _MOST:
                raise FormRefused(429, "other keys are being worked on; try again in a minute")
            sessions = await self._log.sessions()
            job = self._jobs.get(name) or self._begin(name, lambda: self._answer(key, sessions, question))
        await asyncio.to_thread(wait, [job], PATIENCE)
        return cast("T | None", job.result()) if job.done() else None

    def _begin(self, name: str, work: Callable[[], T]) -> Future[T]:
        job = self._jobs[name] = self._thread.submit(work)
        job.add_done_callback(lambda _: self._jobs.pop(name, None))
        return job

    def _answer(self, key: str, sessions: Sequence[str], question: Callable[[CubeView], T]) -> T:
        self.done, self.all = 0, 0
        with open_cube(self._log, progress=self._note) as cube:
            return question(cube.bring_up(key, sessions))

    def _note(self, done: int, count: int) -> None:
        if self._closing:
            raise WorkerClosed
        self.done, self.all = done, count

    def close(self) -> None:
        """Take no further question, and end what is under way."""
        self._closing = True
        self._thread.shutdown(cancel_futures=True)
