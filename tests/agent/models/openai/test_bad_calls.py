"""A bad call of the model's that the endpoint refuses is answered to the model, and never ends the task at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.openai.bad_calls import is_about_call, list_calls
from foregate.agent.models.openai.refusal import read_refusal
from foregate.schemas.event_body import CallAnswered
from foregate.schemas.message import ModelRequest
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, Stream, failure, message
from tests.agent.models.openai.test_model import HELLO, STRICT, model_at, tool
from tests.agent.world import World


def refuse(words: str, generated: str | None = None, **more: Any) -> Reply:
    said = {"code": "tool_use_failed", **more} | ({} if generated is None else {"failed_generation": generated})
    return failure(400, words, **said)


UNKNOWN = "tool call validation failed: attempted to call tool 'fly' which was not in request.tools"


@pytest.mark.parametrize(
    ("reply", "name", "said"),
    [
        (refuse(UNKNOWN, '{"name": "fly", "arguments": {"to": "b"}}'), "fly", "there is no tool"),
        (refuse(UNKNOWN), "fly", "attempted to call tool"),
        (refuse("Failed to call a function.", '<function=read_file>{"path": '), "read_file", "could make no call"),
        (refuse("Failed to call a function.", "I would rather sing"), "unnamed", "Failed to call a function"),
        (
            failure(400, "tool call validation failed: parameters for tool read_file did not match"),
            "read_file",
            "",
        ),
        (failure(500, 'error parsing tool call: raw=\'{"name": "read_file", \', err=unexpected end'), "read_file", ""),
        (failure(500, "Failed to parse tool call arguments as JSON: syntax error"), "unnamed", "Failed to parse"),
        (Stream([{"error": {"message": UNKNOWN, "code": "tool_use_failed", "status_code": 400}}]), "fly", "attempted"),
    ],
)
async def test_a_refused_call_is_answered_to_the_model_and_the_task_goes_on(reply: Any, name: str, said: str) -> None:
    async with ScriptedServer(reply, message("I can not.")) as server:
        world = World()
        session = await world.open(model_at(server), on_text=[].append)
        outcome = await run(session, "say what is in a.txt")
    assert outcome.status == "completed"
    (answer,) = await world.bodies(CallAnswered)
    assert answer.tool == name
    assert said in answer.message
    sent = server.requests[1]["messages"]
    assert sent[-2]["tool_calls"][0]["function"]["name"] == name
    assert sent[-1]["role"] == "tool"


async def test_a_right_call_that_the_endpoint_could_not_read_runs() -> None:
    refused = refuse("Failed to call a function.", '<function=read_file>{"path": "a.txt"}</function>')
    async with ScriptedServer(refused, message("a cat")) as server:
        world = World()
        outcome = await run(await world.open(model_at(server)), "say what is in a.txt")
    assert outcome.status == "completed"
    assert "teh cat" in server.requests[1]["messages"][-1]["content"]


async def test_calls_that_stay_bad_end_at_the_bound_of_malformed_calls() -> None:
    async with ScriptedServer(*[refuse("Failed to call a function.", '{"name": "read_file", "arg')] * 4) as server:
        outcome = await run(await World().open(model_at(server)), "say what is in a.txt")
    assert outcome.status == "blocked"
    assert "4 times" in outcome.report.blocker


async def test_an_answer_that_should_have_been_json_is_the_text_it_is() -> None:
    refused = failure(400, "Failed to generate JSON.", code="json_validate_failed", failed_generation='{"a": ')
    async with ScriptedServer(refused) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, schema_name="x", schema=STRICT))
    assert (response.text, response.calls) == ('{"a": ', ())


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "f", "arguments": {"a": 1}}', [("f", '{"a": 1}')]),
        ('[{"name": "f", "parameters": {"a": 1}}, {"tool": "g", "input": {}}]', [("f", '{"a": 1}'), ("g", "{}")]),
        ('{"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}', [("f", "{}")]),
        ('<function=f>{"a": 1}</function><function=g>{}</function>', [("f", '{"a": 1}'), ("g", "{}")]),
        ('<function=f{"a": "}"}</function>', [("f", '{"a": "}"}')]),
        ('<tool_call>{"name": "f", "arguments": {}}</tool_call>', [("f", "{}")]),
        ("[[[[[" * 10_000, []),
        ('{"name": ' * 10_000, []),
        ("words", []),
        ("", []),
    ],
)
def test_calls_are_read_in_every_form(text: str, calls: list[tuple[str, str]]) -> None:
    assert list(list_calls(text)) == calls


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"message": "failed to parse tool call", "code": "rate_limit_exceeded"}),
        (400, "Invalid 'messages[2].tool_calls[0].id': string does not match pattern"),
        (400, "the tool call id is unknown"),
        (500, "internal error"),
        (400, "failed to parse the request body"),
    ],
)
def test_a_refusal_of_what_was_asked_is_not_one_of_a_call(status: int, body: Any) -> None:
    assert not is_about_call(read_refusal(status, body))


async def test_what_was_shown_of_an_answer_is_void_once_its_call_is_refused() -> None:
    heard: list[str] = []
    begun = {"choices": [{"index": 0, "delta": {"content": "I look"}, "finish_reason": None}]}
    said = {"error": {"message": UNKNOWN, "code": "tool_use_failed"}}
    async with ScriptedServer(Stream([begun, said])) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]), heard.append)
    assert (response.text, [call.name for call in response.calls]) == ("", ["fly"])
    assert "begins again" in "".join(heard)
    assert json.dumps(response.notes).count(UNKNOWN) == 1
