"""What an endpoint said goes back to it as it came, after a restart too, and to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.dialects.dialect_model import build_dialect_model
from foregate.agent.loop.reconcile import resume
from foregate.agent.loop.runner import run
from foregate.agent.session.session import Session
from foregate.agent.session.session_log import fold_session
from foregate.agent.tools.files import read_file
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import ModelError
from foregate.schemas.protocols import Model
from foregate.telemetry.export.atif import build_document
from foregate.telemetry.export.fold import fold_trajectory
from foregate.telemetry.export.hiding import TextRemover
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from tests.agent.models.openai.scripted_server import ScriptedServer, Stream, delta, message
from tests.agent.models.openai.test_model import HELLO, model_at

ARGUMENTS = '{"path": "a.txt"}'
FUNCTION = {"name": "read_file", "arguments": ARGUMENTS}
SECRET = "sk-proj-" + "a1B2" * 10


def calling(*, id: str = "c1", call: Mapping[str, Any] = {}, content: Any = None, **more: Any) -> dict[str, Any]:  # noqa: A002
    """Return an assistant message with one call, as an endpoint sends it."""
    made = {"id": id, "type": "function", "function": FUNCTION, **call}
    return {"role": "assistant", "content": content, "tool_calls": [made], **more}


SAID = {
    "Mistral's id": calling(id="D681PevKs"),
    "DeepSeek's thoughts": calling(content="I look.", reasoning_content="First the file."),
    "an empty thought": calling(content="I look.", reasoning_content=""),
    "Gemini's signature": calling(call={"extra_content": {"google": {"thought_signature": "AbC=="}}}),
    "Kimi's id": calling(id="functions.read_file:0", reasoning_content="Hm."),
    "a signature in the id": calling(id="call_1__thought__" + "Zm9v" * 2500),
    "OpenRouter's details": calling(
        reasoning="Hm.",
        reasoning_details=[
            {"type": "reasoning.text", "text": "Hm.", "format": "x", "index": 0},
            {"type": "reasoning.encrypted", "data": "q/w==", "id": "r1", "index": 1},
        ],
    ),
    "Mistral's parts": calling(
        content=[
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
            {"type": "text", "text": "I look."},
        ]
    ),
    "a thought in the words": calling(content="<think>\nFirst the file.\n</think>\n\nI look."),
    "a thought that a template began": calling(content="First the file.\n</think>\n\nI look."),
    "a refusal beside": calling(content="I look.", refusal="not all of it"),
    "a field of the function": calling(call={"function": {**FUNCTION, "strict": True}}),
    "numbers and depth": calling(own={"a": [1, 2.5, None, True, {"b": [[[{"c": "\U0001f600"}]]]}], "n": 2**60}),
}


def cut_part(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a part of a content in pieces of one character of its text."""
    if part["type"] == "thinking":
        yield from ({**part, "thinking": [one]} for inner in part["thinking"] for one in cut_part(inner))
    else:
        yield from ({**part, "text": char} for char in part["text"])


def as_stream(said: Mapping[str, Any], size: int) -> Stream:
    """Return a message as a stream whose texts come in pieces."""
    pieces: list[dict[str, Any]] = [delta(role="assistant")]
    for name, value in said.items():
        if name == "tool_calls":
            continue
        if name == "content" and isinstance(value, list):
            pieces += [delta(content=[one]) for part in value for one in cut_part(part)]
        elif isinstance(value, str) and name != "role":
            pieces += [delta(**{name: value[at : at + size]}) for at in range(0, max(1, len(value)), size)]
        elif name == "reasoning_details":
            pieces += [
                delta(reasoning_details=[{**one, "text": one["text"][at : at + 1]}])
                for one in value
                if "text" in one
                for at in range(len(one["text"]))
            ]
            pieces += [delta(reasoning_details=[one]) for one in value if "text" not in one]
        elif value is not None and name != "role":
            pieces.append(delta(**{name: value}))
    for at, call in enumerate(said["tool_calls"]):
        first = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        pieces.append(delta(tool_calls=[first]))
        arguments = call["function"]["arguments"]
        pieces += [
            delta(tool_calls=[{"index": at, "function": {"arguments": arguments[i : i + size]}}])
            for i in range(0, len(arguments), size)
        ]
    return Stream([*pieces, delta("tool_calls")])


async def open_session(log: MemoryLog, model: Model, workspace: Workspace, policy: Policy) -> Session:
    """Open a session with one tool, or go on with it."""
    new = not await log.sessions()
    state = None if new else await fold_session(log, "s")
    session = Session(
        log=log,
        lease=await log.claim("s", create=new),
        blobs=MemoryBlobs(),
        model=model,
        tools=Toolbox([read_file(workspace, policy)]),
        policy=policy,
        workspace=workspace,
        state=state,
    )
    await (session.start() if new else resume(session))
    return session


