"""The plans of a session, told apart."""

from __future__ import annotations

from foregate.agent.loop.undo import undo
from foregate.agent.planning.control import (
    end_declined,
    follow_plan,
    get_plan_state,
    preview_open_tasks,
    record_confirmation,
    roll_back_plans,
)
from foregate.agent.planning.planner import record_proposal
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanEntry, PlanState, read_plans
from foregate.schemas.task_plan import TaskPlan
from tests.agent.planning.plans import CONFIGURATION, PlanRun, call, edit, plan, task
from tests.agent.world import World

READ, FIX = task(1, call("read_file", path="a.txt")), edit("a.txt", "teh", "the")


async def proposed(session: Session, wanted: TaskPlan, *, run: bool) -> PlanState:
    """Propose a plan, and confirm and run it or decline it."""
    state = await get_plan_state(session)
    with session.subscribe(state.apply):
        await record_proposal(session, wanted, CONFIGURATION)
        looked = await preview_open_tasks(session, state)
        if run:
            await record_confirmation(session, state, looked, wanted.digest, seen=True)
            await PlanRun(session, state, CONFIGURATION).run()
        else:
            await end_declined(session)
    return state


async def told(session: Session) -> list[PlanEntry]:
    """Return the plans of a session from its log."""
    return read_plans(await session.log.read())


async def test_each_plan_keeps_its_own_tasks_results_and_name() -> None:
    session = await World().open([])
    await proposed(session, plan(READ, task(2, FIX, after=(1,))), run=True)
    await proposed(session, plan(READ), run=False)
    await proposed(session, plan(READ), run=True)
    found = await told(session)
    assert [(entry.name, entry.standing, entry.count_tasks("done")) for entry in found] == [
        ("s/1", "completed", 2),
        ("s/2", "not confirmed", 0),
        ("s", "completed", 1),
    ]
    assert found[0].state.steps[1].result.responses[0].data == "teh cat"
    assert found[2].state.steps[1].result.responses[0].data == "the cat"


async def test_what_is_undone_later_is_told_to_the_plan_that_did_it() -> None:
    session = await World().open([])
    await proposed(session, plan(READ, task(2, FIX, after=(1,))), run=True)
    await proposed(session, plan(READ), run=False)
    assert (await undo(session)).done
    first, second = await told(session)
    assert [call.status for call in first.state.steps[2].calls] == ["undone"]
    assert second.state.steps[1].calls == []


async def test_a_plan_that_was_taken_back_says_so() -> None:
    session = await World().open([])
    await proposed(session, plan(READ, task(2, FIX, after=(1,))), run=True)
    await roll_back_plans(session, await follow_plan(session))
    assert [entry.standing for entry in await told(session)] == ["rolled back"]


async def test_a_plan_that_waits_says_for_what_until_it_goes_on() -> None:
    session = await World().open([])
    state = await follow_plan(session)
    await record_proposal(session, plan(READ), CONFIGURATION)
    looked = await preview_open_tasks(session, state)
    await record_confirmation(session, state, looked, state.digest, seen=True)
    assert [entry.standing for entry in await told(session)] == ["under way"]
    run = PlanRun(session, state, CONFIGURATION)
    run.pause()
    await run.run()
    assert [entry.standing for entry in await told(session)] == ["paused"]
    await run.run()
    assert [entry.standing for entry in await told(session)] == ["completed"]


async def test_a_plan_under_way_that_another_takes_the_place_of_is_replaced() -> None:
    session = await World().open([])
    state = await follow_plan(session)
    await record_proposal(session, plan(READ), CONFIGURATION)
    looked = await preview_open_tasks(session, state)
    await record_confirmation(session, state, looked, state.digest, seen=True)
    await record_proposal(session, plan(READ), CONFIGURATION)
    assert [entry.standing for entry in await told(session)] == ["replaced", "not confirmed"]
