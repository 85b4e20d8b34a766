"""A process that ends anywhere between a message and its planned, confirmed, answered change."""

from __future__ import annotations

from typing import Any

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import ScriptedModel, calls
from foregate.schemas.event import Event
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.tool_call import ToolCall
from tests.agent.planning.test_mode import ANSWER, ASKED, EDIT, PLAN, READ, TALK, opened
from tests.agent.world import World


class Killed(BaseException):
    """The process is gone."""


class Sure:
    """A person who says yes to whatever is asked."""

    async def answer(self, need: Need) -> Reply | None:
        return Reply("yes")


def model() -> ScriptedModel:
    """Return a model that wants the edit, plans it and answers; what it says depends on what it is asked for only."""

    def step(request: Any) -> Any:
        said = {"task_plan": PLAN, "plan_results": ANSWER}
        return said.get(request.purpose) or calls(READ, EDIT, text=TALK)

    return ScriptedModel([step] * 40)


async def killed_at(place: int) -> tuple[World, bool]:
    """Return a world in which the process ended after this event, and whether there was such an event."""
    world = World()

    def die(event: Event) -> None:
        if event.seq == place:
            raise Killed

    session = await opened(world, model(), Sure())
    session.subscribe(die)
    try:
        await run(session, ASKED)
    except Killed:
        await world.kill(session)
        return world, True
    return world, False


async def test_wherever_the_process_ends_the_next_one_goes_on_and_the_change_is_made_once() -> None:
    place, ends = 3, []
    while True:
        place += 1
        world, was_killed = await killed_at(place)
        if not was_killed:
            break
        session = await opened(world, model(), Sure(), resume=True)
        if session.state.task is not None and not session.state.task.messages:
            await session.record_message(ASKED)
        if session.state.task is not None:
            outcome = await run_to_outcome(session)
            assert not outcome.is_paused, (place, outcome)
            ends.append(outcome.status)
        made = world.effects.count(ToolCall.of(*EDIT).digest)
        assert "outcome_unknown" not in await world.kinds()
        assert made == 1, place
    assert place > 20
    assert set(ends) == {"completed"}
