"""What an endpoint cannot do is learnt at its first refusal, left out from then on, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from foregate.agent.models.openai.abilities import is_sound, list_refused
from foregate.agent.models.openai.model import SIMPLER_TIMES
from foregate.agent.models.openai.refusal import read_refusal
from foregate.schemas.errors import ContextTooLong, ModelError, ToolsRefused
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, Stream, delta, failure, message
from tests.agent.models.openai.test_model import HELLO, model_at

Body = dict[str, Any]
RICH: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string", "minLength": 1, "format": "hostname", "default": "x"},
        "how": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 3}]},
        "kind": {"const": "one"},
        "part": {"$ref": "#/$defs/part"},
        "many": {"type": ["string", "null"]},
    },
    "required": ["title"],
    "$defs": {"part": {"type": "object", "properties": {"a": {"type": "string", "title": "A"}}}},
}
RICH_TOOL = ToolSpec("f", "does f", RICH)
TOOL = ToolSpec("f", "does f", {"type": "object", "properties": {}})
CALL = ToolCall.parse("f", "{}", id="c1.1")
TALK = [*HELLO.messages, Message("assistant", "", (CALL,)), Message("tool", "{}", call="c1.1"), Message("user", "more")]


def google(words: str) -> Reply:
    return Reply([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}], 400)


def refuse(words: str, status: int = 400, **more: Any) -> Reply:
    return failure(status, words, **more)


def in_tools(*texts: str) -> Callable[[Body], bool]:
    return lambda body: any(text in json.dumps(body.get("tools", "")) for text in texts)


def roles(body: Body) -> list[str]:
    return [one["role"] for one in body["messages"]]


BOTH = tuple(ToolCall.parse("f", "{}", id=one) for one in ("c1", "c2"))
SEVERAL = [*HELLO.messages, Message("assistant", "", BOTH), *(Message("tool", "one", call=one.id) for one in BOTH)]

CASES: list[tuple[str, ModelRequest, Callable[[Body], bool], Reply]] = [
    (
        "tool_choice",
        ModelRequest(HELLO.messages, [TOOL]),
        lambda body: "tool_choice" in body,
        refuse("m does not support this tool_choice"),
    ),
    (
        "tool_choice",
        ModelRequest(HELLO.messages, [TOOL]),
        lambda body: "tool_choice" in body,
        refuse("No endpoints found that support the provided 'tool_choice' value", 404),
    ),
    (
        "tool_choice",
        ModelRequest(HELLO.messages, [TOOL], words_only=True),
        lambda body: body.get("tool_choice") == "none",
        Reply({"detail": [{"loc": ["body", "tool_choice"], "msg": "Input should be 'auto'", "type": "literal"}]}, 422),
    ),
    (
        "stream",
        HELLO,
        lambda body: "stream" in body,
        refuse("Streaming is not supported for this model", param="stream"),
    ),
    (
        "schema_keywords",
        ModelRequest(HELLO.messages, [RICH_TOOL]),
        in_tools("additionalProperties"),
        google(
            'Invalid JSON payload received. Unknown name "additionalProperties" at '
            "'tools[0].function_declarations[0].parameters': Cannot find field."
        ),
    ),
    (
        "schema_keywords",
        ModelRequest(HELLO.messages, [RICH_TOOL]),
        in_tools("$schema"),
        refuse("Invalid schema for function 'f': keyword '$schema' is not permitted"),
    ),
    (
        "schema_keywords",
        ModelRequest(HELLO.messages, [RICH_TOOL]),
        in_tools("hostname"),
        google(
            "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[title].format: only "
            "'enum' and 'date-time' are supported for STRING type"
        ),
    ),
    (
        "schema_keywords",
        ModelRequest(HELLO.messages, [RICH_TOOL]),
        in_tools("minLength", "anyOf", "const"),
        refuse("Unsupported JSON schema keywords in tool f: minLength, `anyOf` and `const` are not supported"),
    ),
    (
        "schema_keywords",
        ModelRequest(HELLO.messages, [RICH_TOOL]),
        in_tools('"null"]'),
        google("Proto field is not repeating, cannot start list. at tools[0].function_declarations[0].parameters"),
    ),
    (
        "plain_schemas",
        ModelRequest(HELLO.messages, [RICH_TOOL]),
        in_tools("$ref", "minLength"),
        refuse("Invalid schema for function 'f'"),
    ),
    (
        "plain_schemas",
        ModelRequest(HELLO.messages, [RICH_TOOL]),
        in_tools("format"),
        refuse("JSON schema conversion failed: failed to parse grammar", 500),
    ),
    (
        "tool_count",
        ModelRequest(HELLO.messages, [ToolSpec(f"f{n}", "d", {}) for n in range(150)]),
        lambda body: len(body["tools"]) > 128,
        refuse(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length "
            "150 instead.",
            param="tools",
            code="array_above_max_length",
        ),
    ),
    (
        "tool_count",
        ModelRequest(HELLO.messages, [ToolSpec(f"f{n}", "d", {}) for n in range(150)]),
        lambda body: len(body["tools"]) > 64,
        refuse("Maximum number of tools is 64, got 150 tools"),
    ),
    (
        "long_descriptions",
        ModelRequest(HELLO.messages, [ToolSpec("f", "x" * 3000, {})]),
        lambda body: len(body["tools"][0]["function"]["description"]) > 512,
        refuse("Invalid 'tools[0].function.description': string too long. Expected maximum length 512"),
    ),
    (
        "empty_descriptions",
        ModelRequest(HELLO.messages, [ToolSpec("f", "", {})]),
        lambda body: not body["tools"][0]["function"]["description"],
        refuse("Invalid length for parameter toolSpec.description, value: 0, valid min length: at least 1"),
    ),
    (
        "name_length",
        ModelRequest(HELLO.messages, [ToolSpec("a" * 60, "d", {})]),
        lambda body: len(body["tools"][0]["function"]["name"]) > 32,
        refuse("function name is too long: at most 32 characters"),
    ),
    (
        "plain_names",
        ModelRequest(HELLO.messages, [ToolSpec("8a-b", "d", {})]),
        lambda body: not body["tools"][0]["function"]["name"].isidentifier(),
        google("Invalid function name. Must start with a letter or an underscore."),
    ),
    (
        "empty_parameters",
        ModelRequest(HELLO.messages, [TOOL]),
        lambda body: "parameters" in body["tools"][0]["function"],
        google("tools[0].function_declarations[0].parameters.properties: should be non-empty for OBJECT type"),
    ),
    (
        "developer_role",
        HELLO,
        lambda body: "system" in roles(body),
        refuse(
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            param="messages[0].role",
            code="unsupported_value",
        ),
    ),
    ("system_role", HELLO, lambda body: "system" in roles(body), refuse("System role not supported", 500)),
    (
        "system_role",
        HELLO,
        lambda body: "system" in roles(body),
        google("Developer instruction is not enabled for models/gemma"),
    ),
    (
        "alternation",
        ModelRequest([*HELLO.messages, Message("user", "again")]),
        lambda body: roles(body)[-2:] == ["user", "user"],
        refuse("Conversation roles must alternate user/assistant/user/assistant/...", 500),
    ),
    (
        "user_after_tool",
        ModelRequest(TALK, [TOOL]),
        lambda body: ("tool", "user") in zip(roles(body), roles(body)[1:], strict=False),
        refuse("Unexpected role 'user' after role 'tool'"),
    ),
    (
        "one_call",
        ModelRequest(SEVERAL, [TOOL]),
        lambda body: any(len(one.get("tool_calls", ())) > 1 for one in body["messages"]),
        Reply({"error_code": "BAD_REQUEST", "message": "Multiple tool calls are not supported.\n"}, 400),
    ),
    (
        "thoughts_of_others",
        ModelRequest(TALK, [TOOL]),
        lambda body: any("reasoning_content" not in one for one in body["messages"] if one.get("tool_calls")),
        refuse("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"),
    ),
    (
        "whole",
        HELLO,
        lambda body: "stream" not in body,
        refuse("parameter.enable_thinking must be set to false for non-streaming calls"),
    ),
    (
        "json_schema",
        ModelRequest(HELLO.messages, schema_name="a", schema={"type": "object"}),
        lambda body: body["response_format"]["type"] == "json_schema",
        refuse("This response_format type is unavailable now"),
    ),
    (
        "json_schema",
        ModelRequest(HELLO.messages, schema_name="a", schema={"type": "object"}),
        lambda body: body["response_format"]["type"] == "json_schema",
        refuse(
            "1 validation error: {'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}", 500
        ),
    ),
    (
        "null_content",
        ModelRequest(TALK, [TOOL]),
        lambda body: any(one["content"] is None for one in body["messages"]),
        Reply({"detail": [{"loc": ["body", "messages", 2, "content"], "msg": "Input should be a valid string"}]}, 422),
    ),
    (
        "tools_with_calls",
        ModelRequest(TALK, words_only=True),
        lambda body: "tools" not in body,
        refuse("The toolConfig field must be defined when using toolUse and toolResult content blocks."),
    ),
    (
        "max_tokens_cap",
        ModelRequest(HELLO.messages, max_tokens=99_999),
        lambda body: body.get("max_tokens", 0) > 4096,
        refuse(
            "max_tokens is too large: 99999. This model supports at most 4096 completion tokens", param="max_tokens"
        ),
    ),
]


@pytest.mark.parametrize(("name", "request_", "is_refused", "reply"), CASES)
async def test_a_refused_part_is_left_out_and_not_tried_again(
    name: str, request_: ModelRequest, is_refused: Callable[[Body], bool], reply: Reply
) -> None:
    heard: list[str] = []
    script = [message("hi", usage={}), message("hi", usage={})]
    async with ScriptedServer(*script, objects=lambda body: reply if is_refused(body) else None) as server:
        model = model_at(server, on_retry=heard.append, stream=name.startswith("stream"))
        responses = [await model.respond(request_) for _ in range(2)]
    assert [is_refused(body) for body in server.requests] == [True, False, False]
    (said,) = heard
    assert said.endswith("from now on it is asked so at once")
    assert [len(one.notes) for one in responses] == [1, 1]
    assert list(model._learnt) == [name]
    assert is_sound(json.loads(json.dumps(model._learnt)))


async def test_several_refusals_of_one_request_are_each_learnt() -> None:
    def objects(body: Body) -> Reply | None:
        if body["messages"][0]["role"] == "system":
            return refuse("System role not supported")
        if "tool_choice" in body:
            return refuse("tool_choice is not supported")
        return refuse('Unknown name "anyOf" at tools[0]') if in_tools("anyOf")(body) else None

    async with ScriptedServer(message("hi"), objects=objects) as server:
        await model_at(server).respond(ModelRequest(HELLO.messages, [RICH_TOOL]))
    assert len(server.requests) == 4


async def test_a_server_that_refuses_everything_ends_within_bounds() -> None:
    words = iter(range(10_000))
    everything = "tool_choice, system role, schema 'anyOf' 'title' and at most {} tools are not supported"
    tools = [RICH_TOOL, *(ToolSpec(f"f{n}", "d", {}) for n in range(150))]
    async with ScriptedServer(objects=lambda body: refuse(everything.format(next(words)))) as server:
        model = model_at(server)
        with pytest.raises(ModelError):
            await model.respond(ModelRequest(HELLO.messages, tools))
    assert len(server.requests) <= SIMPLER_TIMES
    assert model._learnt == {}


@pytest.mark.parametrize("status", [401, 403, 408, 429, 503])
async def test_a_failure_of_another_kind_never_teaches_anything(status: int) -> None:
    said = refuse("tool_choice is not supported, temperature neither", status)
    request = ModelRequest(HELLO.messages, [TOOL], temperature=0.5)
    async with ScriptedServer(said, message("hi")) as server:
        model = model_at(server)
        if status in (401, 403):
            with pytest.raises(ModelError):
                await model.respond(request)
            server.steps.clear()
        else:
            await model.respond(request)
    assert all("tool_choice" in body for body in server.requests)
    assert model._learnt == {}


async def test_what_only_that_endpoint_says_does_not_go_back_once_it_refuses_it() -> None:
    thought = message(
        None,
        finish="tool_calls",
        reasoning_content="hm",
        tool_calls=[{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    )

    def objects(body: Body) -> Reply | None:
        has = any("reasoning_content" in one for one in body["messages"])
        return (
            refuse(
                "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property "
                "'reasoning_content' is unsupported)]"
            )
            if has
            else None
        )

    async with ScriptedServer(thought, message("hi"), objects=objects) as server:
        model, request = model_at(server), ModelRequest(HELLO.messages, [TOOL])
        said = (await model.respond(request)).stamp_calls(4)
        own = said.wire.with_reasoning(said.reasoning) if said.wire is not None else None
        talk = [
            *HELLO.messages,
            Message("assistant", "", said.calls, wire=own),
            Message("tool", "{}", call="c4.1"),
        ]
        await model.respond(ModelRequest(talk, [TOOL]))
    assert model._learnt == {"own_fields": ["reasoning_content"]}


async def test_no_tools_at_all_is_still_said_as_such() -> None:
    words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    async with ScriptedServer(refuse(words)) as server:
        with pytest.raises(ToolsRefused):
            await model_at(server).respond(ModelRequest(HELLO.messages, [TOOL]))


async def test_a_request_that_is_too_long_is_not_mistaken_for_a_feature() -> None:
    words = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."
    async with ScriptedServer(refuse(words)) as server:
        with pytest.raises(ContextTooLong):
            await model_at(server).respond(ModelRequest(TALK, [RICH_TOOL]))


@pytest.mark.parametrize("learnt", [[], {"made_up": True}, {"stop": {"a": 1}}, {"tool_count": -1}, {"own_fields": [1]}])
def test_what_cannot_have_been_learnt_is_not_sound(learnt: Any) -> None:
    assert not is_sound(learnt)


async def test_a_stream_that_refuses_in_band_teaches_too() -> None:
    said = {"error": {"message": "tool_choice is not supported", "code": 400}}
    async with ScriptedServer(Stream([said]), Stream([delta("stop", content="hi")])) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [TOOL]), [].append)
    assert response.text == "hi"
    assert "tool_choice" not in server.requests[1]


def test_a_refusal_of_words_is_of_no_part() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [{"function": {"name": "f"}}]}
    assert list(list_refused(read_refusal(400, "I will not help with that"), body)) == []
