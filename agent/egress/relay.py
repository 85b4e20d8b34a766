"""Two connections joined: what comes from one side goes out at the other, until both sides have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from foregate.agent.egress.addresses import Streams

_CHUNK = 65536


async def relay(inside: Streams, outside: Streams, count: Callable[[int], None] | None = None) -> None:
    """Pass bytes in both directions; return when both sides have said their end, and raise OSError where one breaks.

    `count` is told how many bytes are about to be sent outside; what it raises ends both.
    """
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(inside[0], outside[1], count))
            both.create_task(_copy(outside[0], inside[1], None))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, count: Callable[[int], None] | None) -> None:
    while data := await source.read(_CHUNK):
        if count is not None:
            count(len(data))
        sink.write(data)
        await sink.drain()
    sink.write_eof()
