"""How long to wait."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from foregate.agent.models.openai.retries import Retries, Transient, call_with_retries, read_retry_after
from foregate.schemas.errors import ModelError

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Tue, 01 Jan 2030 00:01:00 GMT"}, 60.0),
        ({"retry-after": "Mon, 31 Dec 2029 00:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Tue, 01 Jan 2030 00:01:00"}, None),
        ({"retry-after": "Tue, 99 Jan 2030 00:01:00 GMT"}, None),
        ({}, None),
    ],
)
def test_what_the_endpoint_asks_for_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, NOW) == seconds


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
