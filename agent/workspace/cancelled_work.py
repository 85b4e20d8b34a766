"""Work that is given up: who cancelled it, and work in a thread that nothing leaves half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")
_STOPPED: WeakSet[asyncio.Future[Any]] = WeakSet()
LONGEST_WORDS = 200
"""Characters of what a caller says to its cancel that the log keeps."""
PERSON, CALLER = "the person", "the caller"


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


class Stopped(asyncio.CancelledError):
    """A person gave up the task while they were asked."""


def stop_task(task: asyncio.Task[Any]) -> bool:
    """Cancel what takes a session's steps because a person wants it, and return whether it was under way.

    The session's task ends, and `task` returns its outcome. `task.cancel()` is a caller's word: it is recorded as that,
    and CancelledError goes on to whoever waits.
    """
    _STOPPED.add(task)
    return task.cancel()


def name_canceller(work: asyncio.Task[Any] | None, error: BaseException) -> str:
    """Return who cancelled what `work` does, and what they said to it: the person, the caller, or something it used."""
    if isinstance(error, Stopped) or work in _STOPPED:
        return PERSON
    if work is None or not work.cancelling():
        return "something it waited for"
    words = next((said for said in error.args if isinstance(said, str)), "")[:LONGEST_WORDS]
    return f"{CALLER} ({words})" if words else CALLER
