"""Asking planner and critic: whatever comes back is an answer or the reason there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.models.scripted import ScriptedModel, answers
from foregate.agent.session.advice import ask_advisor
from foregate.gates.support.blind_planner import KEY
from foregate.schemas.errors import ModelError
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.plan import Plan
from foregate.schemas.strict_schema import Critique, strict_schema
from tests.agent.world import ACCEPT, plan_json
from tests.policies import policy_with

PLANNER = Need("plan", "planner", "plan:1", ("c",), ("d",), {"user_words": "é\u202e"})
CRITIC = Need("critique", "critic", "critique:1", ("c",), ("d",), {})
GOOD = plan_json("send", "bob")


async def asked(step: Any, need: Need = PLANNER, **keys: Any) -> Any:
    """Return the advice a model's step leads to."""
    model = ScriptedModel([step, step])
    advice = await ask_advisor(model, need, policy_with(keys))
    request = model.requests[0]
    assert (request.words_only, tuple(request.tools)) == (True, ())
    return advice


async def test_a_plan_and_a_critique_that_fit_are_answers() -> None:
    assert (await asked(answers(GOOD))).value["goal"] == GOOD["goal"]
    assert (await asked(answers(ACCEPT), CRITIC)).value == ACCEPT
    assert (await asked(ModelResponse(f"```json\n{json.dumps(ACCEPT)}\n```"), CRITIC)).value == ACCEPT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would rather not",
        "[]",
        "{}",
        json.dumps(GOOD | {"goal": ["send"], "extra": 1}),
        json.dumps(GOOD | {"version": 1.5}),
        json.dumps(GOOD | {"goal": None}),
        json.dumps(GOOD)[:-1] + ',"goal":"again"}',
        '{"goal": NaN}',
    ],
)
async def test_what_breaks_the_schema_is_no_plan_and_the_reason_is_kept(text: str) -> None:
    advice = await asked(ModelResponse(text))
    assert advice.value is None
    assert advice.error.startswith("plan_generation_failed")


async def test_a_plan_without_a_version_is_read_so_that_the_check_can_name_it() -> None:
    advice = await asked(answers({key: value for key, value in GOOD.items() if key != "version"}))
    assert advice.value["version"] == 0


async def test_an_endpoint_that_fails_is_an_answer_too() -> None:
    advice = await asked(ModelError("the endpoint is gone"), CRITIC)
    assert (advice.value, "the endpoint is gone" in advice.error) == (None, True)


async def test_a_plan_larger_than_the_policy_allows_is_none() -> None:
    advice = await asked(answers(GOOD | {"goal": "x" * 300}), **{"plan.max_bytes": 400})
    assert (advice.value, "400 bytes" in advice.error) == (None, True)


@pytest.mark.parametrize("noun", [Plan, Critique])
def test_the_schemas_sent_require_every_key_and_allow_no_other(noun: Any) -> None:
    def objects(schema: Any) -> Any:
        if isinstance(schema, dict):
            if "properties" in schema:
                yield schema
            for value in schema.values():
                yield from objects(value)
        elif isinstance(schema, list):
            for value in schema:
                yield from objects(value)

    found = list(objects(strict_schema(noun)))
    assert found
    for schema in found:
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False


THOUGHT = '<think>Perhaps {"verdict": "accept", "issues": [], "summary": "a draft"}?</think>'
REPLAN = {"verdict": "replan", "issues": ["the wrong Bob"], "summary": "no"}


@pytest.mark.parametrize(
    "text",
    [
        f"{THOUGHT}{json.dumps(REPLAN)}",
        f"{THOUGHT}\nI have looked at {{it}}. My verdict:\n\n```json\n{json.dumps(REPLAN)}\n```\nThat is all.",
        f"{json.dumps(REPLAN)}\n\nAs I said: {json.dumps(REPLAN)}",
    ],
    ids=["a thought", "a thought, words and a fence", "said twice"],
)
async def test_thoughts_words_and_fences_around_an_answer_are_no_part_of_it(text: str) -> None:
    assert (await asked(ModelResponse(text), CRITIC)).value == REPLAN


