"""Dates, hours of the day and numbers as people write them, in figures and in words; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile

from foregate.policy.mandate_section import Mandate
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import Value, read_forms, trim_text

_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.)?"
_YEAR = r"(?:,? (?:of |de )?(?P<year>\d{4}))?"
_MONTH = r"(?P<month>[^\W\d_]+)\.?"
# "March 1, 2026 at 10:00", "1 March 2026".
_WORDED = tuple(
    compile_late(
        pattern + r"(?:,? (?:at |um |\u00e0 |a las )?(?P<time>\S*\d\S*(?: [ap]\.?m\.?)?))?", re.ASCII | re.IGNORECASE
    )
    for pattern in (rf"{_MONTH} (?:the )?{_DAY}{_YEAR}", rf"{_DAY} (?:of |de )?{_MONTH}{_YEAR}")
)
_DATE, _TIME = r"(?P<date>\d[\d./-]{6,9}\d)", r"(?P<time>\d{1,2}:\S+(?: ?[ap]\.?m\.?)?)"
# "2026-03-01 at 10:00".
_DATE_FIRST = compile_late(rf"{_DATE},? (?:at|um|\u00e0|a las) {_TIME}", re.ASCII | re.IGNORECASE)
# "10:00 on 2026-03-01".
_TIME_FIRST = compile_late(rf"{_TIME},? (?:on|am|le|el) {_DATE}", re.ASCII | re.IGNORECASE)
# "10", "10:30 pm", "10h30".
_HOUR = compile_late(r"(\d{1,2})(?:[:h.](\d\d))? ?(\S*)", re.ASCII)


def read_moments(text: str, section: Mandate) -> tuple[Value, ...] | None:
    """Return each way to read a text as a date, a time or both; None where it is neither.

    A day of a month without its year is one too, written `--05-20`.
    """
    text = trim_text(text)
    if not has_digit(text):
        return None
    for pattern in (_DATE_FIRST, _TIME_FIRST):
        if (both := pattern.fullmatch(text)) is not None:
            text = f"{both['date']} {both['time']}"
    if found := tuple(value for value in read_forms(text) if value.kind == "moment"):
        return found
    if (hour := _HOUR.fullmatch(text)) and (hour[3].casefold() in section.hours):
        return tuple(read_forms(f"{hour[1]}:{hour[2] or '00'}"))
    for pattern in _WORDED:
        if (date := pattern.fullmatch(text)) and (month := find_month(date["month"], section)):
            if date["year"] is None:
                day = int(date["day"])
                return None if date["time"] or not 1 <= day <= 31 else (Value("moment", f"--{month:02}-{day:02}"),)
            time = f" {date['time']}" if date["time"] else ""
            forms = read_forms(f"{date['year']}-{month}-{date['day']}{time}")
            return tuple(value for value in forms if value.kind == "moment") or None
    return None


def has_digit(text: str) -> bool:
    return any(letter.isdecimal() for letter in text)


def find_month(name: str, section: Mandate) -> int:
    """Return the number of the month of that name, 0 where it is no month's."""
    return _number_months(section.months).get(name.casefold(), 0)


@lru_cache(maxsize=8)
def _number_months(months: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    return {name: number for number, names in enumerate(months, 1) for name in names}


LONGEST = 8
"""Words of the longest number that is read: `nine hundred ninety nine thousand nine hundred ninety nine`."""
_ENDS = ".,:;!?)]}\"'"
"""What ends a number, so that the next word begins another: `two, three`."""


def read_number_words(texts: Sequence[str], section: Mandate) -> tuple[int, int]:
    """Return how many words from the first one are one number, and the number; no words where it is none.

    `two hundred` is 200, `twenty-five` 25; `two three` are two numbers.
    """
    size, numbers = 0, list[int]()
    for text in texts[:LONGEST]:
        more = [section.numbers.get(part, -1) for part in trim_text(text).casefold().split("-")]
        if _add_up([*numbers, *more]) is None:
            break
        size, numbers = size + 1, [*numbers, *more]
        if text.endswith(tuple(_ENDS)):
            break
    return size, _add_up(numbers) or 0


def _add_up(numbers: Sequence[int]) -> int | None:
    """Return the number that some numbers say one after another, None where they say none, or several."""
    below = list(takewhile(lambda number: number != 1000, numbers))
    if len(below) == len(numbers):
        return _add_up_hundreds(below)
    thousands = _add_up_hundreds(below) if below else 1
    rest = _add_up_hundreds(numbers[len(below) + 1 :]) if numbers[len(below) + 1 :] else 0
    return None if thousands is None or rest is None else thousands * 1000 + rest


def _add_up_hundreds(numbers: Sequence[int]) -> int | None:
    """Return a number below a thousand."""
    match numbers:
        case [100]:
            return 100
        case [count, 100] if 0 < count < 10:
            return 100 * count
        case [*hundreds, 100, one] | [*hundreds, 100, one, _] if len(hundreds) < 2:
            below = _add_up_hundreds(numbers[len(hundreds) + 1 :])
            above = _add_up_hundreds(numbers[: len(hundreds) + 1])
            return above + below if above and below and one < 100 else None
        case [tens, unit] if 20 <= tens < 100 and tens % 10 == 0 and 0 < unit < 10:
            return tens + unit
        case [number] if 0 <= number < 100:
            return number
    return None
