"""The Responses API: the main job over a real server, thoughts that go back as they came, streams and whole answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.openai.model import from_environment
from foregate.agent.models.openai.retries import Retries
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import ModelError, UsageError
from foregate.schemas.message import Message, ModelRequest
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, Stream, failure, message
from tests.agent.models.openai.test_exact_memory import open_session
from tests.agent.models.openai.test_model import HELLO, STRICT, model_at, tool

THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First the file."}],
    "encrypted_content": "gAAA" * 50,
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_Zk3",
    "name": "read_file",
    "arguments": '{"path":"a.txt"}',
    "status": "completed",
}


def saying(text: str, kind: str = "output_text") -> dict[str, Any]:
    """Return a message as an item."""
    place = "refusal" if kind == "refusal" else "text"
    part = {"type": kind, place: text, **({"annotations": []} if place == "text" else {})}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def answer(*output: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a whole answer."""
    usage = {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}
    whole = {"id": "resp_1", "object": "response", "model": "served-model", "status": "completed", "error": None}
    return {**whole, "output": list(output), "usage": usage, "incomplete_details": None, **more}


def as_stream(whole: Mapping[str, Any], *, empty_end: bool = False) -> Stream:
    """Return an answer as the events of a stream, whose texts come in pieces."""
    events: list[Any] = [{"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}}]
    for at, item in enumerate(whole["output"]):
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}})
        for part in item.get("content", []):
            kind = "output_text" if part["type"] == "output_text" else "refusal"
            text = part["text" if kind == "output_text" else "refusal"]
            events += [{"type": f"response.{kind}.delta", "output_index": at, "delta": char} for char in text]
            events.append({"type": f"response.{kind}.done", "output_index": at})
        for part in item.get("summary", []):
            events += [{"type": "response.reasoning_summary_text.delta", "delta": char} for char in part["text"]]
        for char in item.get("arguments", ""):
            events.append({"type": "response.function_call_arguments.delta", "output_index": at, "delta": char})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    kind = f"response.{whole['status']}"
    events.append({"type": kind, "response": {**whole, "output": [] if empty_end else whole["output"]}})
    return Stream([b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events], end="open")


def played(whole: Mapping[str, Any], how: str) -> Stream | Reply:
    """Return an answer in one of the ways in which servers send it."""
    return Reply(dict(whole)) if how == "whole" else as_stream(whole, empty_end=how == "a stream with an empty end")


HOW = ("whole", "a stream", "a stream with an empty end")


@pytest.mark.parametrize("how", HOW)
async def test_thoughts_and_calls_go_back_as_the_items_that_came_and_the_job_is_done(
    folder: Path, workspace: Workspace, policy: Policy, how: str
) -> None:
    (folder / "a.txt").write_text("cat")
    log, streams = MemoryLog(), how != "whole"
    first, second = answer(THOUGHT, CALL), answer(saying("It says cat."))
    async with ScriptedServer(played(first, how), played(second, how), played(answer(saying("Bye.")), how)) as server:
        session = await open_session(log, model_at(server, api="responses", stream=streams), workspace, policy)
        outcome = await run(session, "what does a.txt say?")
        await session.close(end=False)
        again = await open_session(log, model_at(server, api="responses", stream=streams), workspace, policy)
        await run(again, "thanks")
        asked, back, resumed = server.requests
    assert (outcome.status, outcome.text) == ("completed", "It says cat.")
    assert server.paths == ["/v1/responses"] * 3
    assert (asked["store"], asked["include"]) == (False, ["reasoning.encrypted_content"])
    assert all(one["strict"] is False for one in asked["tools"])
    assert back["input"][2:4] == [THOUGHT, CALL]
    assert (back["input"][4]["type"], back["input"][4]["call_id"]) == ("function_call_output", "call_Zk3")
    assert resumed["input"][: len(back["input"])] == back["input"]
    assert resumed["input"][len(back["input"])] == saying("It says cat.")


