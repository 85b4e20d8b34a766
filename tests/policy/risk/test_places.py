"""Numbers in words stand beside those in figures, and a date with its time counts as a whole and in its parts."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.moments import read_moments
from foregate.policy.risk.said import Mention, read_said
from foregate.policy.risk.sorts import are_alike, is_same_kind
from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Said
from foregate.schemas.value import Value


def find(number: int, text: str) -> Mention | None:
    return read_said((Said(1, text, "user"),), default_policy()).find(Value("number", str(number)), str(number))


def find_moment(normal: str, text: str) -> Mention | None:
    """Return how a message holds a date, a time or both."""
    return read_said((Said(1, text, "user"),), default_policy()).find(Value("moment", normal), normal)


JOINED = [
    "2026-03-01 at 10:00",
    "2026-03-01, at 10:00",
    "10:00 on 2026-03-01",
    "01.03.2026 um 10:00",
    "10:00 am 01.03.2026",
    "2026-03-01 à 10:00",
    "10:00 le 2026-03-01",
    "2026-03-01 a las 10:00",
    "10:00 el 2026-03-01",
    "2026-03-01 AT 10:00 am",
    "March 1, 2026 at 10:00",
]


@pytest.mark.parametrize("text", JOINED)
def test_a_date_joined_with_a_time_is_both_in_one(text: str) -> None:
    values = read_moments(text, default_policy().mandate)
    assert values is not None
    assert Value("moment", "2026-03-01 10:00:00") in values


@pytest.mark.parametrize("text", JOINED)
def test_a_date_joined_with_a_time_is_said_as_a_whole_and_in_its_parts(text: str) -> None:
    for normal in ("2026-03-01 10:00:00", "2026-03-01", "10:00:00"):
        mention = find_moment(normal, f"Book it {text}.")
        assert mention is not None
        assert mention.alone
    assert find_moment("2026-03-02 10:00:00", f"Book it {text}.") is None
    assert find_moment("2026-03-01 11:00:00", f"Book it {text}.") is None


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01 or 10:00",
        "2026-03-01 at noon",
        "2026-03-01 at 25:00",
        "10:00 on Monday",
        "on 2026-03-01 at",
        "at 10:00",
        "2026-13-01 at 10:00",
    ],
)
def test_what_is_joined_otherwise_or_is_no_date_or_time_is_not_both(text: str) -> None:
    values = read_moments(text, default_policy().mandate) or ()
    assert not [value for value in values if "-" in value.normal and ":" in value.normal]


def test_a_start_and_an_end_each_with_date_and_time_are_each_other_rivals() -> None:
    text = "Book it from 2026-03-01 at 10:00 to 2026-03-02 at 11:00."
    for normal in ("2026-03-01 10:00:00", "2026-03-02 11:00:00"):
        mention = find_moment(normal, text)
        assert mention is not None
        assert not mention.alone


MOMENTS = [Value("moment", one) for one in ("2026-03-01", "--03-01", "10:00:00", "2026-03-01 10:00:00")]


def test_a_date_a_time_and_both_are_three_kinds_and_a_date_without_its_year_is_a_date() -> None:
    date, short, time, both = MOMENTS
    assert is_same_kind(date, short)
    for one, other in ((date, time), (date, both), (time, both), (short, both)):
        assert not is_same_kind(one, other)
        assert not are_alike(one, other)
    assert is_same_kind(both, Value("moment", "2027-01-01 23:00:00"))


@given(st.sampled_from(MOMENTS), st.sampled_from(MOMENTS))
def test_to_be_of_one_kind_goes_both_ways(one: Value, other: Value) -> None:
    assert is_same_kind(one, other) == is_same_kind(other, one)


@given(st.datetimes(), st.sampled_from(["{date} at {time}", "{time} on {date}", "{date} {time}", "{date}T{time}"]))
def test_a_moment_is_read_as_it_was_written(moment: datetime, form: str) -> None:
    moment = moment.replace(microsecond=0)
    text = form.format(date=moment.date(), time=moment.time())
    values = read_moments(text, default_policy().mandate)
    assert values == (Value("moment", f"{moment.date()} {moment.time()}"),)


def test_a_number_in_figures_has_no_other_in_words_and_one_in_words_has() -> None:
    for value, alone in ((3, True), (2, False)):
        mention = find(value, "Two of us need a room for 3 nights.")
        assert mention is not None
        assert mention.alone is alone
    one = find(2, "One of us needs two nights.")
    assert one is not None
    assert one.alone
