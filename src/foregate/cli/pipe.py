"""Lines of a pipe, read by a thread of its own, so that the session's work goes on meanwhile."""

from __future__ import annotations

import asyncio
import sys
import threading

from msgspec import Struct


class Line(Struct, frozen=True):
    """A line without its end. `questions` is how many questions had been shown when it was read."""

    text: str
    questions: int = 0


class Pipe:
    """The lines of standard input, one after the other. Whoever shows a question counts it in `questions`."""

    def __init__(self) -> None:
        self.questions = 0
        self._lines: asyncio.Queue[Line | None] | None = None
        self._back: list[Line | None] = []

    async def next(self) -> Line | None:
        """Return the next line, None when there is no more, now and ever after."""
        if self._back:
            return self._back.pop()
        if self._lines is None:
            self._lines = asyncio.Queue()
            threading.Thread(target=self._read, args=(asyncio.get_running_loop(), self._lines), daemon=True).start()
        line = await self._lines.get()
        if line is None:
            self._back.append(None)
        return line

    def put_back(self, line: Line | None) -> None:
        """Let `line` be the next one again."""
        self._back.append(line)

    def _read(self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[Line | None]) -> None:
        try:
            for text in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, Line(text.rstrip("\n"), self.questions))
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except RuntimeError:
            return  # the loop has ended and nobody waits for lines any more
