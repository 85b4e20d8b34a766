"""Dates as people write them, with names of months, and hours of the day."""

from __future__ import annotations

import re
from functools import lru_cache

from foregate.policy.mandate_section import Mandate
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import Value, read_forms, trim_text

_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.)?"
_YEAR = r"(?:,? (?:of |de )?(?P<year>\d{4}))?"
_MONTH = r"(?P<month>[^\W\d_]+)\.?"
_WORDED = tuple(
    compile_late(
        pattern + r"(?:,? (?:at |um |\u00e0 |a las )?(?P<time>\S*\d\S*(?: [ap]\.?m\.?)?))?", re.ASCII | re.IGNORECASE
    )
    for pattern in (rf"{_MONTH} (?:the )?{_DAY}{_YEAR}", rf"{_DAY} (?:of |de )?{_MONTH}{_YEAR}")
)
_HOUR = compile_late(r"(\d{1,2})(?:[:h.](\d\d))? ?(\S*)", re.ASCII)


def read_moments(text: str, section: Mandate) -> tuple[Value, ...] | None:
    """Return each way to read a text as a date, a time or both; None where it is neither.

    A day of a month without its year is one too, written `--05-20`.
    """
    text = trim_text(text)
    if not has_digit(text):
        return None
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
