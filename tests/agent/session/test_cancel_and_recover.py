"""Cancelling a step, and going on after a process ended in the middle of one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from foregate.agent.loop.dispatch import dispatch
from foregate.agent.loop.executor import NoPermit, execute
from foregate.agent.loop.runner import judge_response, run, run_to_outcome, take_step
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.turn_builder import TurnInHand
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.schemas.errors import LogError
from foregate.schemas.event import Event
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.protocols import Lease
from foregate.schemas.tool_call import Permit, ToolResult
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.world import World

EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
READ = ("read_file", {"path": "a.txt"})
NOTE = ("note", {"key": "k"})
TALK = "I will do what you asked for now."


class Killed(BaseException):
    """Stands for the end of the process."""


def at(kind: str, number: int = 1) -> Any:
    """Return a listener that ends the process right after the n-th event of a kind."""
    seen = [0]

    def listen(event: Event) -> None:
        seen[0] += event.kind == kind
        if event.kind == kind and seen[0] == number:
            raise Killed

    return listen


def hanging(world: World, name: str, reached: asyncio.Event) -> Toolbox:
    """Return the world's tools, one of which never comes back."""

    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    return Toolbox([Tool(t.spec, run) if t.spec.name == name else t for t in world.tools()])


@pytest.mark.parametrize(("call", "kind"), [(READ, "tool_finished"), (NOTE, "outcome_unknown")])
async def test_cancelling_answers_the_running_call_and_the_session_goes_on(call: Any, kind: str) -> None:
    world = World()
    reached = asyncio.Event()
    session = await world.open([calls(call, READ, text=TALK), says("hello")])
    session.tools = hanging(world, call[0], reached)
    task = asyncio.create_task(run(session, "note k in a.txt"))
    await reached.wait()
    stop_task(task)
    outcome = await task
    assert outcome.status == "cancelled"
    kinds = await world.kinds()
    assert kind in kinds
    assert (await run(session, "hello")).text == "hello"
    answered = {message.call for message in session.state.messages if message.role == "tool"}
    assert answered == {call.id for message in session.state.messages for call in message.calls}


@pytest.mark.parametrize(
    ("last", "status", "ended"), [("tool_started", "cancelled", ["tool_finished"]), ("task_ended", "completed", [])]
)
async def test_a_cancel_while_the_log_is_being_written_leaves_nothing_open_and_no_doubt(
    last: str, status: str, ended: list[str]
) -> None:
    class Slow(MemoryLog):
        """A log that takes ever so long to write one event."""

        async def settle(self, lease: Lease) -> None:
            if (await self.read("s"))[-1].kind == last and not task.cancelling():
                reached.set()
                await asyncio.Event().wait()

    world, reached = World(log=Slow()), asyncio.Event()
    session = await world.open([calls(NOTE, text=TALK), says("ok")] if ended else [says("ok")])
    task, waiting = asyncio.create_task(run(session, "note k")), asyncio.create_task(reached.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    stop_task(task)
    assert waiting.cancel() is False, "it was never waited for the log to be written"
    assert (await task).status == status
    assert world.effects == []
    assert verify_rows(world.log.lines("s"), "s").defects == ()
    assert (await world.kinds())[-2:] == [*(ended or ["model_response"]), "task_ended"]
    assert session.state.parked == {}


@pytest.mark.parametrize("kind", ["user_message", "model_response", "turn_judged", "tool_started", "tool_finished"])
async def test_a_process_that_ends_after_any_event_leaves_a_log_that_goes_on_and_no_effect_runs_twice(
    kind: str,
) -> None:
    world = World()
    session = await world.open([calls(NOTE, text=TALK), says("done")], listeners=[at(kind)])
    with pytest.raises(Killed):
        await run(session, "note k")
    await world.kill(session)
    rest = [calls(NOTE, text=TALK), says("done")] if kind == "user_message" else [says("done")]
    again = await world.open(rest, resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert len(world.effects) <= 1
    if kind == "tool_started":
        assert "outcome_unknown" in again.state.messages[-2].text
        assert world.effects == []
    else:
        assert len(world.effects) == 1


async def test_a_log_whose_task_ended_while_a_call_ran_is_refused_before_anything_is_written() -> None:
    world = World()
    session = await world.open([calls(NOTE, text=TALK)], listeners=[at("tool_started")])
    with pytest.raises(Killed):
        await run(session, "note k")
    await session.end_task("completed", "done")
    await world.kill(session)
    kinds = await world.kinds()
    with pytest.raises(LogError, match=r"`c\d+\.1` runs in no task; `foregate audit verify` tells"):
        await world.open([], resume=True)
    assert await world.kinds() == kinds


async def test_an_observation_under_way_when_the_process_ended_is_simply_taken_again() -> None:
    world = World()
    session = await world.open([calls(READ)], listeners=[at("tool_started")])
    with pytest.raises(Killed):
        await run(session, "read a.txt")
    await world.kill(session)
    again = await world.open([says("it says teh cat")], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert json.loads(again.state.messages[-2].text)["output"] == "teh cat"


async def test_the_executor_has_no_entrance_but_an_unused_permit_for_exactly_this_call() -> None:
    world = World()
    session = await world.open([calls(READ)])
    await session.record_message("read a.txt")
    assert await take_step(session) is None
    open_turn = session.state.open
    assert open_turn is not None
    in_hand = await judge_response(session, open_turn)
    assert isinstance(in_hand, TurnInHand)
    assert await dispatch(session, open_turn, in_hand) is None
    (facts,) = in_hand.facts.values()
    used = (await world.bodies(ToolStarted))[0].permit
    assert used.digest == facts.call.digest
    for permit in (used, Permit(facts.call.id, facts.call.digest, 999, ""), Permit("x", "y", 0, "")):
        with pytest.raises(NoPermit):
            await execute(session, permit, facts)
    assert len(world.effects) == 1
