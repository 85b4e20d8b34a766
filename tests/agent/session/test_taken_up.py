"""Calls an earlier process allowed and never started: carried out while their leave stands, never twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event import Draft, Event, NeedRaised
from foregate.schemas.event_body import CallAnswered, Checkpoint, OutcomeUnknown, PolicyChanged, ToolStarted
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.corpus import ASK_EDITS, EDIT, PLAN, READ, REQUEST, SEND, TALK, YES, rules
from tests.agent.session.test_cancel_and_recover import Killed, at, hanging
from tests.agent.world import World
from tests.events import B
from tests.policies import policy_with

NOTE, NOTE_L = ("note", {"key": "k"}), ("note", {"key": "l"})
WORDS = "fix the typo in a.txt, note k and l"


async def killed(world: World, kind: str, number: int, *steps: Any, person: list[Any] | None = None) -> None:
    """Run one message until the process ends right after the n-th event of a kind."""
    session = await world.open(list(steps), person, listeners=[at(kind, number)])
    with pytest.raises(Killed):
        await run(session, WORDS)
    await world.kill(session)


async def approved() -> World:
    """Return a world in which a person said yes to an edit, and the process ended before it was started."""
    world = World(policy=rules(ASK_EDITS, **{"approval.expires": 60}))
    await killed(world, "turn_judged", 2, calls(READ, text=TALK), calls(EDIT), person=["yes"])
    assert (await world.kinds())[-1] == "turn_judged"
    return world


async def verified(world: World, kind: type[B]) -> list[B]:
    """Return what the session's events of a kind say; fails when the log does not verify."""
    assert verify_rows(world.log.lines("s"), "s").ok
    return await world.bodies(kind)


async def refused(world: World) -> list[tuple[str, str]]:
    """Return tool and code of the calls that were answered as not run."""
    return [(body.tool, body.code) for body in await verified(world, CallAnswered)]


