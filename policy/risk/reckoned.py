"""Values that follow from what the person said: an end from start and duration, tomorrow's date, a sum. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import NamedTuple

from foregate.policy.mandate_section import Mandate
from foregate.policy.risk.moments import LONGEST, has_digit, read_number_words
from foregate.policy.risk.places import ValuePosition
from foregate.policy.risk.said import SaidMessage, SaidValues
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import Value

# "1" and "hour" in "1-hour", "2.5", "10:30", "tomorrow".
_TOKEN = compile_late(r"\d(?:[\d.,:]*\d)?|[^\W\d_]+")
# "90", "2.5".
_COUNT = compile_late(r"\d{1,6}(?:[.,]\d{1,2})?")
"""A number of units: neither a time of the day nor `1,000`, which people read in two ways."""
_WEEK = 7
_MOST = 8
"""Amounts of a message that are added up."""
_MOST_DURATIONS = 16
"""Durations of a message that are looked at."""
_LONGEST = 20
"""Characters of a number that is added up."""
_AFTER = 3
"""Words behind a duration among which another half of it may be said: `an hour and a half`."""


def find_reckoning(value: Value, bases: Collection[Value], said: SaidValues, today: str, section: Mandate) -> str:
    """Return how a value follows from what was said, "" where it does not: "2026-05-16 10:00 and 1 hour".

    `bases` are the other values of the same call, for which somebody stands as well, `today` is the day of the session.

    A moment is one of these and a duration that the person said, or what a word such as `tomorrow` or the name of a
    weekday says, with a time that was said; a number the sum of all numbers of one message.
    """
    for message in said.messages:
        tokens = list_own_tokens(message)
        if value.kind == "moment":
            steps = [
                (reached, f"{base.normal} and {words}")
                for minutes, words in islice(list_durations(tokens, section), _MOST_DURATIONS)
                for base in bases
                if (reached := add_minutes(base, minutes)) is not None
            ]
            steps += list_days(tokens, today, section)
            for reached, words in steps:
                if is_reached(value, reached, message):
                    return words
        elif value.kind == "number" and (summed := add_up(value, message)):
            return summed
    return ""


def list_own_tokens(message: SaidMessage) -> list[str]:
    """Return the numbers and folded words of a message's own pieces, in order."""
    pieces = (message.words.pieces[place].text for place in sorted(message.words.own))
    return [token for piece in pieces for token in _TOKEN.findall(unicodedata.normalize("NFKC", piece).casefold())]


class Span(NamedTuple):
    """A duration among the tokens of a message: its places, its minutes, and its smallest unit in minutes."""

    begin: int
    end: int
    minutes: int
    unit: int


def list_durations(tokens: Sequence[str], section: Mandate) -> Iterator[tuple[int, str]]:
    """Yield each duration in minutes with its words: `1-hour`, `two nights`, `half an hour`, `2 hours 30 minutes`."""
    whole: Span | None = None
    for span in list_spans(tokens, section):
        if whole is not None and is_further(whole, span, tokens, section):
            whole = Span(whole.begin, span.end, whole.minutes + span.minutes, span.unit)
            continue
        if whole is not None:
            yield whole.minutes, " ".join(tokens[whole.begin : whole.end])
        whole = span
    if whole is not None:
        yield whole.minutes, " ".join(tokens[whole.begin : whole.end])


def list_spans(tokens: Sequence[str], section: Mandate) -> Iterator[Span]:
    """Yield each number of one unit; none where another half of it follows, as in `an hour and a half`."""
    for place, token in enumerate(tokens):
        unit = section.durations.get(token)
        if unit is None or any(token in section.halves for token in tokens[place + 1 : place + 1 + _AFTER]):
            continue
        begin, count = count_before(tokens, place, section)
        if count is not None and (minutes := count * unit) == int(minutes):
            yield Span(begin, place + 1, int(minutes), unit)


def is_further(one: Span, other: Span, tokens: Sequence[str], section: Mandate) -> bool:
    """Whether a duration goes on in a smaller unit right behind it, or behind a word such as `and`."""
    between = tokens[one.end : other.begin]
    return other.unit < one.unit and len(between) < 2 and all(token in section.direct.joiners for token in between)


