"""How a command runs and ends: its asynchronous part, and what its exit code means, on which scripts rely."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from foregate.schemas.errors import (
    ForegateError,
    ModelUnreachable,
    PolicyError,
    SessionHeld,
    TamperedLog,
    UsageError,
    WorkspaceError,
)

COMPLETED, ERROR, USAGE, NOT_VERIFIED, HELD = 0, 1, 2, 8, 9
STATUS = {
    "completed": COMPLETED,
    "blocked": 3,
    "budget_exhausted": 4,
    "failed": 5,
    "needs_input": 6,
    "awaiting_approval": 7,
    "paused": 10,
    "cancelled": 130,
}
"""The exit code of a task's or a plan's status; 130 is what shells expect after Ctrl-C."""


def exit_code_of(error: ForegateError) -> int:
    match error:
        case SessionHeld():
            return HELD
        case TamperedLog():
            return NOT_VERIFIED
        case ModelUnreachable():
            return STATUS["failed"]
        case UsageError() | PolicyError() | WorkspaceError():
            return USAGE
        case _:
            return ERROR


T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end; asyncio is only loaded then, so that `--help` does not pay for it."""
    import asyncio

    return asyncio.run(work)
