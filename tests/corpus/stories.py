"""Sessions that no other test makes, for the recorder: every defect a plan or a critique can have, in a real log."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.agent.models.scripted import answers, calls, says
from tests.agent.corpus import BOB, PLAN, SEND, TALK, told
from tests.agent.world import World, plan_json
from tests.corpus.readings import public_names

FIRST: dict[str, Any] = {"tool": "send", "target": BOB, "description": "do it"}
STEP: dict[str, Any] = {**FIRST, "effect": None, "uses": None}
DEFECTS: dict[str, dict[str, Any]] = {
    "missing_goal": {"goal": "  "},
    "missing_success_criteria": {"success_criteria": []},
    "missing_first_action_tool": {"first_action": {**FIRST, "tool": ""}},
    "first_action_tool_mismatch": {"first_action": {**FIRST, "tool": "note"}},
    "missing_first_action_description": {"first_action": {**FIRST, "description": " "}},
    "missing_first_action_target": {"first_action": {**FIRST, "target": ""}},
    "first_action_target_mismatch": {"first_action": {**FIRST, "target": "carol@example.org"}},
    "missing_verification_requirement": {"requires_verification": False},
    "missing_risk_acknowledgment": {"risky_actions": [" "]},
    "missing_plan_version": {"version": 0},
    "planned_steps_first_action_mismatch": {"planned_steps": [{**STEP, "tool": "note"}]},
    "planned_steps_first_action_target_mismatch": {"planned_steps": [{**STEP, "target": "bob"}]},
    "planned_steps_incomplete_entry": {"planned_steps": [STEP, {**STEP, "tool": "note", "description": ""}]},
}


@pytest.mark.parametrize("reason", public_names()["plan reasons"])
async def test_a_plan_with_a_defect_is_rejected_for_it(reason: str) -> None:
    bad, world = answers({**plan_json("send", BOB), **DEFECTS[reason]}), World()
    await told(world, [calls(SEND, text=TALK), bad, bad, says("ok")], [])
    judged = [event for event in await world.log.read("s") if event.kind == "turn_judged"]
    assert [verdict["ruling"]["reason"] for verdict in judged[0].body["judgement"]["verdicts"]] == [reason]


@pytest.mark.parametrize(
    ("reason", "critique"),
    [
        ("missing_summary", {"verdict": "accept", "issues": [], "summary": " "}),
        ("missing_issues_for_replan", {"verdict": "replan", "issues": [" "], "summary": "no"}),
    ],
)
async def test_a_critique_with_a_defect_cannot_be_used(reason: str, critique: dict[str, Any]) -> None:
    world = World()
    await told(world, [calls(SEND, text=TALK), PLAN, answers(critique), says("ok")], ["no"])
    answered = [event for event in await world.log.read("s") if event.kind == "turn_judged"]
    assert reason in str(answered[0].body["judgement"])
