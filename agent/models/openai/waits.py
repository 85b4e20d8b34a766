"""How long an endpoint asks to be left alone, wherever it says so: in headers, in fields or in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from foregate.agent.models.openai.refusal import EndpointRefusal
from foregate.schemas.late_pattern import compile_late

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
