"""When a look that was taken early answers a call, when it must not, and what goes wrong beside it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.agent.tools.tool import Tool
from foregate.schemas.errors import LogError, ModelError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.judgement import Need, Standing
from foregate.schemas.model_response import Block, Follower
from foregate.schemas.protocols import Lease, Reply
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, ResourceKind, TargetParameter, ToolSpec
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.loop.test_prefetch import Meddling, early, looks, shown
from tests.agent.loop.test_stages import ASKS, NOTE, READ, TALK
from tests.agent.world import World
from tests.policies import policy_with

PEEK = ("peek", {"key": "k"})


class Peeking(World):
    """A world with a look at something no survey can see: the notes that were kept."""

    def tools(self) -> list[Tool]:
        """Return the tools of the world, and `peek`."""

        async def peek(arguments: Mapping[str, Any]) -> ToolResult:
            noted = self.effects.count(ToolCall.of(*NOTE).digest)
            return ToolResult(True, f"{noted} notes")

        schema: dict[str, Json] = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
        targets = (TargetParameter("key", ResourceKind.OTHER, Effect.OBSERVATION),)
        spec = ToolSpec("peek", "See what is noted.", schema, Effect.OBSERVATION, OBSERVER, targets, "builtin")
        return [*super().tools(), self.spied(Tool(spec, peek))]


@pytest.mark.parametrize("on", [False, True])
async def test_what_a_look_showed_at_great_length_is_cut_once(on: bool) -> None:
    world = World()

    async def long(arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(True, "teh " * 500_000)

    tools = [dataclasses.replace(tool, run=long) for tool in world.tools()]
    world.tools = lambda: tools  # type: ignore[method-assign]
    await early(world, [calls(READ, text=TALK), says("ok")], on=on)
    (body,) = await shown(world)
    head, tail = body.content.split(f"\n[... {body.dropped} bytes left out ...]\n")
    assert len(head) + len(tail) + body.dropped == 2_000_000


async def test_blanks_are_no_words_to_a_look_as_they_are_none_to_its_response() -> None:
    world = World(policy=policy_with({"narration.scope": "first_response"}))
    await early(world, [calls(READ, text=" \n" * 200), calls(READ, text=f"  {TALK}"), says("ok")])
    standings = [body.judgement.verdicts[0].standing for body in await looks(world, TurnJudged)]
    assert standings == [Standing.HOLD, Standing.ALLOW]


async def test_a_log_that_fails_under_a_look_is_told_though_the_response_fails_too() -> None:
    world, failed = World(), asyncio.Event()

    def full(event: Event) -> None:
        if event.kind == "tool_finished":
            failed.set()
            raise LogError("the disk is full")

    async def breaks(_: Follower) -> None:
        await failed.wait()
        raise ModelError("nobody answers")

    session = await world.open(Meddling(calls(READ, text=TALK), breaks), listeners=[full], prefetch=True)
    with pytest.raises(LogError):
        await run(session, ASKS)


async def test_what_was_seen_for_a_response_that_failed_answers_no_call_that_comes_later() -> None:
    world, seen = World(), asyncio.Event()

    async def breaks(_: Follower) -> None:
        await seen.wait()
        raise ModelError("nobody answers")

    model = Meddling(calls(READ, text=TALK), breaks)
    session = await world.open(model, prefetch=True)
    session.subscribe(lambda event: seen.set() if event.kind == "tool_finished" else None)
    assert (await run(session, ASKS)).status == "failed"
    session.prefetch, model.responses = False, [says("ok")]
    await run(session, ASKS)
    session.model = (await World().open([calls(READ, text=TALK), says("ok")])).model
    assert (await run(session, ASKS)).status == "completed"
    assert verify_rows(world.log.lines("s"), "s").defects == ()
    assert len(world.effects) == 2


@pytest.mark.parametrize("on", [False, True])
async def test_a_look_shows_what_a_child_task_before_it_did_though_it_was_taken_before(on: bool) -> None:
    world = Peeking()
    first = replace(calls(PEEK, ("delegate", {"task": "note k"}), text=TALK), order=Block("parallel", (0,)))
    model = [first, calls(NOTE, text=TALK), says("noted"), says("ok")]
    await early(world, model, ["yes"] * 3, on=on)
    assert [body.content for body in await shown(world) if body.tool == "peek"] == ["1 notes"]


async def test_a_call_a_process_died_in_that_was_answered_from_a_look_is_looked_at_again() -> None:
    class Killed(BaseException):
        pass

    def kill(event: Event) -> None:
        if isinstance(event.body, ToolStarted) and event.body.look is not None:
            raise Killed

    world = World()
    session = await world.open([calls(READ, text=TALK)], listeners=[kill], prefetch=True)
    with pytest.raises(Killed):
        await run(session, ASKS)
    await world.kill(session)
    world.workspace.files["a.txt"] = b"the new cat"
    again = await world.open([says("ok")], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert verify_rows(world.log.lines("s"), "s").defects == ()
    assert [body.content for body in await shown(world)] == ["the new cat"]


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("targets", [{}, {"tools.peek": {"targets": {}}}])
async def test_a_look_shows_what_became_of_things_while_a_person_was_asked(on: bool, targets: dict[str, Any]) -> None:
    world = Peeking(policy=policy_with({"rules.list": [{"id": "r", "then": "ask", "tool": "note"}], **targets}))

    def slow(_: Need) -> Reply:
        world.effects.append(ToolCall.of(*NOTE).digest)
        return Reply("yes")

    await early(world, [calls(PEEK, NOTE, text=TALK), says("ok")], [slow], on=on)
    assert [body.content for body in await shown(world) if body.tool == "peek"] == ["1 notes"]


async def test_an_answer_from_a_look_waits_for_no_disk_so_that_no_cancel_parts_its_beginning_from_its_end() -> None:
    class Stuck(MemoryLog):
        async def settle(self, lease: Lease) -> None:
            body = (await self.read(lease.session))[-1].body
            assert not isinstance(body, (ToolStarted, ToolFinished)) or body.look is None

    world = World(log=Stuck())
    await early(world, [calls(READ, text=TALK), says("ok")])
    assert [body.content for body in await shown(world)] == ["teh cat"]
