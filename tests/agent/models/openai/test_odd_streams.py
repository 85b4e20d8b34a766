"""Each odd answer that endpoints are known to send, played over HTTP to a session whose tool counts what it does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import foregate
from foregate.agent.loop.runner import run
from foregate.agent.models.openai.retries import Retries
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from tests.agent.models.openai.odd_streams import ARGUMENTS, CALL, DONE, SHAPES, TOOL, Shape
from tests.agent.models.openai.scripted_server import ScriptedServer, Step, Stream, delta, failure, message, piece
from tests.agent.models.openai.test_model import model_at

SECRET = "sk-proj-" + "a1B2" * 10


class Counting:
    """A tool that keeps what it was called with."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def build(self) -> Tool:
        entries = self.entries

        @foregate.tool(effect="edit", external=False, reversible=True, targets={"item": "other"})
        def add_entry(item: str) -> str:
            """Add an entry to the list.

            Args:
                item: What to add.
            """
            entries.append(item)
            return "added"

        return add_entry


async def play(
    steps: Sequence[Step], workspace: Workspace, policy: Policy, **settings: Any
) -> tuple[RunResult, list[str], ScriptedServer, MemoryLog]:
    """Play answers to a session; return its end, the entries, the server and the log."""
    counting, log = Counting(), MemoryLog()
    async with ScriptedServer(*steps, ids=".+") as server:
        session = Session(
            log=log,
            lease=await log.claim("s", create=True),
            blobs=MemoryBlobs(),
            model=model_at(server, stream=True, retries=Retries(attempts=3), **settings),
            tools=Toolbox([counting.build()]),
            policy=policy,
            workspace=workspace,
        )
        await session.start()
        outcome = await run(session, "add milk to the list, and bread")
    return outcome, counting.entries, server, log


def test_the_table_holds_more_than_a_hundred_shapes_and_a_fourth_of_them_were_reported() -> None:
    assert len(SHAPES) >= 100
    assert sum(shape.source.startswith("https://") for shape in SHAPES.values()) >= 25


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_an_odd_answer_does_what_it_says_once_or_nothing(
    shape: Shape, workspace: Workspace, policy: Policy
) -> None:
    outcome, entries, server, _ = await play([shape.first, *shape.then], workspace, policy)
    assert entries == list(shape.entries)
    assert (outcome.status, shape.said in outcome.text) == (shape.status, True), outcome
    if shape.told:
        answers = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]
        assert any(shape.told in answer for answer in answers), answers


def flood(chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
    while True:
        yield chunk


@pytest.mark.parametrize(
    "chunk", [delta(content="a" * 1000), delta(reasoning_content="a" * 1000), piece(0, "a" * 1000, id="c", name=TOOL)]
)
async def test_an_endless_answer_is_left_with_one_sentence_and_runs_nothing(
    chunk: dict[str, Any], workspace: Workspace, policy: Policy
) -> None:
    endless: Any = Stream(flood(chunk))  # type: ignore[arg-type]
    outcome, entries, _, _ = await play([endless], workspace, policy, limit=100_000)
    assert (outcome.status, entries) == ("failed", [])
    assert re.fullmatch(
        r"the response holds more than 100000 characters of [a-z ]+; ask for less at once", said(outcome)
    )


def said(outcome: RunResult) -> str:
    return outcome.text or outcome.report.blocker


async def test_a_message_of_50_megabytes_is_left_with_one_sentence(workspace: Workspace, policy: Policy) -> None:
    outcome, entries, _, _ = await play([message("a" * 50_000_000)], workspace, policy)
    assert (outcome.status, entries) == ("failed", [])
    assert "ask for less at once" in said(outcome)
    assert "\n" not in said(outcome).strip()


async def test_an_id_of_ten_thousand_characters_is_one_call_whose_answer_finds_it(
    workspace: Workspace, policy: Policy
) -> None:
    long = {**CALL, "id": "x" * 10_000}
    _, entries, server, _ = await play([message(None, finish="tool_calls", tool_calls=[long]), DONE], workspace, policy)
    called, answered = server.requests[1]["messages"][-2:]
    assert entries == ["milk"]
    assert called["tool_calls"][0]["id"] == answered["tool_call_id"]


async def test_secrets_in_fields_that_nobody_knows_are_in_no_event(workspace: Workspace, policy: Policy) -> None:
    odd = {**CALL, "note": SECRET, "function": {**CALL["function"], "why": {"deep": [SECRET]}}}
    first = message(None, finish="tool_calls", tool_calls=[odd], trace={"key": SECRET})
    _, entries, _, log = await play([first, DONE], workspace, policy)
    assert entries == ["milk"]
    assert SECRET not in "".join(str(event) for event in await log.read("s"))


async def test_a_server_that_changes_its_mind_between_requests_gets_the_call_s_answer_once(
    workspace: Workspace, policy: Policy
) -> None:
    changed = [
        Stream([piece(0, ARGUMENTS, id="c1", name=TOOL), delta("tool_calls")]),
        failure(400, "stream_options is not supported", param="stream_options"),
        failure(503, "overloaded"),
        message("All is noted."),
    ]
    outcome, entries, server, _ = await play(changed, workspace, policy)
    assert (outcome.status, entries) == ("completed", ["milk"])
    answers = [[m["content"] for m in body["messages"] if m["role"] == "tool"] for body in server.requests[1:]]
    assert len(answers) == 3
    assert len({json.dumps(one) for one in answers}) == 1
