"""Where values stand in a message, and each way to read them; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from foregate.policy.mandate_section import Mandate
from foregate.policy.risk.moments import find_month, has_digit, read_moments, read_number_words
from foregate.policy.risk.own_words import OwnWords
from foregate.policy.risk.sorts import read_bare_host
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import Value, read_forms, trim_text

_WIDEST = 9
"""Words of the longest date with a time: `15 de mayo de 2024 a las 3:30 pm`."""
_MONTH_WITHIN = 4
"""Words of a date among which its month stands: `15 of the May`."""
_WIDEST_NUMBER = 4
"""Words of the longest number, or of a time: `1 200 300 EUR`."""
# "'s" in "Ann's".
_POSSESSIVE = compile_late(r"'s$", re.IGNORECASE)


class ValuePosition(NamedTuple):
    """Where values stand in a message: the pieces, and each way to read them; a date and its time stand apart.

    `is_worded` is a number in words.
    """

    start: int
    end: int
    forms: frozenset[Value]
    is_worded: bool = False

    @property
    def is_one(self) -> bool:
        """Whether it is `one`, which counts something less often than it stands for a thing."""
        return self.is_worded and Value("number", "1") in self.forms


def find_places(words: OwnWords, section: Mandate) -> Iterator[ValuePosition]:
    """Yield where values stand; the longest date, time or number first, so that none of its parts counts."""
    pieces, at = words.pieces, 0
    while at < len(pieces):
        size, forms = 1, frozenset[Value]()
        if pieces[at].kind == "word":
            size, forms = read_longest(words, at, section)
        elif pieces[at].kind == "quotation":
            forms = frozenset(list_forms(pieces[at].text, section))
        worded = 0
        if not forms and size == 1 and pieces[at].kind == "word":
            worded, number = read_number_words(list_run(words, at), section)
            forms = frozenset([Value("number", str(number))] if worded else ())
        if forms:
            yield ValuePosition(at, at + (worded or size), forms, worded > 0)
        at += worded or size


def list_run(words: OwnWords, at: int) -> list[str]:
    """Return the words from a place on to the end of the sentence or the line, as many as one value can have."""
    first = words.pieces[at]
    return [piece.text for piece in takewhile(lambda piece: piece[1:] == first[1:], words.pieces[at : at + _WIDEST])]


def read_longest(words: OwnWords, at: int, section: Mandate) -> tuple[int, frozenset[Value]]:
    """Return how many words from here are one value, and each way to read them."""
    first, run = words.pieces[at], list_run(words, at)
    has_month = any(find_month(trim_text(text), section) for text in run[:_MONTH_WITHIN])
    if not has_month:
        run = run[: _WIDEST_NUMBER if has_digit(first.text) else 1]
    for size in range(len(run), 1, -1):
        text = " ".join(run[:size])
        if (moments := read_moments(text, section)) is not None:
            return size, split_moments(moments).union(moments)
        if numbers := {value for value in read_forms(text) if value.kind == "number"}:
            return size, frozenset(numbers)
    forms = list_forms(first.text, section)
    return 1, frozenset(value for value in forms if value.kind != "words")


def list_forms(text: str, section: Mandate) -> list[Value]:
    """Return each way to read one word or quotation; `9am-5pm` and `a@x.example,b@x.example` hold two values each."""
    text = _POSSESSIVE.sub("", text.strip())
    moments = read_moments(text, section)
    if moments is not None:
        return [*split_moments(moments).union(moments)]
    for split, kind in ((re.split("[-\u2013\u2014]", text), "moment"), (re.split("[,;]", text), "address")):
        parts = [next(iter(read_forms(part)), None) for part in split]
        if len(parts) > 1 and all(part and part.kind == kind for part in parts):
            return [part for part in parts if part]
    forms = list(read_forms(text.removeprefix("#") if text[1:].isdecimal() else text))
    return [*forms, *(host for form in forms if form.kind == "url" and (host := read_bare_host(form.normal)))]


def split_moments(values: Iterable[Value]) -> frozenset[Value]:
    """Return values, dates and times apart from each other."""
    return frozenset(one for value in values for one in split_moment(value))


def split_moment(value: Value) -> Iterator[Value]:
    """Yield a value, or the date and the time that it says together."""
    yield from (Value("moment", part) for part in value.normal.split()) if value.kind == "moment" else (value,)