def without_empty(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without what says nothing."""
    return {key: value for key, value in said.items() if value is not None or key == "content"}


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("name", SAID)
async def test_what_an_endpoint_said_goes_back_to_it_as_it_came(
    folder: Path, workspace: Workspace, policy: Policy, name: str, size: int
) -> None:
    (folder / "a.txt").write_text("cat")
    said = SAID[name]
    whole = {key: value for key, value in said.items() if key not in ("role", "content")}
    first = as_stream(said, size) if size else message(said["content"], finish="tool_calls", **whole)
    log = MemoryLog()
    async with ScriptedServer(first, message("It says cat."), ids=".+") as server:
        session = await open_session(log, model_at(server, stream=bool(size)), workspace, policy)
        outcome = await run(session, "what does a.txt say?")
        request = server.requests[1]
    assert outcome.status == "completed"
    assert request["messages"][2] == without_empty(said)
    assert request["messages"][3]["tool_call_id"] == said["tool_calls"][0]["id"]


@pytest.mark.parametrize("name", SAID)
async def test_a_resumed_session_sends_the_same_bytes_and_another_endpoint_gets_what_all_have(
    folder: Path, workspace: Workspace, policy: Policy, name: str
) -> None:
    (folder / "a.txt").write_text("cat")
    said, log = SAID[name], MemoryLog()
    whole = {key: value for key, value in said.items() if key not in ("role", "content")}
    async with ScriptedServer(
        message(said["content"], finish="tool_calls", **whole), message("It says cat."), message("Bye."), ids=".+"
    ) as server:
        session = await open_session(log, model_at(server), workspace, policy)
        await run(session, "what does a.txt say?")
        await session.close(end=False)
        again = await open_session(log, model_at(server), workspace, policy)
        await run(again, "thanks")
        await again.close(end=False)
        before, after = server.requests[1]["messages"], server.requests[2]["messages"]
        assert json.dumps(after[: len(before)]) == json.dumps(before)
    async with ScriptedServer(message("Hello.")) as other:
        third = await open_session(log, model_at(other), workspace, policy)
        await run(third, "and you?")
        sent = other.requests[0]["messages"][2]
    assert sent.keys() == {"role", "content", "tool_calls"}
    assert sent["tool_calls"][0].keys() == {"id", "type", "function"}
    assert sent["tool_calls"][0]["function"] == FUNCTION
    assert len(sent["tool_calls"][0]["id"]) == 9
    assert sent["content"] is None or isinstance(sent["content"], str)


async def test_a_secret_in_a_field_of_the_endpoint_s_own_is_masked_before_it_is_written(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    (folder / "a.txt").write_text("cat")
    said = calling(note={"deep": [f"key {SECRET}"]}, call={"extra": SECRET}, reasoning=f"it is {SECRET}")
    log = MemoryLog()
    async with ScriptedServer(
        message(None, finish="tool_calls", **{key: said[key] for key in ("note", "tool_calls", "reasoning")}),
        message("It says cat."),
    ) as server:
        session = await open_session(log, model_at(server), workspace, policy)
        await run(session, "what does a.txt say?")
        back = json.dumps(server.requests[1]["messages"][2])
    assert SECRET not in "".join(str(event) for event in await log.read("s"))
    assert SECRET not in back
    assert back.count("[masked ") == 3


async def test_an_export_without_content_holds_nothing_that_only_the_endpoint_understands(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    (folder / "a.txt").write_text("cat")
    said = calling(id="D681PevKs", call={"extra_content": {"signature": "onlyforgoogle"}})
    log = MemoryLog()
    async with ScriptedServer(
        message(None, finish="tool_calls", tool_calls=said["tool_calls"]), message("It says cat.")
    ) as server:
        session = await open_session(log, model_at(server), workspace, policy)
        await run(session, "what does a.txt say?")
    events = await log.read("s")
    assert "onlyforgoogle" in str(events)
    assert "onlyforgoogle" not in str(build_document(fold_trajectory(events), content=False))
    remove = TextRemover()
    assert "onlyforgoogle" not in str([remove(event) for event in events])


@pytest.mark.parametrize("depth", [150, 500, 900])
@pytest.mark.parametrize("where", ["message", "call", "content"])
async def test_a_field_nested_too_deep_is_left_out_and_that_is_noted(where: str, depth: int) -> None:
    deep = json.loads("[" * depth + "]" * depth)
    said = {
        "message": delta("stop", content="ok", own=deep),
        "call": delta("tool_calls", content="ok", tool_calls=[{"index": 0, "function": FUNCTION, "own": deep}]),
        "content": delta("stop", content=[{"type": "text", "text": "ok", "own": deep}]),
    }[where]
    async with ScriptedServer(Stream([said])) as server:
        response = await model_at(server, stream=True).respond(HELLO)
    assert response.text == "ok"
    assert any("nested too deep" in note for note in response.notes)
    assert response.wire is not None
    assert "[[[" not in response.wire.fields + "".join(response.wire.calls)


async def test_fields_that_only_the_endpoint_understands_are_bounded_with_the_words() -> None:
    async with ScriptedServer(Stream([delta(own=["x" * 99] * 20), delta("stop")])) as server:
        with pytest.raises(ModelError, match="more than 1000 characters of text"):
            await model_at(server, stream=True, limit=1000).respond(HELLO)


@pytest.mark.parametrize("dialect", ["native", "auto"])
async def test_a_call_that_was_read_from_the_words_goes_back_as_a_call_and_not_as_words_once_more(
    folder: Path, workspace: Workspace, policy: Policy, dialect: str
) -> None:
    (folder / "a.txt").write_text("cat")
    call = json.dumps({"name": "read_file", "arguments": {"path": "a.txt"}})
    written = f"<think>First the file.</think>I look.<tool_call>{call}</tool_call>"
    async with ScriptedServer(message(written, note="kept"), message("It says cat.")) as server:
        model = build_dialect_model(model_at(server), dialect)
        session = await open_session(MemoryLog(), model, workspace, policy)
        assert (await run(session, "what does a.txt say?")).status == "completed"
    back = server.requests[1]["messages"][2]
    assert len(back["tool_calls"]) == 1
    assert "tool_call>" not in (back["content"] or "")
    assert back["note"] == "kept"
