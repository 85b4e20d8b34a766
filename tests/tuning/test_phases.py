"""Answers that are assumed: what is exact, what rests on them and what is an estimate is never mixed."""

from __future__ import annotations

from typing import Any

from foregate.gates.replay.assumption import Assumption
from foregate.policy.source.layers import Layer
from foregate.tuning.phases import CallOutcome, Phases, TurnOutcome
from foregate.tuning.reach_index import ReachIndex
from foregate.tuning.what_if import WhatIf
from tests.varied import varied_log

ALL = Assumption("accept", "accept", "yes")


def outcome(seq: int, change: Any = "unchanged", digest: str = "d", **more: Any) -> TurnOutcome:
    """Return a turn of one call in which a person was asked, and would be."""
    call = CallOutcome(digest, change, change == "newly_let_go")
    return TurnOutcome(seq, 1, (call,), ("person",), ("person",), **more)


def test_what_was_sent_again_only_because_it_was_held_is_left_out_of_the_estimate() -> None:
    phases = Phases()
    phases.begin_session()
    phases.add([outcome(3), outcome(5, "newly_let_go"), outcome(7), outcome(9, digest="other")])
    assert (phases.before.turns, phases.at.turns, phases.after.turns) == (1, 1, 2)
    assert (phases.after.repeats, phases.after.was["person"], phases.after.asked["person"]) == (1, 2, 1)


def test_an_assumed_answer_is_where_a_session_diverges() -> None:
    phases = Phases()
    phases.begin_session()
    phases.add([outcome(3, assumed=("planner",)), outcome(5)])
    assert phases.at.assumed["planner"] == 1
    assert phases.before.turns == 0


def test_with_all_answers_assumed_nothing_stays_open_and_without_divergence_all_is_as_recorded() -> None:
    log, names = varied_log()
    judged = WhatIf(log, Layer("x", "x", {"narration": {"mode": "off"}}, {}), 1, assume=ALL)
    rows = list(judged.find_changes(names))
    assert not [row for row in rows if row.call.change == "newly_asked" or row.call.needs in ("planner", "critic")]
    assert judged.phases.at.assumed
    assert judged.phases.before.asked == judged.phases.before.was


def test_the_parts_are_the_same_by_difference() -> None:
    log, names = varied_log()
    index = ReachIndex(log, None)
    index.catch_up(names, 1)
    changed = Layer("x", "x", {"uncertainty": {"threshold": 300}}, {})
    plain, by_index = WhatIf(log, changed, 1, assume=ALL), WhatIf(log, changed, 1, index, ALL)
    assert list(plain.find_changes(names)) == list(by_index.find_changes(names))
    for name in ("before", "at", "after"):
        assert getattr(plain.phases, name) == getattr(by_index.phases, name)
