"""The index over all sessions, used by one thread: it catches up before it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.audit_index import AuditIndex

T = TypeVar("T")


class SharedIndex:
    """The index of `log` in the file at `path`, None for memory; it is opened by the first page that asks."""

    def __init__(self, log: SqliteLog, path: Path | None) -> None:
        self._log, self._path = log, path
        self._thread = ThreadPoolExecutor(1, "foregate-index")
        self._index: AuditIndex | None = None

    async def ask(self, question: Callable[[AuditIndex], T]) -> T:
        """Return what the index answers, after it has caught up with the log."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    def _answer(self, question: Callable[[AuditIndex], T]) -> T:
        if self._index is None:
            self._index = AuditIndex(self._log, self._path)
        self._index.catch_up()
        return question(self._index)

    def close(self) -> None:
        """Close the index once what is asked has been answered."""
        if self._index is not None:
            self._thread.submit(self._index.close)
        self._thread.shutdown()
