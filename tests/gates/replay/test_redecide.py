"""Recorded turns under their own policy and under another."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.replay.redecide import PolicyComparison, Redecision
from foregate.policy.source.load import build_from_data
from foregate.schemas.tool_spec import build_catalogue
from tests.agent.corpus import (
    STORIES,
    Story,
    events_of,
    evidence,
    narration,
    plan_accepted,
    rules_ask,
    uncertainty,
    unverified,
    verification,
)
from tests.policies import policy_with


async def again(story: Story, changes: dict[str, Any] | None = None) -> list[Redecision]:
    """Return a story's turns judged again, under its own policy with changes."""
    results = []
    for turn in read_judged_turns(await events_of(story)):
        own = build_from_data(turn.in_force.policy)
        comparison = PolicyComparison(own, policy_with(changes, own), build_catalogue(turn.in_force.catalogue or ()))
        results.append(comparison.redecide(turn.turn, turn.judgement))
    return results


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_under_its_own_policy_no_recorded_turn_comes_out_differently(story: Story) -> None:
    results = await again(story)
    assert all(result.is_unchanged and not result.spared for result in results)
    assert all(result.calls for result in results)


async def test_a_gate_switched_off_lets_go_what_it_alone_held() -> None:
    first, *_ = await again(evidence, {"evidence.mode": "off"})
    assert [call.change for call in first.calls] == ["newly_let_go"]


async def test_a_hold_that_falls_away_may_leave_a_question_nobody_answered() -> None:
    first, *_ = await again(narration, {"narration.mode": "off"})
    assert [(call.change, call.needs, call.after) for call in first.calls] == [("not_decidable", "planner", None)]


async def test_recorded_answers_are_used_whatever_policy_they_were_given_under() -> None:
    assert all(result.is_unchanged for result in await again(plan_accepted, {"approval.expires": 60}))


async def test_a_question_that_falls_away_is_spared() -> None:
    first, *_ = await again(plan_accepted, {"plan.mode": "off"})
    assert [call.change for call in first.calls] == ["unchanged"]
    assert set(first.spared) == {"planner", "critic"}


async def test_a_stricter_rule_holds_what_ran() -> None:
    deny = {"id": "no-edits", "then": "deny", "tool": "edit_file"}
    results = await again(rules_ask, {"rules.list": [deny]})
    assert "other_reason" in {call.change for result in results for call in result.calls}
    held, *_ = await again(plan_accepted, {"rules.list": [deny | {"tool": "send"}]})
    assert [call.change for call in held.calls] == ["newly_held"]


async def test_beside_a_call_nobody_can_decide_no_call_of_a_response_held_as_a_whole_is_decided() -> None:
    (only,) = await again(uncertainty, {"holds": "whole_response", "uncertainty.mode": "off"})
    assert [call.needs for call in only.calls] == ["planner", "the calls beside it"]


async def test_an_answer_in_words_is_judged_again_too() -> None:
    *_, last = await again(verification, {"limits.verification_rounds": 1})
    assert [(call.tool, call.change, call.before.code) for call in last.calls] == [
        ("", "unchanged", "verification_passed")
    ]
    *_, last = await again(unverified, {"limits.verification_rounds": 3})
    assert [(call.change, call.before.code, call.after.code) for call in last.calls] == [
        ("newly_held", "unverified", "verification_pending")
    ]
