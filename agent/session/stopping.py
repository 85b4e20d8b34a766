"""Giving up what runs because a person wants it: the task ends and its outcome is told, and nothing is raised."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakSet

_STOPPED: WeakSet[asyncio.Future[Any]] = WeakSet()

LONGEST_WORDS = 200
"""Characters of what a caller says to its cancel that the log keeps."""
PERSON, CALLER = "the person", "the caller"


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
