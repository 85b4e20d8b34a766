"""A plan of a request, and a further one, is asked about, stepped through, paused and cancelled by itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedPerson, answers, calls
from foregate.agent.planning.control import get_plan_state
from foregate.agent.planning.controller import PlanController
from foregate.agent.workspace.cancelled_work import Stopped
from tests.agent.planning.test_mode import ANSWER, ASKED, EDIT, EDIT_B, PLAN, READ, TALK, opened, planned
from tests.agent.planning.test_worked_examples import wire_task
from tests.agent.world import World

READ_BODY = json.loads(planned(wire_task(1, "Mend b.", ("read_file", {"path": "b.txt"}), EDIT_B)).text)
FURTHER = answers({"answer": "Half.", "plan": READ_BODY})


async def test_step_by_step_a_task_of_a_further_plan_is_asked_about_though_one_of_its_number_was_before() -> None:
    world, person = World(), ScriptedPerson(["step", "yes", "yes", "step", "no"])
    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN, FURTHER], person)
    assert (await run(session, ASKED)).status == "paused"
    person.finish()
    assert world.workspace.files == {"a.txt": b"the cat", "b.txt": b"teh dog"}


async def test_a_pause_asked_for_after_a_plan_has_run_stops_no_further_plan() -> None:
    world = World()

    def pause(request: Any) -> Any:
        assert session.plan_driver is not None
        session.plan_driver.pause()
        return FURTHER

    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN, pause, ANSWER], ["yes", "yes"])
    assert (await run(session, ASKED)).status == "completed"
    assert world.workspace.files["b.txt"] == b"the dog"


async def test_a_pause_asked_for_when_a_plan_is_confirmed_holds_before_its_first_task() -> None:
    world = World()
    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN], [None])
    driver = session.plan_driver
    assert isinstance(driver, PlanController)
    assert (await run(session, ASKED)).status == "awaiting_approval"
    session.subscribe(lambda event: driver.pause() and None if event.kind == "plan_confirmed" else None)
    report, _ = await driver.take_through(unseen=True)
    assert (report.status, world.workspace.files["a.txt"]) == ("paused", b"teh cat")


async def test_a_cancel_while_a_task_waits_for_the_person_ends_the_plan_and_each_of_its_tasks() -> None:
    world = World()

    def cancel(_: Any) -> Any:
        raise Stopped

    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN], ["step", "yes", cancel])
    outcome = await run(session, ASKED)
    assert (outcome.status, world.workspace.files["a.txt"]) == ("cancelled", b"teh cat")
    assert outcome.text.startswith("Plan `Mend the files`: 1 done, 1 aborted.")
    assert [step.status for step in (await get_plan_state(session)).steps.values()] == ["done", "aborted"]


async def test_a_caller_who_does_not_wait_for_the_answer_hears_of_its_cancel_and_the_plan_has_run() -> None:
    world = World()

    def cancel(_: Any) -> Any:
        work.cancel()
        raise asyncio.CancelledError  # as an endpoint that is left does

    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN, cancel], ["yes"])
    work = asyncio.ensure_future(run(session, ASKED))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (session.outcome.status, world.workspace.files["a.txt"]) == ("completed", b"the cat")
    assert "the caller did not wait for the answer" in session.outcome.text


async def test_a_caller_who_cancels_while_a_plan_runs_ends_the_plan_in_its_own_name() -> None:
    world = World()

    def cancel(_: Any) -> Any:
        work.cancel()
        raise asyncio.CancelledError

    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN], ["step", "yes", cancel])
    work = asyncio.ensure_future(run(session, ASKED))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert session.outcome.report.blocker == "the caller cancelled"
    assert [step.status for step in (await get_plan_state(session)).steps.values()] == ["done", "aborted"]