async def test_a_session_of_responses_goes_on_by_chat_completions_and_back(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    (folder / "a.txt").write_text("cat")
    log = MemoryLog()
    async with ScriptedServer(
        Reply(answer(THOUGHT, CALL)), Reply(answer(saying("Cat."))), message("Hello."), Reply(answer(saying("Bye.")))
    ) as server:
        for api, said in (("responses", "what does a.txt say?"), ("chat", "and you?"), ("responses", "bye")):
            session = await open_session(log, model_at(server, api=api), workspace, policy)
            assert (await run(session, said)).status == "completed"
            await session.close(end=False)
        chat, last = server.requests[2:]
    assert chat["messages"][2].keys() == {"role", "content", "tool_calls"}
    assert "gAAA" not in json.dumps(chat)
    assert last["input"][2:4] == [THOUGHT, CALL]
    assert {"role": "assistant", "content": "Hello."} in last["input"]


@pytest.mark.parametrize("how", HOW)
async def test_words_refusals_thoughts_usage_and_why_it_ended_are_read(how: str) -> None:
    whole = answer(
        THOUGHT,
        saying("I can do "),
        saying("no more", "refusal"),
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )
    heard: list[str] = []
    async with ScriptedServer(played(whole, how)) as server:
        model = model_at(server, api="responses", stream=how != "whole", input_price=1_000_000)
        response = await model.respond(HELLO, heard.append)
    assert (response.text, response.reasoning) == ("I can do no more", "First the file.")
    assert (response.finish_reason, response.usage.input_tokens, response.usage.cost) == ("length", 12, 12)
    assert "".join(heard) == response.text
    assert "the model refused the request" in response.notes


@pytest.mark.parametrize("how", HOW)
async def test_a_call_that_comes_twice_is_one_call_and_goes_back_once(how: str) -> None:
    twice = played(answer(CALL, CALL, {**CALL, "call_id": "call_2"}), how)
    async with ScriptedServer(twice, Reply(answer(saying("hi")))) as server:
        model = model_at(server, api="responses", stream=how != "whole")
        response = (await model.respond(ModelRequest(HELLO.messages, [tool("read_file")]))).stamp_calls(4)
        answers = [Message("tool", "{}", call=call.id) for call in response.calls]
        said = Message("assistant", "", response.calls, wire=response.wire)
        await model_at(server, api="responses").respond(ModelRequest([*HELLO.messages, said, *answers]))
    assert [call.wire_id for call in response.calls] == ["call_Zk3", "call_2"]


async def test_a_schema_a_bound_and_a_temperature_are_asked_for_as_responses_has_them() -> None:
    request = ModelRequest(
        HELLO.messages, schema_name="shape", schema=STRICT, max_tokens=50, temperature=0.5, stop=("x",)
    )
    async with ScriptedServer(Reply(answer(saying('{"a": 1}')))) as server:
        await model_at(server, api="responses").respond(request)
    (body,) = server.requests
    assert body["text"]["format"] == {"type": "json_schema", "name": "shape", "strict": True, "schema": STRICT}
    assert (body["max_output_tokens"], body["temperature"]) == (50, 0.5)


async def test_an_endpoint_without_encrypted_thoughts_is_asked_without_and_gets_none_back() -> None:
    words, empty = "Encrypted content is not supported with this model.", {**THOUGHT, "encrypted_content": None}
    first, second = Reply(answer(empty, saying("hi"))), Reply(answer(saying("bye")))
    async with ScriptedServer(failure(400, words, param="include"), first, second) as server:
        model = model_at(server, api="responses")
        response = await model.respond(HELLO)
        said = Message("assistant", response.text, wire=response.wire)
        await model.respond(ModelRequest([*HELLO.messages, said, Message("user", "bye")]))
    assert response.text == "hi"
    assert any("thoughts" in note for note in response.notes)
    assert all("include" not in one for one in server.requests[1:])
    assert saying("hi") in server.requests[2]["input"]
    assert "rs_1" not in json.dumps(server.requests[2])


FAILED = {"code": "server_error", "message": "the planet is full"}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Reply(answer(status="failed", error=FAILED)), id="whole"),
        pytest.param(as_stream(answer(status="failed", error=FAILED)), id="at the end of a stream"),
        pytest.param(Stream([{"type": "error", **FAILED}]), id="in a stream"),
        pytest.param(Stream([{"error": FAILED}]), id="as chat does"),
    ],
)
async def test_a_failure_in_the_answer_is_tried_again_and_told_in_its_own_words(step: Stream | Reply) -> None:
    async with ScriptedServer(step) as server:
        model = model_at(server, api="responses", stream=isinstance(step, Stream), retries=Retries(attempts=1))
        with pytest.raises(ModelError, match="the planet is full"):
            await model.respond(HELLO)


async def test_a_stream_without_its_last_event_is_cut_off() -> None:
    whole = as_stream(answer(saying("hi")))
    async with ScriptedServer(Stream(whole.events[:-1], end="open")) as server:
        with pytest.raises(ModelError, match="cut its answer off"):
            await model_at(server, api="responses", stream=True, retries=Retries(attempts=1)).respond(HELLO)


def test_the_environment_chooses_the_api_and_another_word_is_refused() -> None:
    given = {"OPENAI_BASE_URL": "http://h/v1", "FOREGATE_MODEL": "m"}
    marks: Sequence[Any] = [
        from_environment({**given, "FOREGATE_API": api}, api=own)  # type: ignore[arg-type]
        for api, own in (("", ""), ("chat", ""), ("responses", ""), ("chat", "responses"))
    ]
    assert [model._endpoint.api for model in marks] == ["chat", "chat", "responses", "responses"]
    with pytest.raises(UsageError, match="set it to chat or responses"):
        from_environment({**given, "FOREGATE_API": "grpc"})


async def test_a_word_of_the_system_and_answers_stand_in_their_places() -> None:
    asked = [
        Message("system", "Be brief."),
        Message("user", "hi"),
        Message("assistant", "hello"),
        Message("user", "bye"),
    ]
    async with ScriptedServer(Reply(answer(saying("bye")))) as server:
        await model_at(server, api="responses").respond(ModelRequest(asked))
    assert [(item["role"], item["content"]) for item in server.requests[0]["input"]] == [
        ("system", "Be brief."),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "bye"),
    ]
