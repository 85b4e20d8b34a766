"""Calls that run at the same time: how many, which never, and in which order they are answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foregate.agent.loop.dispatch import has_overlap, run_together
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.session import Session
from foregate.schemas.tool_call import SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from tests.agent.blocks import Blocks
from tests.agent.loop.test_order import open_policy
from tests.agent.loop.test_stages import act, answers, blocks, both


async def at_once(*wanted: Any, limit: int = 3) -> Blocks:
    """Return the world in which a parallel block of calls has run."""
    world = Blocks(policy=open_policy(limit))
    session = await world.open([blocks(both(*range(len(wanted))), *wanted), says("ok")])
    await run(session, "go")
    return world


async def test_changes_of_a_parallel_block_run_at_the_same_time_as_far_as_the_limit_goes() -> None:
    wanted = [act(place, key) for place, key in enumerate("abcd")]
    for limit in (1, 3):
        assert (await at_once(*wanted, limit=limit)).most == limit


async def test_of_changes_of_one_resource_the_first_named_is_over_before_the_next_begins() -> None:
    world = await at_once(act(2, "k"), act(1, "k"), act(0, "l"))
    order = [place for place, begins in world.events if begins]
    assert (order.index(2) < order.index(1), world.collisions, world.most) == (True, [], 2)


async def test_a_change_in_a_folder_waits_for_a_look_at_the_folder() -> None:
    def at(kind: ResourceKind, path: str, access: Effect) -> SurveyedResource:
        return SurveyedResource(kind, path, access)

    file, folder = ResourceKind.FILE, ResourceKind.DIRECTORY
    edit = at(file, "src/a.py", Effect.EDIT)
    assert has_overlap(edit, at(folder, "src", Effect.OBSERVATION))
    assert has_overlap(at(ResourceKind.REPOSITORY, ".", Effect.COMMIT), edit)
    assert not has_overlap(edit, at(folder, "srcs", Effect.OBSERVATION))
    assert not has_overlap(edit, at(file, "src/a", Effect.EDIT))
    assert not has_overlap(at(file, "src/a.py", Effect.OBSERVATION), at(folder, "src", Effect.OBSERVATION))


async def test_what_may_touch_anything_runs_beside_nothing() -> None:
    world = Blocks(policy=open_policy(4), effect=Effect.UNKNOWN)
    session = await world.open([blocks(both(0, 1, 2), act(0, "k"), act(1, "l"), act(2, "m")), says("ok")], ["yes"])
    await run(session, "go")
    assert (world.most, len(world.given)) == (1, 3)


async def test_answers_stand_in_the_order_of_the_calls_whichever_ended_first() -> None:
    world = Blocks(policy=open_policy(4))
    wanted = [("look", {"place": str(place), "key": "k", "way": "fine", "text": ""}) for place in (2, 1, 0)]
    session: Session = await world.open([calls(*wanted), says("ok")])
    await run(session, "go")
    assert [call for call, _ in await answers(world)] != ["1", "2", "3"]
    told = [message.call.partition(".")[2] for message in session.state.messages if message.role == "tool"]
    assert told == ["1", "2", "3"]


async def test_where_one_of_several_raises_the_others_are_over_before_it_is_raised() -> None:
    over = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            over.append("cancelled")

    async def raises() -> None:
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        await run_together([waits(), raises()])
    assert over == ["cancelled"]
