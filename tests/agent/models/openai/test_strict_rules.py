"""The scripted server refuses what a strict endpoint refuses, and every schema we send passes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.planning.planner import WirePlan
from foregate.schemas.plan import BlindPlan, Plan
from foregate.schemas.strict_schema import Critique, strict_schema
from tests.agent.models.openai.scripted_server import ScriptedServer, message
from tests.agent.models.openai.strict_rules import strict_refusals
from tests.agent.models.openai.test_model import HELLO, model_at

TEXT = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    """Return a closed object that needs all its properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(depth: int) -> dict[str, Any]:
    schema = of(a=TEXT)
    for _ in range(depth - 1):
        schema = of(a=schema)
    return schema


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"anyOf": [of(a=TEXT)]}, "root"),
        ({"type": "array", "items": TEXT}, "root"),
        ({**of(a=TEXT), "additionalProperties": True}, "additionalProperties"),
        ({**of(a=TEXT), "required": []}, "required"),
        (of(a={"type": "object"}), "additionalProperties"),
        (of(a={}), "type"),
        (of(a={"type": "array"}), "items"),
        (of(a={**TEXT, "minLength": 1}), "minLength"),
        (of(a={**TEXT, "default": ""}), "default"),
        (of(a={"oneOf": [TEXT]}), "oneOf"),
        (of(a={"allOf": [TEXT]}), "allOf"),
        ({**of(a=TEXT), "patternProperties": {}}, "patternProperties"),
        (of(a={"$ref": "#/$defs/b"}), "reference"),
        (of(a={"$ref": "#", "description": "again"}), "beside"),
        ({**of(a={"$ref": "#/$defs/b"}), "$defs": {"b": {"type": "object"}}}, "additionalProperties"),
        (nested(6), "nesting"),
        (of(**{f"p{n}": TEXT for n in range(101)}), "properties"),
        (of(**{f"{n:0200}": TEXT for n in range(99)}), "characters"),
        (of(a={**TEXT, "enum": [str(n) for n in range(501)]}), "enum"),
    ],
)
async def test_a_schema_a_strict_endpoint_refuses_is_refused(schema: dict[str, Any], says: str) -> None:
    assert any(says in why for why in strict_refusals(schema))


@pytest.mark.parametrize("schema", [nested(5), of(a={"$ref": "#"}), of(a={"anyOf": [TEXT, {"type": "null"}]})])
def test_what_it_takes_is_taken(schema: dict[str, Any]) -> None:
    assert list(strict_refusals(schema)) == []


@pytest.mark.parametrize(
    "schema", [strict_schema(WirePlan), strict_schema(Plan), strict_schema(BlindPlan), strict_schema(Critique)]
)
def test_every_form_we_ask_for_is_taken(schema: dict[str, Any]) -> None:
    assert list(strict_refusals(schema)) == []


async def test_the_scripted_server_refuses_such_a_request() -> None:
    request = replace(HELLO, schema_name="x", schema=nested(6))
    async with ScriptedServer(message("{}"), message("{}")) as server:
        await model_at(server).respond(request)
        await model_at(server).respond(replace(request, schema=nested(5)))
        forms = [body["response_format"]["type"] for body in server.requests]
    assert forms == ["json_schema", "json_object", "json_schema"]
