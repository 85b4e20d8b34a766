"""How long to wait."""

from __future__ import annotations

import pytest

from foregate.agent.models.openai.retries import Retries, Transient, call_with_retries
from foregate.schemas.errors import ModelError


async def test_waits_double_and_stay_between_half_and_all() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def fail() -> None:
        raise Transient("it failed", "wait")

    with pytest.raises(ModelError, match=r"it failed \(7 attempts\); wait"):
        await call_with_retries(fail, Retries(attempts=7, first=1, longest=8), sleep=sleep)
    for wait, whole in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert whole / 2 <= wait <= whole


async def test_what_is_not_transient_is_raised_at_once() -> None:
    async def fail() -> None:
        raise KeyError("ours")

    async def sleep(_: float) -> None:
        raise AssertionError("nothing to wait for")

    with pytest.raises(KeyError):
        await call_with_retries(fail, Retries(), sleep=sleep)
