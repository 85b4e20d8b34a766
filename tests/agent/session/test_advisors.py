"""Asking planner and critic: whatever comes back is an answer or the reason there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foregate.agent.session.interaction import ask_advisor
from foregate.agent.testing.model import ScriptedModel, answers
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
    model = ScriptedModel([step])
    advice = await ask_advisor(model, need, policy_with(keys))
    (request,) = model.requests
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
        json.dumps(GOOD | {"extra": 1}),
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
