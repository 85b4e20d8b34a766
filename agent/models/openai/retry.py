"""Trying again: which waits, how many attempts, how long in all."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from foregate.schemas.errors import ModelError
from foregate.telemetry.diagnostics import get_diagnostics

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Retries:
    """How patient to be. All times in seconds.

    At most `attempts` requests; none begins later than `seconds` after the first. Waits double from `first` up to
    `longest`, each drawn between half and all of that; what the endpoint asks for in `Retry-After` replaces the
    wait, up to `retry_after`.
    """

    attempts: int = 6
    seconds: float = 300.0
    first: float = 0.5
    longest: float = 20.0
    retry_after: float = 60.0


class Transient(Exception):
    """A failure that may pass. `why` says what happened, `advice` what a person can do when it does not pass.

    `wait` is how many seconds the endpoint asked to be left alone, None when it did not say.
    """

    def __init__(self, why: str, advice: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.why, self.advice, self.wait = why, advice, wait


async def call_with_retries(attempt: Callable[[], Awaitable[T]], retries: Retries, *, sleep: Sleep) -> T:
    """Return what `attempt` returns, calling it again after a Transient; raise ModelError when patience is used up."""
    from tenacity import (
        AsyncRetrying,
        retry_if_exception_type,
        stop_after_attempt,
        stop_before_delay,
        wait_exponential,
        wait_random_exponential,
    )

    half = {"multiplier": retries.first / 2, "max": retries.longest / 2}
    doubling = wait_exponential(**half) + wait_random_exponential(**half)

    def wait(state: RetryCallState) -> float:
        asked = _get_failure(state).wait
        return doubling(state) if asked is None else min(asked, retries.retry_after)

    def note(state: RetryCallState) -> None:
        fields = {
            "attempt": state.attempt_number,
            "wait": round(state.upcoming_sleep, 3),
            "why": _get_failure(state).why,
        }
        get_diagnostics().info("model_request_retried", **fields)

    def give_up(state: RetryCallState) -> T:
        failure, tries = _get_failure(state), state.attempt_number
        times = "1 attempt" if tries == 1 else f"{tries} attempts"
        raise ModelError(f"{failure.why} ({times}); {failure.advice}")

    retrying = AsyncRetrying(
        sleep=sleep,
        stop=stop_after_attempt(retries.attempts) | stop_before_delay(retries.seconds),
        wait=wait,
        retry=retry_if_exception_type(Transient),
        before_sleep=note,
        retry_error_callback=give_up,
    )
    result: T = await retrying(attempt)
    return result


def read_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that `Retry-After` (seconds or an HTTP date) or `retry-after-ms` asks for, else None."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / scale
        except ValueError:
            continue
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    return max((then - now).total_seconds(), 0.0) if then.tzinfo is not None else None


def _get_failure(state: RetryCallState) -> Transient:
    failure = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(failure, Transient)
    return failure
