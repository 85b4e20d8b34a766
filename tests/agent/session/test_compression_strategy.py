"""Choosing what stays: what must stay does, the newest before the oldest."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.session.compression import keep_ends, to_ranges

WEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=40)


@given(WEIGHTS, st.integers(0, 500), st.sets(st.integers(0, 39)), st.integers(0, 5), st.integers(0, 5))
def test_what_must_stay_stays_and_the_rest_is_within_the_limit(
    weights: list[int], limit: int, must: set[int], first: int, last: int
) -> None:
    must = {place for place in must if place < len(weights)}
    kept = keep_ends(weights, limit, must, first, last)
    assert must <= set(kept)
    assert kept == sorted(set(kept))
    if set(kept) > must:
        assert sum(weights[place] for place in kept) <= limit


def test_the_ends_stay_and_the_middle_goes() -> None:
    assert keep_ends([10] * 10, 50, {0}, 2, 2) == [0, 1, 8, 9]


def test_more_of_the_end_stays_up_to_half_of_the_limit() -> None:
    assert keep_ends([10] * 10, 80, {0}, 1, 1) == [0, 7, 8, 9]


@given(st.sets(st.integers(0, 60)))
def test_ranges_name_exactly_the_places(places: set[int]) -> None:
    found = to_ranges(sorted(places))
    assert [place for start, end in found for place in range(start, end)] == sorted(places)
    assert all(left[1] < right[0] for left, right in pairwise(found))
