"""What a program says to us on standard input, line by line: strict JSON, bounded, and nobody else's to read."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

_CHUNK = 65536
_AHEAD = 16
"""Lines that are read before they are taken."""
Refuse = Callable[[Json, str], Awaitable[None]]
"""Answers a line that is no JSON, with the id it would have had, None where that cannot be told."""


class Lines:
    """The lines of a descriptor that are strict JSON; `refuse` answers the others.

    A thread that nobody waits for reads, since a read cannot be called off: the process may end while it waits. Of a
    line of more than `most` bytes no more is kept, and it is refused.
    """

    def __init__(self, descriptor: int, most: int, refuse: Refuse) -> None:
        self._descriptor, self._most, self._refuse = descriptor, most, refuse
        self._read: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ahead = threading.Semaphore(_AHEAD)

    async def __aiter__(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._queue_lines, args=(loop,), daemon=True).start()
        while (line := await self._read.get()) is not None:
            self._ahead.release()
            if len(line) > self._most:
                await self._refuse(None, f"the message is larger than {self._most} bytes; send less")
                continue
            text = line.decode("utf-8", "replace")
            try:
                strict_json.parse(text, max_bytes=self._most, max_depth=strict_json.MAX_RECORD_DEPTH)
            except InvalidJson as error:
                if text.strip():
                    await self._refuse(find_id(text), str(error))
            else:
                yield text

    def _queue_lines(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop has ended, and with it whoever would have taken the line.
        with suppress(RuntimeError):
            for line in self._split_lines():
                self._ahead.acquire()
                loop.call_soon_threadsafe(self._read.put_nowait, line)
            loop.call_soon_threadsafe(self._read.put_nowait, None)

    def _split_lines(self) -> Iterator[bytes]:
        """Yield what is read, line by line; the last one may be without an end, and of a long one its beginning."""
        rest = bytearray()
        with suppress(OSError):
            while data := os.read(self._descriptor, _CHUNK):
                first, *more = data.split(b"\n")
                rest += first
                for part in more:
                    yield bytes(rest)
                    rest = bytearray(part)
                del rest[self._most + 1 :]
        if rest:
            yield bytes(rest)


def take_over_input(descriptor: int) -> int:
    """Return a descriptor for what is read at `descriptor`, where nothing is read any more: no program started here
    takes a line that is for us."""
    own, nothing = os.dup(descriptor), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)
    return own


def find_id(text: str) -> Json:
    """Return the id in a line that is not strict JSON, None where none can be found."""
    with suppress(ValueError, RecursionError):
        said = json.loads(text)
        if isinstance(said, dict) and isinstance(said.get("id"), (int, str)):
            return strict_json.scrub(said["id"]) if isinstance(said["id"], str) else said["id"]
    return None
