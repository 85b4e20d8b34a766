"""What Ctrl-C does to work at a terminal: one may pause it, the next cancels it, further ones wait."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from foregate.cli.terminal.colours import CARE

if TYPE_CHECKING:
    from foregate.agent.session.result import PlanDriver
    from foregate.cli.terminal.screen import Screen


T = TypeVar("T")


@contextmanager
def interruptible(task: asyncio.Task[T], pauses: Callable[[], bool] = lambda: False) -> Iterator[asyncio.Task[T]]:
    """Let the first Ctrl-C that `pauses` nothing cancel `task`; further ones wait for the loop to tidy up."""
    loop, asked = asyncio.get_running_loop(), False

    def cancel() -> None:
        nonlocal asked
        if not asked and not pauses():
            asked = True
            task.cancel()

    before = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, cancel)
    except (NotImplementedError, RuntimeError, ValueError):
        yield task
        return
    try:
        yield task
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def pause(desk: PlanDriver | None, screen: Screen) -> bool:
    """Let the plan that runs pause, and say so; whether there was one to pause."""
    if desk is None or not desk.pause():
        return False
    screen.idle()
    screen.say("pausing after the call in hand; Ctrl-C again cancels", CARE)
    return True
