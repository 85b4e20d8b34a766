"""A swept number narrows its range to exactly the values for which every comparison comes out alike."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.gates.replay.swept_number import Range, SweptNumber

COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
NUMBERS = st.integers(-60, 60)


@given(NUMBERS, NUMBERS, NUMBERS, st.integers(1, 9), NUMBERS, st.sampled_from(COMPARISONS))
def test_the_range_is_all_values_next_to_it_that_compare_alike(
    at: int, rise: int, offset: int, divisor: int, other: int, compare: Any
) -> None:
    def calculate(value: int) -> int:
        return 7 - (value * rise + offset) // divisor

    within = Range(at, -60, 60)
    found = compare(calculate(SweptNumber(within)), other)
    assert found == compare(calculate(at), other)
    assert all(compare(calculate(value), other) == found for value in range(within.low, within.high + 1))
    for edge in (within.low - 1, within.high + 1):
        assert not -60 <= edge <= 60 or compare(calculate(edge), other) != found


@pytest.mark.parametrize("calculate", [lambda one: one * one, lambda one: one % 7, int, lambda one: 90 // one])
def test_what_cannot_be_followed_holds_for_the_value_alone(calculate: Any) -> None:
    within = Range(9, 0, 60)
    assert calculate(SweptNumber(within)) == calculate(9)
    assert (within.low, within.high) == (9, 9)
