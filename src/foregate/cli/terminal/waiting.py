"""Running a command's asynchronous part; asyncio is only loaded then, so that `--help` does not pay for it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return what it returns."""
    import asyncio

    return asyncio.run(work)
