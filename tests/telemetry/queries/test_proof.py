"""What labels show against what was asked for, and whether the promises hold when they are tried many times."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.telemetry.queries.samples import Proof, count_allowed, prove, split_in_halves

PROMISES: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "promises.py"))


def test_the_numbers_of_the_guide_come_out_as_it_says() -> None:
    proof = prove(312, [True] * 20, count_allowed(312, 20), 900)
    assert proof == Proof(312, 20, 0, 32, 6, 900, False, 67)
    assert prove(312, [True] * 87, 6, 900) == Proof(312, 87, 0, 6, 6, 900, True, 0)


def test_one_wrong_label_costs_more_labels_and_too_many_end_it() -> None:
    early = prove(312, [False, *[True] * 86], 6, 900)
    assert (early.shown, early.more) == (False, 220 - 87)
    assert early.bound > 6
    assert prove(312, [False, *[True] * 219], 6, 900)[3:] == (6, 6, 900, True, 0)
    assert prove(312, [False] * 7, 6, 900).more is None


def test_what_was_shown_at_a_milestone_stays_shown() -> None:
    assert prove(312, [True] * 87 + [False], 6, 900).shown
    assert not prove(312, [False] + [True] * 87, 6, 900).shown


def test_nothing_let_go_needs_no_label() -> None:
    assert prove(0, [], 0, 900) == Proof(0, 0, 0, 0, 0, 900, True, 0)


@settings(max_examples=60)
@given(st.integers(1, 120), st.data())
def test_labels_never_show_less_than_one_may_be_wrong_than_were(population: int, data: st.DataObject) -> None:
    outcomes = data.draw(st.lists(st.booleans(), max_size=population))
    allowed = data.draw(st.integers(0, population))
    proof = prove(population, outcomes, allowed, 900)
    assert proof.bound >= proof.wrong
    assert proof.bound <= population
    if proof.shown and allowed < population and outcomes.count(False) == 0:
        assert proof.bound <= allowed
    if not proof.shown:
        assert proof.bound > allowed


def test_halves_hold_every_session_once_and_hang_on_the_seed_alone() -> None:
    names = [f"s{number}" for number in range(41)]
    one, other = split_in_halves(names, 7)
    assert sorted([*one, *other]) == sorted(names)
    assert min(len(one), len(other)) > 8
    fewer = split_in_halves(names[:20], 7)
    assert [set(half) <= set(whole) for half, whole in zip(fewer, (one, other), strict=True)] == [True, True]
    assert split_in_halves(names, 8) != (one, other)


@pytest.mark.parametrize("is_broken", PROMISES["PROMISES"], ids=lambda promise: promise.__name__)
def test_a_promise_is_broken_no_more_often_than_it_says_in_two_thousand_trials(
    is_broken: Callable[[random.Random], bool],
) -> None:
    assert (PROMISES["TRIALS"], PROMISES["BOUND"]) == (2000, 240), "one in ten, and two points for chance"
    assert 0 < PROMISES["count_broken"](is_broken, random.Random(11)) <= 240
