"""A dial is laid out as what it stands for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.console.tune_pages import HEIGHT, WIDTH, build_bars, find_end, find_point, flatten_point
from foregate.tuning.sweep import GateCounts, SweepPoint

TURNING = st.dictionaries(st.integers(1, 1000), st.integers(1, 10**6), max_size=200)


@settings(max_examples=30)
@given(TURNING)
def test_bars_lie_within_the_scale_and_one_beside_the_other(turning: dict[int, int]) -> None:
    bars = list(build_bars(turning, 0, 1000))
    assert bool(bars) == bool(turning)
    for bar in bars:
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH
        assert 0 <= bar.y < bar.y + bar.height == HEIGHT
    assert sum(int(bar.says.split()[0]) for bar in bars) == sum(turning.values())


def test_a_scale_ends_where_nothing_turns_any_more() -> None:
    assert find_end(0, 1000, [550]) == 1000
    assert find_end(0, 10**9, [20, 186]) == 186 + 186 // 4 + 1
    assert find_end(0, 10**9, [10**9]) == 10**9


def test_a_value_belongs_to_the_point_it_lies_in() -> None:
    points = [SweepPoint((low,), (high,), low, 0, 0, 0) for low, high in ((0, 4), (5, 8), (9, 1000))]
    assert [find_point(points, value).held for value in (0, 4, 5, 8, 9, 1000)] == [0, 0, 5, 5, 9, 9]


def test_the_figures_of_a_point_are_those_of_all_gates_and_of_each() -> None:
    point = SweepPoint((0,), (9,), 3, 2, 1, 5, gates=(GateCounts("plan", 3, 0, 0, 1), GateCounts("rules", 0, 2, 2, 0)))
    assert flatten_point(point, ["drift", "plan", "rules"]) == [3, 2, 1, 5, 0, 0, 0, 3, 0, 1, 0, 2, 0]