@pytest.mark.parametrize("person", [None, []])
async def test_a_yes_given_before_the_process_ended_is_carried_out_unasked_by_the_next(person: Any) -> None:
    world = await approved()
    session = await world.open([says("fixed")], person, resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"
    assert (len(await verified(world, NeedRaised)), await refused(world)) == (1, [])
    judged = [event.seq for event in await world.log.read("s") if event.kind == "turn_judged"]
    assert (await verified(world, ToolStarted))[-1].permit.judged == judged[-1]


async def test_what_a_plan_covers_is_used_up_by_the_process_that_carries_it_out() -> None:
    world = World()
    session = await world.open([calls(SEND, text=TALK), PLAN, YES], ["yes"], listeners=[at("turn_judged")])
    with pytest.raises(Killed):
        await run(session, REQUEST)
    await world.kill(session)
    used: list[int] = []

    def look(event: Event) -> None:
        task = again.state.task
        if event.kind == "tool_started" and task is not None and task.plan is not None:
            used.append(task.plan.items[0].used)

    again = await world.open([says("sent")], [], resume=True)
    again.subscribe(look)
    await run_to_outcome(again)
    assert (used, world.sent) == ([1], ["bob@example.org"])


def moved(world: World) -> None:
    world.workspace.files["a.txt"] = b"teh dog"


def too_late(world: World) -> None:
    world.clock.seconds += 61


def other_policy(world: World) -> None:
    world.policy = rules(ASK_EDITS, **{"approval.expires": 3600})


def fewer_tools(world: World) -> None:
    tools = world.tools()
    world.tools = lambda: tools[:2]  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("meanwhile", "code"),
    [
        (moved, "stale_evidence"),
        (too_late, "not_run_cancelled"),
        (other_policy, "not_run_cancelled"),
        (fewer_tools, "not_run_cancelled"),
    ],
)
async def test_a_yes_counts_no_more_when_what_it_was_given_for_or_under_has_changed(
    meanwhile: Callable[[World], None], code: str
) -> None:
    world = await approved()
    before = len(world.effects)
    meanwhile(world)
    session = await world.open([says("ok")], [], resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert (await refused(world), len(world.effects)) == ([("edit_file", code)], before)


@pytest.mark.parametrize(
    "draft",
    [
        Draft(PolicyChanged(auto=True), "person"),
        Draft(PolicyChanged(dry_run=True), "person"),
        Draft(Checkpoint(undo="c1.1", steps=()), "foregate"),
    ],
)
async def test_a_switch_or_an_undo_in_between_ends_the_leave(draft: Draft) -> None:
    world = await approved()
    session = await world.open([says("ok")], [], resume=True)
    await session.record(draft)
    await run_to_outcome(session)
    assert await refused(world) == [("edit_file", "not_run_cancelled")]


async def test_a_message_in_between_ends_the_leave() -> None:
    world = await approved()
    session = await world.open([says("hello")], [], resume=True)
    assert (await run(session, "say hello instead")).text == "hello"
    assert await refused(world) == [("edit_file", "not_run_cancelled")]


async def test_the_answer_to_a_childs_question_is_a_message_too() -> None:
    world = World(policy=policy_with({"uncertainty.threshold": 300}))
    zebra, delegate = ("note", {"key": "zebra"}), ("delegate", {"task": "note it"})
    below = calls(zebra, text="I will note it for you.")
    session = await world.open([calls(delegate, NOTE, text=TALK), below], [])
    assert (await run(session, "do it for k")).status == "needs_input"
    await world.kill(session)
    again = await world.open([calls(zebra), says("noted"), says("all done")], [], resume=True)
    assert (await run(again, "yes, the zebra")).text.startswith("all done")
    assert await refused(world) == [("note", "not_run_cancelled")]


async def test_every_call_of_a_response_is_carried_out_once_wherever_the_process_ends() -> None:
    for kind, number, codes in (
        ("turn_judged", 1, []),
        ("tool_finished", 1, []),
        ("tool_started", 1, [("note", "not_run_after_change_not_made")]),
        ("tool_started", 2, []),
    ):
        world = World()
        await killed(world, kind, number, calls(NOTE, NOTE_L, text=TALK))
        session = await world.open([says("ok")], resume=True)
        await run_to_outcome(session)
        assert await refused(world) == codes
        unknown = len(await verified(world, OutcomeUnknown))
        assert len(world.effects) == len(set(world.effects)) == 2 - len(codes) - unknown


async def test_a_call_the_person_cancelled_is_not_carried_out_by_the_next_process() -> None:
    world, reached = World(), asyncio.Event()
    session = await world.open([calls(READ, NOTE, text=TALK)], listeners=[at("tool_finished")])
    session.tools = hanging(world, "read_file", reached)
    task = asyncio.create_task(run(session, WORDS))
    await reached.wait()
    task.cancel()
    with pytest.raises(Killed):
        await task
    await world.kill(session)
    await run_to_outcome(await world.open([says("ok")], resume=True))
    assert (await refused(world), world.effects) == ([("note", "not_run_cancelled")], [])


async def test_a_cancel_that_was_half_written_is_finished_by_the_next_process() -> None:
    world = World()
    task: asyncio.Task[Any] | None = None

    def stop(event: Event) -> None:
        if event.kind == "turn_judged":
            assert task is not None
            task.cancel()

    listeners = [stop, at("call_answered")]
    session = await world.open([calls(READ, NOTE, text=TALK)], listeners=listeners)
    task = asyncio.create_task(run(session, WORDS))
    with pytest.raises(Killed):
        await task
    await world.kill(session)
    await run_to_outcome(await world.open([says("ok")], resume=True))
    assert await refused(world) == [("read_file", "not_run_cancelled"), ("note", "not_run_cancelled")]
    assert world.effects == []


async def test_a_look_that_was_under_way_and_cannot_be_taken_again_is_answered_and_the_rest_goes_on() -> None:
    world = World()
    await killed(world, "tool_started", 1, calls(READ, NOTE, text=TALK))

    def broken(*_: object, **__: object) -> Any:
        raise WorkspaceError("cannot look at `a.txt`: the disk is gone")

    world.workspace.look = broken  # type: ignore[method-assign]
    session = await world.open([says("ok")], resume=True)
    await run_to_outcome(session)
    assert await refused(world) == [("read_file", "not_run_cancelled")]
    assert (len(world.effects), session.state.in_flight) == (1, {})
