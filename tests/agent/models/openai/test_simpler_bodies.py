"""Bodies without what an endpoint refuses: what stays, and that nothing given is changed."""

from __future__ import annotations

import json
from collections.abc import Callable

from foregate.agent.models.openai.abilities import ABILITIES, simplify
from foregate.agent.models.openai.simpler_bodies import keep_tools, strip_schema
from foregate.schemas.message import ModelRequest
from foregate.schemas.tool_spec import ToolSpec
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, message
from tests.agent.models.openai.test_abilities import RICH, RICH_TOOL, Body, in_tools, refuse
from tests.agent.models.openai.test_model import HELLO, STRICT, model_at


def test_tools_called_last_and_then_the_first_are_kept() -> None:
    call = {"id": "1", "function": {"name": "f7", "arguments": "{}"}}
    tools = [{"function": {"name": f"f{n}"}} for n in range(9)]
    body = {"messages": [{"role": "assistant", "tool_calls": [call]}], "tools": tools}
    assert [tool["function"]["name"] for tool in keep_tools(body, 3)["tools"]] == ["f0", "f1", "f7"]


def test_a_plain_schema_keeps_properties_that_are_named_as_keywords() -> None:
    assert strip_schema(RICH, frozenset({"*"}), RICH) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "how": {"type": "integer"},
            "kind": {"enum": ["one"]},
            "part": {"type": "object", "properties": {"a": {"type": "string"}}},
            "many": {"type": "string"},
        },
        "required": ["title"],
    }


def test_a_schema_that_names_itself_ends() -> None:
    schema = {"properties": {"next": {"$ref": "#"}, "odd": {"$ref": "#/nowhere"}}}
    assert len(json.dumps(strip_schema(schema, frozenset({"$ref"}), schema))) < 2000


def test_no_row_changes_the_body_it_is_given() -> None:
    body: Body = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": ""},
            {"role": "user", "content": "b"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "x" * 99, "parameters": RICH}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": STRICT}},
        "tool_choice": "auto",
        "stop": ["x"],
        "temperature": 1,
        "max_tokens": 99,
        "stream": True,
    }
    before = json.dumps(body)
    for row in ABILITIES:
        simplify(body, {row.name: 1 if row.name not in ("schema_keywords", "own_fields") else ["anyOf"]})
    assert json.dumps(body) == before


async def test_of_several_things_a_refusal_may_mean_one_is_tried_that_changes_the_request() -> None:
    said = refuse("Invalid function name pattern, or the keyword 'anyOf' in its schema")
    objects: Callable[[Body], Reply | None] = lambda body: said if in_tools("anyOf")(body) else None  # noqa: E731
    async with ScriptedServer(message("hi"), objects=objects) as server:
        model = model_at(server)
        await model.respond(ModelRequest(HELLO.messages, [RICH_TOOL]))
    assert (len(server.requests), model._learnt) == (2, {"schema_keywords": ["anyOf"]})


async def test_calls_of_respelled_tools_are_read_back() -> None:
    def objects(body: Body) -> Reply | None:
        name = body["tools"][0]["function"]["name"]
        return None if name.isidentifier() else refuse("function name must match pattern [a-z_]+")

    made = message(None, finish="tool_calls", tool_calls=[{"id": "1", "function": {"name": "a_b", "arguments": "{}"}}])
    async with ScriptedServer(made, objects=objects) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [ToolSpec("a-b", "d", {})]))
    assert [call.name for call in response.calls] == ["a-b"]
