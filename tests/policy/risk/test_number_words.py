"""A number in words is read as the number, and words that only follow each other as several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.moments import read_number_words
from foregate.policy.source.load import default_policy

SECTION = default_policy().mandate
_ONES = dict(enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], 1))
_TEENS = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = dict(enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2))


def spell(number: int) -> str:
    """Return a number below a million in words, independently of what reads it."""
    if number >= 1000:
        return f"{spell(number // 1000)} thousand" + (f" {spell(number % 1000)}" if number % 1000 else "")
    if number >= 100:
        return f"{_ONES[number // 100]} hundred" + (f" {spell(number % 100)}" if number % 100 else "")
    if number >= 20:
        return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")
    return _TEENS[number - 10] if number >= 10 else _ONES[number]


@given(st.integers(1, 999_999))
def test_what_is_spelt_is_read_as_it_was(number: int) -> None:
    words = spell(number).split()
    assert read_number_words([*words, "euros"], SECTION) == (len(words), number)


@pytest.mark.parametrize(
    ("text", "words", "number"),
    [
        ("two three", 1, 2),
        ("five, six", 1, 5),
        ("ten five", 1, 10),
        ("twenty twelve", 1, 20),
        ("hundred hundred", 1, 100),
        ("thousand thousand", 1, 1000),
        ("zero five", 1, 0),
        ("drei Nächte", 1, 3),
        ("cien euros", 1, 100),
        ("once more", 0, 0),
        ("euros", 0, 0),
        ("well-known", 0, 0),
        ("", 0, 0),
    ],
)
def test_a_number_ends_where_its_words_add_up_no_more(text: str, words: int, number: int) -> None:
    assert read_number_words(text.split(), SECTION) == (words, number)
