"""Work in a thread that nothing leaves half done: who waits for it can be cancelled, and then it is over first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_until_over(work: asyncio.Future[Any]) -> bool:
    """Wait until something is over, and return whether the waiting was cancelled meanwhile."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


async def run_to_end(act: Callable[..., T], *arguments: Any) -> T:
    """Run something that blocks in a thread and return what it returns; cancelled, it is over before that is raised."""
    work = asyncio.ensure_future(asyncio.to_thread(act, *arguments))
    if await wait_until_over(work):
        # It is looked at, so that nobody is told of it.
        work.exception()
        raise asyncio.CancelledError
    return work.result()
