"""Calls that were allowed, or never judged, and still did not run: each is answered under a code that says why."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session.session import Session
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.schemas.codes import NOT_RUN, REPEATED_HOLD
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event import Draft, NeedRaised, TurnJudged
from foregate.schemas.event_body import CallAnswered, PolicyChanged, ToolStarted
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import Block, ModelResponse
from tests.agent.world import World
from tests.policies import EVERYTHING_OFF, policy_with

TALK = "I understand, and this is what I will do now."
READ, READ_B = ("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
WRONG = ("edit_file", {"path": "a.txt", "old": "no such text", "new": "x"})
NOTE, NOTE_L = ("note", {"key": "k"}), ("note", {"key": "l"})
SEND = ("send", {"to": "bob@example.org"})


async def answered(world: World) -> list[tuple[str, str]]:
    """Return tool and code of every call that was answered without having run, in order."""
    return [(body.tool, body.code) for body in await world.bodies(CallAnswered)]


async def told(world: World, *steps: Any, says_: str = "fix a.txt, note k and l", **more: Any) -> Session:
    """Run one message through a session of the world, to the end of its script."""
    session = await world.open(list(steps), **more)
    await run(session, says_)
    assert isinstance(session.model, ScriptedModel)
    session.model.finish()
    return session


async def after_change_not_made(world: World) -> None:
    await told(world, calls(READ, text=TALK), calls(WRONG, READ_B, NOTE), says("ok"))
    assert await answered(world) == [("note", "not_run_after_change_not_made")]


async def after_failure(world: World) -> None:
    order = Block("sequential", (0, Block("parallel", (1, 2)), 3))
    await told(world, replace(calls(READ, WRONG, NOTE, READ_B, text=TALK), order=order), says("ok"))
    assert ("read_file", "not_run_after_failure") in await answered(world)


async def loop(world: World) -> None:
    world.policy = policy_with({"limits.identical_observations": 2})
    await told(world, calls(READ), calls(READ), calls(READ), says("ok"))
    assert await answered(world) == [("read_file", "not_run_loop")]


async def too_many(world: World) -> None:
    world.policy = policy_with({"limits.calls_per_response": 1})
    await told(world, calls(READ, READ_B), says("ok"))
    assert await answered(world) == [("read_file", "not_run_too_many")]


async def dry_run(world: World) -> None:
    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("ok")])
    await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    await run(session, "fix a.txt")
    assert await answered(world) == [("edit_file", "not_run_dry_run")]
    assert world.files["a.txt"] == b"teh cat"


async def cancelled(world: World) -> None:
    task: asyncio.Task[Any] | None = None

    def stop(event: Any) -> None:
        if event.kind == "turn_judged":
            assert task is not None
            stop_task(task)

    session = await world.open([calls(NOTE, text=TALK)], listeners=[stop])
    task = asyncio.create_task(run(session, "note k"))
    assert (await task).status == "cancelled"
    assert await answered(world) == [("note", "not_run_cancelled")]


async def budget(world: World) -> None:
    world.policy = policy_with({"limits.tool_calls": 1})
    await told(world, calls(READ, READ_B))
    assert await answered(world) == [("read_file", "not_run_budget")]


async def truncated(world: World) -> None:
    await told(world, ModelResponse("", calls(READ).calls, finish_reason="length"), says("ok"))
    assert await answered(world) == [("read_file", "not_run_truncated")]


async def asked_first(world: World) -> None:
    world.policy = policy_with({"uncertainty.threshold": 300})
    await told(world, calls(SEND, NOTE, text=TALK), says_="do it for k", person=[])
    assert await answered(world) == [("send", "uncertainty_clarification"), ("note", "not_asked_now")]


async def moved_on(world: World) -> None:
    def meanwhile(event: Any) -> None:
        if isinstance(event.body, TurnJudged) and event.body.turn.turn == 2:
            world.workspace.files["a.txt"] = b"teh dog"

    await told(world, calls(READ, text=TALK), calls(EDIT), says("ok"), listeners=[meanwhile])
    assert await answered(world) == [("edit_file", "stale_evidence")]


async def not_even_started(world: World) -> None:
    world.policy = policy_with(EVERYTHING_OFF)
    session = await world.open([calls(EDIT), says("ok")])

    def broken(event: Any) -> None:
        if event.kind == "turn_judged":
            world.workspace.read = refuse  # type: ignore[method-assign]

    def refuse(*_: object, **__: object) -> bytes:
        raise WorkspaceError("the copy could not be made")

    session.subscribe(broken)
    await run(session, "fix a.txt")
    assert await answered(world) == [("edit_file", "tool_failed")]


CASES = {
    "not_run_after_change_not_made": after_change_not_made,
    "not_run_after_failure": after_failure,
    "not_run_loop": loop,
    "not_run_too_many": too_many,
    "not_run_dry_run": dry_run,
    "not_run_cancelled": cancelled,
    "not_run_budget": budget,
    "not_run_truncated": truncated,
    "not_asked_now": asked_first,
    "stale_evidence": moved_on,
    "tool_failed": not_even_started,
}


def test_every_code_of_a_call_that_did_not_run_has_its_case() -> None:
    assert tuple(CASES) == NOT_RUN


@pytest.mark.parametrize("code", NOT_RUN)
async def test_a_call_that_does_not_run_is_answered_with_its_code_and_leaves_no_effect(code: str) -> None:
    world = World()
    await CASES[code](world)
    ran = {body.call for body in await world.bodies(ToolStarted)}
    given = next(body for body in await world.bodies(CallAnswered) if body.code == code)
    assert given.call not in ran
    assert given.message


async def test_none_of_the_codes_is_given_where_everything_runs() -> None:
    world = World()
    session = await told(world, calls(READ, READ_B, text=TALK), calls(EDIT, NOTE), says("ok"))
    assert await answered(world) == []
    assert len(world.effects) == 4
    replies = [json.loads(message.text) for message in session.state.messages if message.role == "tool"]
    assert all(reply["ok"] for reply in replies)


async def test_a_change_that_did_something_new_lets_an_identical_observation_run_again() -> None:
    world = World(policy=policy_with({"limits.identical_observations": 2}))
    await told(world, calls(READ), calls(READ, text=TALK), calls(EDIT), calls(READ), says("ok"))
    assert await answered(world) == []


async def test_an_identical_change_without_anything_new_between_runs_as_often_as_the_policy_says() -> None:
    world = World(policy=policy_with({**EVERYTHING_OFF, "approval.mode": "scope", "limits.identical_changes": 2}))
    wrong = [calls(WRONG) for _ in range(3)]
    await told(world, calls(READ), *wrong, says("ok"))
    assert await answered(world) == [("edit_file", "not_run_loop")]
    assert len(world.effects) == 3


async def test_a_call_held_again_asks_the_person_under_the_loops_own_code() -> None:
    world = World(policy=policy_with({"limits.malformed_calls": 2}))
    bad = ("read_file", {"path": 3})
    session = await world.open([calls(bad), calls(bad)], ["stop"])
    assert (await run(session, "go")).status == "blocked"
    raised = [body.need for body in await world.bodies(NeedRaised)]
    assert [(need.gate, need.code) for need in raised] == [("loop", REPEATED_HOLD)]


async def test_a_call_held_for_two_reasons_is_not_a_repeated_hold() -> None:
    world = World()
    other = ("read_file", {"path": 4})
    await told(world, calls(("read_file", {"path": 3})), calls(other), says("ok"), person=[])
    assert await world.bodies(NeedRaised) == []


async def test_a_tool_that_fails_has_run_and_says_so_itself() -> None:
    world = World()

    def told_of_it(request: ModelRequest) -> ModelResponse:
        answer = json.loads(request.messages[-1].text)
        assert (answer["ok"], "foregate" in answer) == (False, False)
        return says("ok")

    await told(world, calls(READ, text=TALK), calls(WRONG), told_of_it)
    assert await answered(world) == []


@pytest.mark.parametrize("begins", [True, False])
async def test_a_dry_run_that_begins_or_ends_between_the_verdict_and_the_call_lets_nothing_change(begins: bool) -> None:
    world = World()
    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("ok")])
    if not begins:
        await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    turned: list[asyncio.Future[Any]] = []

    def turn_round(event: Any) -> None:
        if isinstance(event.body, TurnJudged) and event.body.turn.turn == 2:
            turned.append(asyncio.ensure_future(session.record(Draft(PolicyChanged(dry_run=begins), "person"))))

    session.subscribe(turn_round)
    await run(session, "fix a.txt")
    await asyncio.gather(*turned)
    assert len(turned) == 1
    assert await answered(world) == [("edit_file", "not_run_dry_run")]
    assert world.files["a.txt"] == b"teh cat"


async def test_no_change_runs_after_one_that_was_refused_and_a_look_does() -> None:
    world = World()
    world.policy = policy_with({"rules.list": [{"id": "no-mail", "then": "deny", "tool": "send"}]})
    await told(world, calls(READ, text=TALK), calls(SEND, READ_B, NOTE), says("ok"))
    assert sorted(await answered(world)) == [("note", "not_run_after_change_not_made"), ("send", "denied_by_rule")]
