"""How often a request is tried again, and how long is waited between."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from foregate.schemas.errors import ModelUnreachable
from foregate.telemetry.diagnostics import get_diagnostics

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Retries(Struct, frozen=True):
    """How patient to be. All times in seconds.

    At most `attempts` requests; none begins later than `seconds` after the first. Waits double from `first` up to
    `longest`, each drawn between half and all of that; what the endpoint asks for replaces the wait, up to
    `retry_after`.
    """

    attempts: int = 6
    seconds: float = 300.0
    first: float = 0.5
    longest: float = 20.0
    retry_after: float = 60.0

    def compute_longest_wait(self, begun: int) -> float:
        """Return the seconds that all waits between the attempts take at most, once `begun` attempts have failed."""
        waits = (min(self.first * 2.0 ** (number - 1), self.longest) for number in range(begun, self.attempts))
        return float(min(sum(waits), self.seconds))


class Transient(Exception):
    """A failure that may pass. `why` says what happened, `advice` what a person can do when it does not pass.

    `wait` is how many seconds the endpoint asked to be left alone, None when it did not say.
    """

    def __init__(self, why: str, advice: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.why, self.advice, self.wait = why, advice, wait


OnRetry = Callable[[str], None]
"""Hears in a sentence why a request failed, and how long it is tried again."""


async def call_with_retries(
    attempt: Callable[[], Awaitable[T]], retries: Retries, *, sleep: Sleep, on_retry: OnRetry | None = None
) -> T:
    """Return what `attempt` returns, calling it again after a Transient; raise ModelUnreachable in the end.

    `on_retry` hears of the first failure, and of each one for another reason than the one before.
    """
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

    def get_failure(state: RetryCallState) -> Transient:
        failure = state.outcome.exception() if state.outcome is not None else None
        assert isinstance(failure, Transient)
        return failure

    def wait(state: RetryCallState) -> float:
        asked = get_failure(state).wait
        return doubling(state) if asked is None else min(asked, retries.retry_after)

    told = ""

    def note(state: RetryCallState) -> None:
        nonlocal told
        failure, number = get_failure(state), state.attempt_number
        wait = round(state.upcoming_sleep, 3)
        get_diagnostics().info("model_request_retried", attempt=number, wait=wait, why=failure.why)
        if on_retry is not None and told != failure.why:
            told = failure.why
            longest = max(state.upcoming_sleep, retries.compute_longest_wait(number))
            often = "once" if retries.attempts - number == 1 else f"up to {retries.attempts - number} times"
            on_retry(f"{failure.why}; trying again {often}, with {max(1, math.ceil(longest))} s of waiting at most")

    retrying = AsyncRetrying(
        sleep=sleep,
        stop=stop_after_attempt(retries.attempts) | stop_before_delay(retries.seconds),
        wait=wait,
        retry=retry_if_exception_type(Transient),
        before_sleep=note,
        reraise=True,
    )
    try:
        return await retrying(attempt)
    except Transient as failure:
        tries = retrying.statistics["attempt_number"]
        times = "1 attempt" if tries == 1 else f"{tries} attempts"
        raise ModelUnreachable(f"{failure.why} ({times}); {failure.advice}") from None
