"""Bounds on a population from a sample, held against an outside library and against trying everything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from foregate.telemetry.queries.samples import find_first, find_upper_bound


@st.composite
def samples(draw: st.DrawFn) -> tuple[int, int, int]:
    """A population, how many were drawn of it, and how many of those were wrong."""
    population = draw(st.integers(1, 400))
    drawn = draw(st.integers(0, population))
    return population, drawn, draw(st.integers(0, min(drawn, 12)))


@settings(max_examples=60)
@given(samples(), st.sampled_from([800, 900, 950, 990]))
def test_the_bound_is_the_largest_count_that_an_outside_library_does_not_rule_out(
    sample: tuple[int, int, int], confidence: int
) -> None:
    population, drawn, wrong = sample
    bound = find_upper_bound(population, drawn, wrong, confidence)
    miss = 1 - confidence / 1000
    assert bound >= wrong
    if bound > wrong:
        assert hypergeom.cdf(wrong, population, bound, drawn) > miss - 1e-9
    if bound < population - drawn + wrong:
        assert hypergeom.cdf(wrong, population, bound + 1, drawn) <= miss + 1e-9


@settings(max_examples=40)
@given(samples())
def test_a_wrong_one_more_never_lowers_the_bound_and_a_right_one_more_never_raises_it(
    sample: tuple[int, int, int],
) -> None:
    population, drawn, wrong = sample
    bound = find_upper_bound(population, drawn, wrong, 900)
    if drawn < population:
        assert find_upper_bound(population, drawn + 1, wrong, 900) <= bound
        assert find_upper_bound(population, drawn + 1, wrong + 1, 900) >= bound
    assert find_upper_bound(population, drawn, wrong, 950) >= bound


def test_who_looked_at_everything_knows_it_exactly() -> None:
    assert [find_upper_bound(40, 40, wrong, 990) for wrong in (0, 3, 40)] == [0, 3, 40]
    assert find_upper_bound(40, 0, 0, 900) == 40
    assert find_upper_bound(0, 0, 0, 900) == 0


@pytest.mark.parametrize("sample", [(10, 11, 0, 900), (10, 5, 6, 900), (10, 5, -1, 900), (10, 5, 0, 1000)])
def test_numbers_that_fit_no_sample_are_refused(sample: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError):
        find_upper_bound(*sample)


def test_the_first_number_that_holds_is_found_and_the_end_where_none_does() -> None:
    assert [find_first(lambda number, at=at: number >= at, 3, 9) for at in (0, 3, 7, 9, 12)] == [3, 3, 7, 9, 9]
