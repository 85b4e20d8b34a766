"""Lines of a pipe, read by a thread of its own, so that the session's work goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections import deque

from msgspec import Struct

_CHUNK = 65536


class InputLine(Struct, frozen=True):
    """A line without its end. `questions` is how many questions had been asked when its first byte was there."""

    text: str
    questions: int = 0


class Pipe:
    """The lines of standard input, one after the other. Whoever asks a question says so with `asked`."""

    def __init__(self) -> None:
        self.questions = 0
        self._lines: deque[InputLine] = deque()
        self._begun, self._begun_at, self._ended = b"", 0, False
        self._reading = threading.Lock()
        self._thread: threading.Thread | None = None
        self._fd = os.dup(sys.stdin.fileno())  # of our own: a number that is closed elsewhere may be given to another
        self._more = asyncio.Event()

    async def next_line(self) -> InputLine | None:
        """Return the next line, None when there is no more, now and ever after."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._wait_for_lines, args=(asyncio.get_running_loop(),), daemon=True
            )
            self._thread.start()
        while True:
            with self._reading:
                if self._lines:
                    return self._lines.popleft()
                if self._ended:
                    return None
                self._more.clear()
            await self._more.wait()

    def put_back(self, line: InputLine) -> None:
        """Let `line` be the next one again."""
        with self._reading:
            self._lines.appendleft(line)

    def count_question(self) -> None:
        """Count a question about to be shown: whatever has arrived by now, and if only in part, came before it."""
        with self._reading:
            self._take_available()
            self.questions += 1

    def _wait_for_lines(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read until the end; nobody holds the lock while nothing is there."""
        try:
            while not self._ended:
                select.select([self._fd], [], [])
                with self._reading:
                    self._take_available()
                loop.call_soon_threadsafe(self._more.set)
        except RuntimeError:
            return  # the loop has ended and nobody waits for lines any more

    def _take_available(self) -> None:
        """Take what is there now, without waiting for more; the rest of a line at the end is a line."""
        while not self._ended and select.select([self._fd], [], [], 0)[0]:
            chunk = os.read(self._fd, _CHUNK)
            self._ended = not chunk
            self._begun_at = self._begun_at if self._begun else self.questions
            *whole, self._begun = (self._begun + chunk).split(b"\n")
            if self._ended and self._begun:
                whole, self._begun = [self._begun], b""
            for number, data in enumerate(whole):
                at = self.questions if number else self._begun_at
                self._lines.append(InputLine(data.removesuffix(b"\r").decode("utf-8", "replace"), at))
            if whole:
                self._begun_at = self.questions
