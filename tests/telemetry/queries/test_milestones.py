"""How many labels it takes: as likely to mislead in all looks together as one look may be."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from foregate.telemetry.queries.samples import list_milestones


def is_misled(wrong_ones: tuple[int, ...], milestones: list[int]) -> bool:
    """Whether an order with wrong ones at these places passes a milestone."""
    return any(sum(place < at for place in wrong_ones) <= most for most, at in enumerate(milestones))


@settings(max_examples=40)
@given(st.integers(2, 13), st.integers(0, 3), st.sampled_from([700, 900, 950]))
def test_of_all_orders_with_one_too_many_no_more_pass_any_milestone_than_may(
    population: int, allowed: int, confidence: int
) -> None:
    allowed = min(allowed, population - 1)
    milestones = list_milestones(population, allowed, allowed, confidence)
    orders = [*combinations(range(population), allowed + 1)]
    misled = sum(is_misled(order, milestones) for order in orders)
    assert misled * 1000 <= len(orders) * (1000 - confidence)
    assert milestones == sorted(milestones)
    assert milestones[-1] <= population


@settings(max_examples=40)
@given(st.integers(10, 800), st.integers(0, 60), st.sampled_from([900, 950]))
def test_labels_that_are_all_right_suffice_from_where_an_outside_library_says(
    population: int, allowed: int, confidence: int
) -> None:
    allowed = min(allowed, population - 1)
    (first,) = list_milestones(population, allowed, 0, confidence)
    miss = 1 - confidence / 1000
    assert hypergeom.pmf(0, population, allowed + 1, first) <= miss + 1e-9
    assert first == 0 or hypergeom.pmf(0, population, allowed + 1, first - 1) > miss - 1e-9


def test_twenty_and_sixty_seven_labels_show_two_percent_of_312_calls() -> None:
    assert list_milestones(312, 312 * 20 // 1000, 0, 900) == [20 + 67]


def test_a_further_wrong_one_puts_the_milestone_off_and_the_earlier_ones_stay() -> None:
    short, long = list_milestones(500, 25, 2, 900), list_milestones(500, 25, 4, 900)
    assert long[:3] == short
    assert long[4] > long[3] > short[2]


def test_nothing_needs_showing_where_all_may_be_wrong() -> None:
    assert list_milestones(5, 5, 2, 900) == [0, 0, 0]
    with pytest.raises(ValueError):
        list_milestones(5, 2, 3, 900)
