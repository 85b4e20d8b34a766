"""What has happened since a page was built, as server-sent events: told by number, and never what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from foregate.console.form import FormRefused
from foregate.schemas.errors import LogError
from foregate.telemetry.log.sqlite_log import SqliteLog

PAUSE = 0.4
"""Seconds between two looks at the log."""
_SILENCE = 30
"""Looks without news after which a line without meaning goes out, so that a page that is gone is noticed."""
MOST = 24
"""Pages that follow at the same time."""


class Live:
    """Follows a log for open pages."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._open = 0
        self._is_ended = False

    def end(self) -> None:
        """End every stream at its next look, so that the server can end."""
        self._is_ended = True

    def build_look(self, session: str) -> Callable[[], int]:
        """Return what reads the number of a session's last event, or of all events where none is named.

        Raises Refused for a session that is not there.
        """
        if not session:
            return self._log.count_events
        try:
            self._log.head_anchor(session)
        except LogError as error:
            raise FormRefused(404, str(error)) from None
        return lambda: self._log.head_anchor(session)[0]

    async def follow(self, look: Callable[[], int], last: int) -> AsyncIterator[str]:
        """Yield server-sent events: one for each change of the number since `last`, with it as its id."""
        with self._take_place():
            yield "retry: 1500\n\n"
            silent = 0
            while not self._is_ended:
                now = await asyncio.to_thread(look)
                silent = silent + 1 if now == last else 0
                if now != last:
                    last = now
                    yield f"id: {now}\nevent: grown\ndata: {now}\n\n"
                elif silent % _SILENCE == _SILENCE - 1:
                    yield ":\n\n"
                await asyncio.sleep(PAUSE)

    @contextmanager
    def _take_place(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def check_room(self) -> None:
        """Raise Refused where too many pages follow already."""
        if self._open >= MOST:
            raise FormRefused(503, f"{MOST} pages follow this log already; close some, or use the link that refreshes")
