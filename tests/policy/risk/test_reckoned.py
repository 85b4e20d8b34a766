"""What follows from the person's words by arithmetic is reckoned, and nothing else."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.reckoned import add_minutes, find_reckoning, list_durations, list_own_tokens
from foregate.policy.risk.said import read_said
from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, read_value
from tests.policy.risk.test_number_words import spell

POLICY = default_policy()
SECTION = POLICY.mandate
# A Wednesday.
TODAY = "2026-05-13"
UNITS = {name: minutes for name, minutes in SECTION.durations.items() if name.isascii() and len(name) > 1}


def read(text: str) -> Value:
    """Return a text as one value."""
    value = read_value(text)
    assert value is not None
    return value


def reckon(value: str, said: str, *bases: str, today: str = TODAY) -> str:
    """Return how a value follows from a message and other values of its call."""
    return find_reckoning(
        read(value), list(map(read, bases)), read_said((Said(1, said, "user"),), POLICY), today, SECTION
    )


def list_minutes(said: str) -> list[int]:
    """Return the durations that a message says."""
    (message,) = read_said((Said(1, said, "user"),), POLICY).messages
    return [minutes for minutes, _ in list_durations(list_own_tokens(message), SECTION)]


@pytest.mark.parametrize(
    ("end", "said", "start"),
    [
        ("2026-05-16 11:00", "Book a 1-hour meeting on May 16.", "2026-05-16 10:00"),
        ("2026-05-16 11:00", "Book an hour with Ann.", "2026-05-16 10:00"),
        ("2026-05-16 10:30", "Book half an hour with Ann.", "2026-05-16 10:00"),
        ("2026-05-16 10:45", "Book forty-five minutes with Ann.", "2026-05-16 10:00"),
        ("2026-05-16 12:30", "Book 2.5 hours with Ann.", "2026-05-16 10:00"),
        ("2026-05-16 12:30", "Reserve 2,5 Stunden mit Ann.", "2026-05-16 10:00"),
        ("2026-05-16 11:30", "Book 1 hour and 30 minutes with Ann.", "2026-05-16 10:00"),
        ("2026-05-16 11:30", "Book 1 hour 30 minutes with Ann.", "2026-05-16 10:00"),
        ("2026-05-17 00:30", "Book 90 minutes with Ann.", "2026-05-16 23:00"),
        ("2026-05-18", "Book the room for two nights.", "2026-05-16"),
        ("2026-06-01", "Book the room for twenty nights.", "2026-05-12"),
        ("2026-05-30", "Rent it for a fortnight, I mean 2 weeks.", "2026-05-16"),
        ("11:00", "Book an hour with Ann.", "10:00"),
    ],
)
def test_an_end_follows_from_start_and_duration_in_words_and_figures(end: str, said: str, start: str) -> None:
    how = reckon(end, said, start)
    assert how.startswith(f"{read(start).normal} and ")
    assert not reckon(end, said)
    assert not reckon(end, "Book it.", start)


@pytest.mark.parametrize(
    ("value", "said", "base"),
    [
        ("2026-05-16 11:00", "Book 45 minutes.", "2026-05-16 10:00"),
        ("2026-05-16 10:05", "Book forty-five minutes.", "2026-05-16 10:00"),
        ("2026-05-16 10:40", "Book forty-five minutes.", "2026-05-16 10:00"),
        ("2026-05-16 11:00", "Book an hour and a half.", "2026-05-16 10:00"),
        ("2026-05-16 11:00", "Book 1 hour and 30 minutes.", "2026-05-16 10:00"),
        ("2026-05-16 10:30", "Book 1 hour and 30 minutes.", "2026-05-16 10:00"),
        ("2026-05-16 09:00", "Book an hour.", "2026-05-16 10:00"),
        ("2026-05-17 16:00", "Bis 10:30 h.", "2026-05-16 10:00"),
        ("2026-05-17", "Stay for 1,000 days.", "2026-05-16"),
        ("2026-05-17", "It costs 90 per night.", "2026-05-16"),
        ("2026-05-16", "Book 5 minutes.", "2026-05-16 00:00"),
        ("2026-05-16 10:00", "At 10:00, for 30 minutes.", "2026-05-16"),
        ("00:30", "Book an hour.", "23:30"),
        ("2026-05-18", "> Book two nights.", "2026-05-16"),
        ("2026-05-18", "Was it for two nights?", "2026-05-16"),
        ("2026-05-18", "Don't book two nights.", "2026-05-16"),
        ("words", "Book an hour.", "10:00"),
        ("2026-05-18", "Book two nights.", "05"),
    ],
)
def test_nothing_else_follows_from_a_duration(value: str, said: str, base: str) -> None:
    assert reckon(value, said, base) == ""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2026-05-13", "Book a table for today."),
        ("2026-05-14", "Book a table for tomorrow."),
        ("2026-05-14 19:00", "Book a table for tomorrow at 7 pm."),
        ("2026-05-14", "Schick es morgen."),
        ("2026-05-17", "Book a table for sun."),
        ("2026-05-17", "Book a table, Sun 7 pm."),
        ("2026-05-18", "Book a table on Mon."),
        ("2026-05-14", "Reserva una mesa mañana por la mañana."),
        ("2026-05-15", "Book a table for Friday."),
        ("2026-05-20", "Book a table for Wednesday."),
        ("2026-05-18", "Reserviere einen Tisch für Montag."),
    ],
)
def test_a_day_follows_from_the_day_of_the_session(value: str, said: str) -> None:
    assert f", from {TODAY} on" in reckon(value, said)
    assert not reckon(value, said, today="")
    assert not reckon(value, said, today="2026-01-01")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2026-05-15", "Book a table for tomorrow."),
        ("2026-05-17", "The sun is out, book a table."),
        ("2026-05-16", "I sat here for an hour, book a table."),
        ("2026-05-18", "Annule mon billet."),
        ("2026-05-20", "They wed in spring, book a table."),
        ("2026-05-14", "Guten Morgen, buche einen Tisch."),
        ("2026-05-14", "Buche einen Tisch am Montag Morgen."),
        ("2026-05-14", "Reserva una mesa por la mañana."),
        ("2026-05-22", "Book a table for Friday."),
        ("2026-05-14 20:00", "Book a table for tomorrow at 7 pm."),
        ("2026-05-14 20:00", "Book a table for tomorrow, but not at 8 pm."),
        ("2026-05-14 20:00", "Book a table for tomorrow. Bob wrote:\n> at 8 pm"),
        ("2026-05-14", "Is the table for tomorrow?"),
        ("19:00", "Book a table for tomorrow."),
    ],
)
def test_no_other_day_and_no_time_that_the_person_did_not_ask_for_follows(value: str, said: str) -> None:
    assert reckon(value, said) == ""


def test_a_sum_is_that_of_all_numbers_of_one_message() -> None:
    assert reckon("100", "Send 40 for gas and 60 for rent.") == "40 + 60"
    assert reckon("100.5", "Send 40 for gas and $60.50 for rent.") == "40 + 60.5"
    assert reckon("105", "Send forty for gas, 60 for rent and 5 for Ann.") == "40 + 60 + 5"
    for value in ("40", "20", "2400", "65", "45", "101"):
        assert reckon(value, "Send 40 for gas, 60 for rent and 5 for Ann.") == ""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("40", "Send 40 for gas."),
        ("100", "Send 40 for gas.\n> and 60 for rent"),
        ("100", "Send 40 for gas, not 60."),
        ("100", "Send 40 for gas. Were 60 due?"),
        ("301.2", "Send 1.200 and 300."),
        ("9", "Send 1 1 1 1 1 1 1 1 1."),
        (f"{10**29}", f"Send {10**29} and 1."),
    ],
)
def test_what_is_no_sum_of_own_numbers_or_could_be_read_in_two_ways_is_none(value: str, said: str) -> None:
    assert reckon(value, said) == ""


def test_numbers_of_two_messages_are_not_added_up() -> None:
    said = read_said((Said(1, "Send 40 for gas.", "user"), Said(2, "Send 60 for rent.", "user")), POLICY)
    assert find_reckoning(Value("number", "100"), [], said, TODAY, SECTION) == ""


@given(st.integers(1, 999), st.sampled_from(sorted(UNITS)), st.booleans())
def test_a_number_of_a_unit_is_one_duration_in_figures_and_in_words(count: int, unit: str, worded: bool) -> None:
    assert list_minutes(f"Book {spell(count) if worded else count} {unit} of it.") == [count * UNITS[unit]]


MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda one: one.replace(microsecond=0))


@given(MOMENTS, MOMENTS, st.integers(1, 600), st.sampled_from(["minutes", "hours", "days", "weeks"]))
def test_no_moment_is_reckoned_that_is_not_the_start_and_the_duration(
    start: datetime, end: datetime, count: int, unit: str
) -> None:
    exact = start + timedelta(minutes=count * UNITS[unit])
    said = f"Book {count} {unit} with Ann."
    assert reckon(f"{exact}", said, f"{start}")
    assert bool(reckon(f"{end}", said, f"{start}")) == (end == exact)


@given(st.dates(date(2020, 1, 1), date(2030, 1, 1)), st.integers(-40, 40), st.integers(1, 30))
def test_no_day_is_reckoned_that_is_not_the_first_and_the_nights(first: date, off: int, nights: int) -> None:
    last = first + timedelta(days=off)
    assert bool(reckon(f"{last}", f"Book {nights} nights.", f"{first}")) == (off == nights)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6), st.integers(1, 10**7))
def test_no_number_is_reckoned_that_is_not_the_sum(numbers: list[int], value: int) -> None:
    said = "Send " + " and ".join(f"{number} to A{at}" for at, number in enumerate(numbers)) + "."
    listed = " + ".join(map(str, numbers)) if len(numbers) > 1 else ""
    assert reckon(str(sum(numbers)), said) == listed
    assert bool(reckon(str(value), said)) == (bool(listed) and value == sum(numbers))


@given(st.text(max_size=200), st.sampled_from(["2026-05-16 10:00", "12", "2026-05-17", "9:00"]), st.text(max_size=12))
def test_whatever_is_said_can_be_reckoned_with(said: str, value: str, today: str) -> None:
    assert isinstance(reckon(value, said, "2026-05-16", "2026-05-16 09:00", today=today), str)


@pytest.mark.parametrize(
    "said",
    [
        "9" * 1_000_000 + " days",
        "9" * 15_000 + " days",
        "1 day 2 days " * 80_000,
        "tomorrow " * 1_700,
        "nine hundred " * 1_200 + "days",
        "hundred " * 1_900 + "days",
        "Book " + " and ".join(f"{at} days" for at in range(1_000)) + ".",
        "1" + ",000" * 3_000 + " days",
        "Send " + "9" * 10_000 + " and 1.",
        "½ hours, ² hours, ٣ hours, 1e9 hours",
        "",
    ],
)
def test_what_is_huge_or_strange_gives_nothing(said: str) -> None:
    bases = [f"2026-05-16 {hour:02}:{minute:02}" for hour in range(10, 12) for minute in range(32)]
    assert reckon("2027-01-01 00:00", said, *bases) == ""
    assert reckon("7" * 5_000, said) == ""


def test_behind_the_last_year_there_is_no_moment() -> None:
    assert add_minutes(Value("moment", "9999-12-31"), 1440) is None
    assert add_minutes(Value("moment", "9999-12-31 23:30:00"), 60) is None
    assert add_minutes(Value("moment", "--05-20"), 1440) is None
    assert add_minutes(Value("moment", "2026-02-30"), 1440) is None
    assert add_minutes(Value("moment", "2026-02-28"), 10**18) is None
    assert reckon("9999-12-31", "Book it for tomorrow.", today="9999-12-31") == ""
    assert reckon("9999-12-31", "Book it for today or tomorrow.", today="9999-12-31")


@given(st.integers(1, 10**6))
def test_a_fraction_of_a_unit_is_a_duration_only_where_it_is_whole_minutes(hundredths: int) -> None:
    minutes = Decimal(hundredths) / 100 * 60
    found = list_minutes(f"Book {Decimal(hundredths) / 100} hours.")
    assert found == ([int(minutes)] if minutes == int(minutes) else [])
