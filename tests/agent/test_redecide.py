"""Recorded turns under their own policy and under another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from foregate.gates.prelude import prelude
from foregate.gates.redecide import Redecision, redecide
from foregate.policy.policy import Policy
from foregate.schemas import codec
from foregate.schemas.judgement import Judgement
from foregate.schemas.tool_spec import ToolSpec, catalogue_of
from foregate.telemetry.turns import recorded
from tests.agent.corpus import STORIES, Story, events_of, evidence, narration, plan_accepted, rules_ask
from tests.policies import policy_with


async def again(story: Story, changes: dict[str, Any] | None = None) -> list[Redecision]:
    """Return a story's turns judged again, under its own policy with changes."""

    def each() -> Iterator[Redecision]:
        for turn in recorded(events):
            own = Policy.model_validate_json(json.dumps(turn.policy))
            policy = policy_with(changes, own)
            bench = prelude(policy, catalogue_of([codec.load(ToolSpec, spec) for spec in turn.catalogue]))
            yield redecide(turn.turn, Judgement.from_json(turn.judgement), policy, bench)

    events = await events_of(story)
    return list(each())


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_under_its_own_policy_no_recorded_turn_comes_out_differently(story: Story) -> None:
    assert {result.change for result in await again(story)} == {"unchanged"}


async def test_a_gate_switched_off_lets_go_what_it_alone_held() -> None:
    first, *_ = await again(evidence, {"evidence.mode": "off"})
    assert first.change == "let_go"


async def test_a_hold_that_falls_away_may_leave_a_question_nobody_answered() -> None:
    first, *_ = await again(narration, {"narration.mode": "off"})
    assert (first.change, first.need and first.need.who) == ("would_ask", "planner")


async def test_recorded_answers_are_used_whatever_policy_they_were_given_under() -> None:
    (only,) = await again(plan_accepted, {"approval.expires": 60})
    assert only.change == "unchanged"


async def test_a_stricter_rule_holds_what_ran() -> None:
    deny = {"id": "no-edits", "then": "deny", "tool": "edit_file"}
    results = await again(rules_ask, {"rules.list": [deny]})
    assert "other_reason" in {result.change for result in results}
    held = await again(plan_accepted, {"rules.list": [deny | {"tool": "send"}]})
    assert [result.change for result in held] == ["newly_held"]