@pytest.mark.parametrize(
    "text",
    [
        f"{json.dumps(ACCEPT)} or rather {json.dumps(REPLAN)}",
        f"<think>{json.dumps(ACCEPT)}",
        f"The call says {json.dumps(ACCEPT)}. I say {json.dumps(REPLAN | {'verdict': 'no'})}",
        '{"verdict": "accept", "issues": [], "summary": "x"',
        "{" * 5000,
    ],
    ids=["two answers", "a thought without an end", "a quotation before its own", "cut off", "braces"],
)
async def test_what_is_no_one_answer_is_none(text: str) -> None:
    advice = await asked(ModelResponse(text), CRITIC)
    assert advice.value is None
    assert advice.error.startswith("critique_generation_failed")


async def test_an_answer_that_cannot_be_used_is_asked_for_once_more_with_its_defect() -> None:
    model = ScriptedModel([ModelResponse("I would rather not"), answers(ACCEPT)])
    advice = await ask_advisor(model, CRITIC, policy_with({}))
    assert (advice.value, advice.requests) == (ACCEPT, 2)
    assert "there is no JSON object in it" in model.requests[1].messages[-1].text


async def test_a_plan_is_read_without_what_nobody_asked_for_and_without_steps_of_no_tool() -> None:
    step = {"tool": "send", "target": "BOB", "description": "greet him", "effect": None, "uses": None}
    blank, odd = step | {"tool": " "}, step | {"tool": "note", "mood": "fine"}
    advice = await asked(answers(GOOD | {"extra": 1, "planned_steps": [blank, step, odd]}))
    assert advice.value is not None
    assert "extra" not in advice.value
    assert advice.value["planned_steps"] == [step | {"target": "bob"}, step | {"tool": "note"}]
    only = await asked(answers(GOOD | {"planned_steps": [blank]}))
    assert only.value is not None
    assert only.value["planned_steps"] is None


STEP = {"tool": "send", "target": "bob", "description": "greet him"}
PLAIN = {
    "goal": "greet Bob",
    "success_criteria": ["Bob was greeted"],
    "first_action": STEP,
    "requires_verification": True,
    "risky_actions": ["it cannot be unsent"],
    "version": 1,
}


async def test_a_plan_in_the_plain_shape_is_read_as_one_in_the_full() -> None:
    read = (await asked(answers(PLAIN))).value
    assert read["planned_steps"] is None
    assert read["success_criteria"] == [{"text": "Bob was greeted", "check": None, "target": None, "expected": None}]
    read = (await asked(answers({**PLAIN, "planned_steps": [STEP]}))).value
    assert read["planned_steps"] == [{**STEP, "effect": None, "uses": None}]


async def test_a_plan_in_the_plain_shape_is_read_as_a_blind_one_of_what_the_person_said() -> None:
    blind = replace(PLANNER, key=f"{KEY}1")
    for given in (PLAIN, {**PLAIN, "planned_steps": None}, {**PLAIN, "planned_steps": [STEP]}):
        (read,) = (await asked(answers(given), blind)).value["planned_steps"]
        assert (read["tool"], [target["said"] for target in read["targets"]]) == ("send", ["bob"])
    assert (await asked(answers({**PLAIN, "planned_steps": []}), blind)).value["planned_steps"] == []


@pytest.mark.parametrize("blind", [True, False])
async def test_a_plan_with_a_defect_is_an_answer_that_the_gate_rejects_by_its_name(blind: bool) -> None:
    need = replace(PLANNER, key=f"{KEY}1") if blind else PLANNER
    advice = await asked(answers({**PLAIN, "goal": " ", "success_criteria": []}), need)
    assert (advice.value["goal"], advice.value["success_criteria"], advice.error) == (" ", [], "")
