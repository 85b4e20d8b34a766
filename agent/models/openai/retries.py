"""How often a request is tried again, and how long is waited between, by an endpoint's word or by ours."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from foregate.agent.models.openai.refusal import EndpointRefusal
from foregate.schemas.errors import ModelUnreachable
from foregate.schemas.late_pattern import compile_late
from foregate.telemetry.diagnostics import get_diagnostics

if TYPE_CHECKING:
    from tenacity import RetryCallState


T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)"
# "1m2.5s", "450ms", "20 seconds".
_SPAN = compile_late(rf"(\d+(?:\.\d+)?)\s*({_UNIT})(?![a-z])", 2)
# "Please try again in 1m2.5s", "Please retry after 20 seconds", "retry in 7.5s".
_WORDS = compile_late(
    rf"(?:try(?: your request)? again|retry(?:ing)?|wait)(?: your request)?[:,]?(?: (?:after|in|for|at least))?:? "
    rf"((?:\d+(?:\.\d+)?\s*{_UNIT}(?![a-z])[\s,]*(?:and )?)+)",
    # re.IGNORECASE.
    2,
)
_SECONDS = {"ms": 0.001, "mi": 60.0, "m": 60.0, "s": 1.0, "h": 3600.0, "d": 86400.0}
_RESET = compile_late(r"(?:x-)?(?:\w+-)?ratelimit(?:-[a-z-]*?)?-reset(?:-[a-z-]+)?")
"""Names of headers: `x-ratelimit-reset-tokens`, `anthropic-ratelimit-requests-reset`, `ratelimit-reset`."""
_EPOCH, _EPOCH_MS = 1e9, 1e11
"""From these on a bare number counts seconds, or milliseconds, since 1970."""


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


def read_wait(headers: Mapping[str, str], refusal: EndpointRefusal, now: datetime) -> float | None:
    """Return the seconds to wait: those of `Retry-After`, else of the body's fields, its words, and of limits' resets.

    None where nothing is asked for. A reset counts only where the rate of requests is limited.

    >>> read_wait({}, Refusal(429, "Please try again in 1m2.5s."), datetime.now(UTC))
    62.5
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        if (found := read_span(headers.get(name, ""), now)) is not None:
            return found / scale
    for delay in refusal.delays:
        if (found := read_span(delay, now)) is not None:
            return found
    if (said := _WORDS.search(refusal.words)) is not None:
        return read_span(said[1], now)
    return _read_resets({**refusal.headers, **headers}, now) if refusal.status == 429 else None


def read_span(text: str, now: datetime) -> float | None:
    """Return the seconds a text stands for: a number of them, `6m0s`, `450ms`, a date, or a time since 1970.

    None for anything else.
    """
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        # "nan" and "inf" are numbers to Python.
        if not math.isfinite(number):
            return None
        since = number / 1000 if number >= _EPOCH_MS else number
        return max(since - now.timestamp(), 0.0) if since >= _EPOCH else max(number, 0.0)
    if (spans := _SPAN.findall(text[:100])) and text[:1].isdigit() and "T" not in text:
        return float(sum(float(number) * _SECONDS[_name_unit(unit.lower())] for number, unit in spans))
    then = _read_date(text[:100])
    return max((then - now).total_seconds(), 0.0) if then is not None and then.tzinfo is not None else None


def _name_unit(unit: str) -> str:
    return unit[:2] if unit[:2] in ("ms", "mi") and unit[:5] != "milli" else "ms" if unit[:5] == "milli" else unit[:1]


def _read_date(text: str) -> datetime | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return read(text)
        except (ValueError, OverflowError):
            continue
    return None


def _read_resets(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return when the limit that is used up is lifted, the first of those there are where none says that it is."""
    spent: list[float] = []
    every: list[float] = []
    for name, value in headers.items():
        if _RESET.fullmatch(name.lower()) is None or (wait := read_span(value, now)) is None:
            continue
        every.append(wait)
        if headers.get(name.replace("reset", "remaining"), "").strip() == "0":
            spent.append(wait)
    return max(spent) if spent else min(every, default=None)
