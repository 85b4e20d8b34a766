"""The rehearsal model as planner and critic."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.schemas import strict_json
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.plan import BlindPlan, Plan
from foregate.schemas.strict_json import Json
from foregate.schemas.strict_schema import Critique


def asked(call: Json, words: str, **more: Json) -> list[Message]:
    """The request to planner or critic about one call."""
    body: dict[str, Json] = {
        "user_words": words,
        "narration": "",
        "calls": [call],
        "amendment": False,
        "plan": None,
        "defect": "",
    }
    return [
        Message("system", "plan"),
        Message("user", strict_json.canonical({**body, "plan": None, "defect": "", **more}).decode()),
    ]


RUN = {
    "call": "c1",
    "tool": "run_command",
    "target": "python3 check.py",
    "arguments": '{"argv": ["python3", "check.py"]}',
    "effect": "execute",
}
LIST = 'delete stale logs in logs; run python3 check.py; commit everything with message "m"'


async def planned(messages: list[Message], *, stumbles: bool = False) -> Plan:
    response = await RehearsalModel(stumbles).respond(ModelRequest(messages, purpose="plan", words_only=True))
    return Plan.model_validate(strict_json.parse(response.text))


async def test_a_plan_names_the_call_first_and_everything_the_person_asked_for() -> None:
    plan = await planned(asked(RUN, LIST))
    assert (plan.first_action.tool, plan.first_action.target) == ("run_command", "python3 check.py")
    steps = [(step.tool, step.target) for step in plan.planned_steps or []]
    assert steps[0] == ("run_command", "python3 check.py")
    assert {("delete_path", "logs/*.log"), ("git_commit", ".")} <= set(steps)
    assert plan.goal
    assert plan.risky_actions
    assert plan.version == 1


async def test_a_plan_that_stumbles_mends_the_defect_it_is_told() -> None:
    assert not (await planned(asked(RUN, LIST), stumbles=True)).risky_actions
    assert (await planned(asked(RUN, LIST, defect="missing_risk_acknowledgment"), stumbles=True)).risky_actions


async def test_a_plan_without_a_look_at_the_call_that_stumbles_mends_the_defect_it_is_told() -> None:
    for defect, mended in (({}, False), ({"defect": "missing_risk_acknowledgment"}, True)):
        told = json.dumps({"user_words": LIST, "narration": "", "tools": [], **defect})
        messages = [Message("system", "plan"), Message("user", told)]
        request = ModelRequest(messages, schema_name="pre_execution_plan_v2", purpose="plan", words_only=True)
        response = await RehearsalModel(stumbles=True).respond(request)
        assert bool(BlindPlan.model_validate(strict_json.parse(response.text)).risky_actions) is mended


async def test_what_nobody_asked_for_gets_no_goal() -> None:
    push = {**RUN, "target": "git push", "arguments": '{"argv": ["git", "push"]}'}
    assert not (await planned(asked(push, LIST, amendment=True, plan={"goal": "x"}))).goal


async def criticised(call: Json, evidence: Sequence[Json] = ()) -> Critique:
    messages = asked(call, LIST, evidence=list(evidence))
    response = await RehearsalModel().respond(ModelRequest(messages, purpose="critique", words_only=True))
    return Critique.model_validate(strict_json.parse(response.text))


@pytest.mark.parametrize("command", ["rm -f logs/*.log", "rm -rf logs", "find . -name '*.log' -delete"])
async def test_a_shell_line_that_deletes_by_pattern_is_to_be_replanned(command: str) -> None:
    shell = {**RUN, "tool": "run_shell", "arguments": json.dumps({"command": command})}
    assert (await criticised(shell)).verdict == "replan"


async def test_a_command_and_a_delete_of_what_was_seen_are_accepted() -> None:
    assert (await criticised(RUN)).verdict == "accept"
    delete = {**RUN, "tool": "delete_path", "effect": "delete", "targets": ["a.log"], "arguments": "{}"}
    assert (await criticised(delete, [{"resource": "a.log", "seen": ["file_read"]}])).verdict == "accept"
    assert (await criticised(delete, [{"resource": "a.log", "seen": []}])).verdict == "replan"