def count_before(tokens: Sequence[str], place: int, section: Mandate) -> tuple[int, Decimal | None]:
    """Return where the number before a unit begins, and how many it says, None where it is no plain number."""
    begin = place
    while begin and place - begin <= LONGEST and tokens[begin - 1] in section.numbers:
        begin -= 1
    if begin < place:
        size, number = read_number_words(tokens[begin:place], section)
        return begin, Decimal(number) if size == place - begin else None
    before = tokens[place - 1] if place else ""
    if _COUNT.fullmatch(before):
        return place - 1, Decimal(before.replace(",", "."))
    if before not in section.single:
        return place, None
    half = place > 1 and tokens[place - 2] in section.halves
    return (place - 2, Decimal("0.5")) if half else (place - 1, Decimal(1))


def list_days(tokens: Sequence[str], today: str, section: Mandate) -> Iterator[tuple[Value, str]]:
    """Yield the days that words such as `tomorrow` and `Friday` say, the next one from the day of the session on."""
    try:
        day = date.fromisoformat(today)
    except ValueError:
        return
    for place, token in enumerate(tokens):
        if not is_day(tokens, place, section):
            continue
        ahead = section.days.get(token)
        if (weekday := section.weekdays.get(token)) is not None:
            ahead = (weekday - day.weekday()) % _WEEK or _WEEK
        if ahead is not None:
            # Behind the last year there is no day.
            with suppress(OverflowError):
                yield Value("moment", (day + timedelta(days=ahead)).isoformat()), f"{token}, from {today} on"


def is_day(tokens: Sequence[str], place: int, section: Mandate) -> bool:
    """Whether a word for a day is one where it stands, as in `on sun`, and not in `the sun` or `guten Morgen`."""
    token, before = tokens[place], tokens[place - 1] if place else ""
    none, unsure, fronts = (section.doubtful_days.get(name, ()) for name in ("none", "unsure", "fronts"))
    if f"{before} {token}" in none or (before in section.weekdays and token in section.days):
        return False
    beside = (before, *tokens[place + 1 : place + 2])
    return token not in unsure or before in fronts or any(map(has_digit, beside))


def add_minutes(base: Value, minutes: int) -> Value | None:
    """Return a moment so many minutes later; a day alone moves by whole days, a time alone stays on its day."""
    form = "%Y-%m-%d %H:%M:%S" if " " in base.normal else "%H:%M:%S" if ":" in base.normal else "%Y-%m-%d"
    try:
        begin = datetime.strptime(base.normal, form)
        end = begin + timedelta(minutes=minutes)
    except (ValueError, OverflowError):
        return None
    left = form == "%H:%M:%S" and end.date() != begin.date()
    parts = form == "%Y-%m-%d" and end.time() != begin.time()
    return None if left or parts else Value("moment", end.strftime(form))


def is_reached(value: Value, reached: Value, message: SaidMessage) -> bool:
    """Whether a value is a moment that was reckoned, or that day with a time which the message says."""
    if value == reached:
        return True
    day, _, time = value.normal.partition(" ")
    said = any(Value("moment", time) in place.forms for place in list_own_places(message))
    return bool(time) and day == reached.normal and said


def add_up(value: Value, message: SaidMessage) -> str:
    """Return the numbers of a message whose sum a value is, "" where it is no sum of all of them."""
    numbers: list[str] = []
    for place in list_own_places(message):
        first, *others = sorted(place.forms)
        if first.kind != "number":
            continue
        if any(form.kind == "number" for form in others):
            # `1.200` is a number in two ways.
            return ""
        numbers.append(first.normal)
    if not 1 < len(numbers) <= _MOST or any(len(number) > _LONGEST for number in (*numbers, value.normal)):
        return ""
    return " + ".join(numbers) if sum(map(Decimal, numbers)) == Decimal(value.normal) else ""


def list_own_places(message: SaidMessage) -> list[ValuePosition]:
    return [place for place in message.places if message.words.own.issuperset(range(place.start, place.end))]
