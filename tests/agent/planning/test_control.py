"""Confirming, resuming, retrying and rolling back: all of it follows from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Literal, TypeVar

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import integers, sampled_from

from foregate.agent.loop.reconcile import list_open_calls, record_outcome
from foregate.agent.loop.runner import run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.agent.planning.control import (
    follow_plan,
    preview_open_tasks,
    record_confirmation,
    reset_failed_tasks,
    roll_back_plans,
)
from foregate.agent.planning.planner import record_proposal
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.task_plan import PlanProposed, TaskPlan
from tests.agent.planning.deadly import Deadly, Died
from tests.agent.planning.plans import CONFIGURATION, PlanRun, call, confirmed, edit, plan, statuses, task
from tests.agent.world import World

T = TypeVar("T")


async def gone_on(world: World, session: Session, *, seen: bool = True) -> PlanRun:
    """Return the run of a plan in this session, confirmed again where its run had ended."""
    state = await follow_plan(session)
    if not state.running:
        looked = await preview_open_tasks(session, state)
        await record_confirmation(session, state, looked, state.digest, seen=seen)
    return PlanRun(session, state, CONFIGURATION)


async def test_a_plan_that_is_not_confirmed_runs_nothing() -> None:
    world = World()
    session = await world.open([])
    state = await follow_plan(session)
    await record_proposal(session, plan(task(1, edit("a.txt", "teh", "the"))), CONFIGURATION)
    await preview_open_tasks(session, state)
    assert (world.effects, state.confirmed) == ([], False)


async def test_a_confirmation_is_bound_to_the_plan_that_was_shown() -> None:
    world = World()
    session = await world.open([])
    state = await follow_plan(session)
    await record_proposal(session, plan(task(1, edit("a.txt", "teh", "the"))), CONFIGURATION)
    looked = await preview_open_tasks(session, state)
    other = plan(task(1, edit("a.txt", "teh", "xxx")))
    with pytest.raises(UsageError, match="not the one that was shown"):
        await record_confirmation(session, state, looked, other.digest, seen=True)


async def test_a_plan_that_is_not_what_its_digest_says_is_not_run() -> None:
    world = World()
    session = await world.open([])
    state = await follow_plan(session)
    body = PlanProposed(proposal=plan(task(1, call("send", to="ann"))), digest="0" * 64)
    await session.record(Draft(body, "planner"))
    with pytest.raises(UsageError, match="digest"):
        await preview_open_tasks(session, state)


async def test_a_resumed_plan_goes_on_where_it_was_killed() -> None:
    world = World()
    wanted = plan(task(1, call("note", key="one")), task(2, call("note", key="two")), task(3, call("note", key="six")))
    session = await world.open([])
    run = await confirmed(session, wanted)
    while len(world.effects) < 2:
        await run.advance()
    await world.kill(session)
    run = await gone_on(world, await world.open([], resume=True))
    report = await run.run()
    assert statuses(report) == ["done"] * 3
    assert len(world.effects) == len(set(world.effects)) == 3


async def test_a_retry_does_again_only_what_was_not_done() -> None:
    world = World()
    session = await world.open([])
    wanted = plan(task(1, call("note", key="one"), edit("a.txt", "dog", "the")), task(2, call("note", key="two")))
    report = await (await confirmed(session, wanted)).run()
    assert statuses(report) == ["failed", "done"]
    world.workspace.files["a.txt"] = b"dog cat"
    state = await follow_plan(session)
    await reset_failed_tasks(session, state)
    report = await (await gone_on(world, session)).run()
    assert statuses(report) == ["done", "done"]
    assert len(world.effects) == len(set(world.effects)) + 2  # the edit that failed, and the second look at its file


async def test_rolling_back_restores_files_and_says_what_stays() -> None:
    world = World()
    session = await world.open([])
    wanted = plan(task(1, edit("a.txt", "teh", "the")), task(2, call("send", to="ann")))
    assert (await (await confirmed(session, wanted)).run()).status == "completed"
    state = await follow_plan(session)
    left = await roll_back_plans(session, state)
    assert world.workspace.files["a.txt"] == b"teh cat"
    assert (len(left), "send ann" in left[0]) == (1, True)
    assert statuses(state) == ["aborted", "done"]


async def test_what_a_rollback_could_not_undo_is_not_done_again() -> None:
    world = World()
    session = await world.open([])
    wanted = plan(task(1, edit("a.txt", "teh", "the")), task(2, call("send", to="ann")))
    await (await confirmed(session, wanted)).run()
    state = await follow_plan(session)
    await roll_back_plans(session, state)
    await reset_failed_tasks(session, state)
    await (await gone_on(world, session)).run()
    assert (world.sent, world.workspace.files["a.txt"]) == (["ann"], b"the cat")


async def test_of_a_task_rolled_back_in_part_only_that_part_is_done_again() -> None:
    world = World()
    session = await world.open([])
    await (await confirmed(session, plan(task(1, edit("a.txt", "teh", "the"), call("send", to="ann"))))).run()
    state = await follow_plan(session)
    assert len(await roll_back_plans(session, state)) == 1
    assert statuses(state) == ["aborted"]
    await reset_failed_tasks(session, state)
    report = await (await gone_on(world, session)).run()
    assert (report.status, world.sent, world.workspace.files["a.txt"]) == ("completed", ["ann"], b"the cat")


class Filler:
    """A model that fills a task in with a note, and says that nothing is left where it is told why that will not do."""

    name = "filler"

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        again = '"why"' in request.messages[-1].text
        return says("Nothing is left to do.") if again else calls(("note", {"key": "fill"}))


class AnyOrder(RuleBasedStateMachine):
    """Runs, pauses, kills, resumes, retries and rolls back a plan in any order, some of its calls failing at first.

    It dies between two steps and in a call, before its effect or after it; what came of that is then said as it was.
    """

    PLAN: TaskPlan = plan(
        task(1, call("note", key="one")),
        task(2, edit("a.txt", "teh", "the"), call("send", to="ann"), after=(1,)),
        task(3, edit("b.txt", "cat", "dog"), call("note", key="two")),
        task(4, call("send", to="bob"), after=(2, 3)),
        task(5, call("read_file", path="a.txt")),
        task(6, call("read_file", path="c.txt")),
        task(7, call("read_file", path="b.txt"), call("read_file", path="a.txt")),
        task(8, call("note", key="six"), after=(5, 7)),
        task(9, call("note", key="ten"), after=(6,)),
        task(10, action="note", target="fill"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = Deadly()
        self.run: PlanRun | None = None
        self.session = self.wait(self.world.open(Filler()))
        self.run = self.wait(confirmed(self.session, self.PLAN))

    def teardown(self) -> None:
        self.wait(self.loop.shutdown_asyncgens())
        self.loop.close()

    def wait(self, working: Awaitable[T]) -> T:
        """Return what comes of it, without a handler of Ctrl-C: setting one writes down all that a task returned."""
        return self.loop.run_until_complete(working)

    @property
    def state(self) -> PlanState:
        assert self.run is not None
        return self.run.state

    @rule(steps=integers(1, 12))
    @precondition(lambda self: self.state.running)
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            assert self.run is not None
            if self.wait(self.run.advance()) is not None:
                return

    @rule()
    @precondition(lambda self: self.state.running)
    def pause(self) -> None:
        assert self.run is not None
        self.run.pause()

    @rule()
    def crash_and_resume(self) -> None:
        self.wait(self.world.kill(self.session))
        self.session = self.wait(self.world.open(Filler(), resume=True))
        self.run = PlanRun(self.session, self.wait(follow_plan(self.session)), CONFIGURATION)

    @rule(when=sampled_from(["before", "after"]))
    @precondition(lambda self: self.state.running)
    def crash_in_a_call(self, when: Literal["before", "after"]) -> None:
        assert self.run is not None
        self.world.dies = when
        try:
            for _ in range(12):
                if self.wait(self.run.advance()) is not None:
                    break
        except Died:
            self.crash_and_resume()
        self.world.dies = ""

    @rule()
    def say_what_came_of_it(self) -> None:
        for unclear in list(list_open_calls(self.session)):
            begun = self.wait(self.world.bodies(ToolStarted))
            truth = self.world.truth[next(body.permit.digest for body in begun if body.call == unclear)]
            self.wait(record_outcome(self.session, unclear, truth))

    @rule()
    @precondition(lambda self: self.state.running)
    def cancel(self) -> None:
        assert self.run is not None
        self.wait(self.run.cancel())

    @rule(mend=integers(0, 1))
    @precondition(lambda self: not self.state.running)
    def try_again(self, mend: int) -> None:
        if mend:
            self.world.workspace.files |= {"b.txt": b"teh cat", "c.txt": b"there now"}
        try:
            self.wait(reset_failed_tasks(self.session, self.state))
        except UsageError:
            return
        self.run = self.wait(gone_on(self.world, self.session))

    @rule()
    def take_back(self) -> None:
        self.wait(roll_back_plans(self.session, self.state))

    @invariant()
    def nothing_that_stays_is_done_twice(self) -> None:
        assert len(self.world.sent) == len(set(self.world.sent))
        notes = [digest for digest in self.world.effects if digest in NOTES]
        assert len(notes) == len(set(notes)), self.world.effects

    @invariant()
    def what_is_done_took_effect(self) -> None:
        for step in self.state.steps.values():
            assert step.status != "done" or all(
                call.call.digest in self.world.effects for call in step.calls if call.is_settled
            )

    @invariant()
    def a_file_holds_no_edit_twice(self) -> None:
        assert self.world.workspace.files["a.txt"] in (b"teh cat", b"the cat")

    @invariant()
    def the_state_is_what_its_log_says(self) -> None:
        again = PlanState.of(self.wait(self.world.log.read("s")))
        assert statuses(again) == statuses(self.state)


def _notes() -> set[str]:
    from foregate.schemas.tool_call import ToolCall

    return {ToolCall.of("note", {"key": key}).digest for key in ("one", "two", "six", "ten", "fill")}


NOTES = _notes()


def test_no_order_of_pause_crash_resume_retry_and_rollback_does_anything_twice() -> None:
    run_state_machine_as_test(AnyOrder, settings=settings(max_examples=60, stateful_step_count=20, deadline=None))


async def test_a_plan_under_way_is_not_gone_on_with_by_asking_the_model() -> None:
    world = World()
    session = await world.open([])
    run = await confirmed(session, plan(task(1, call("note", key="one")), task(2, call("note", key="two"))))
    await run.advance()
    session.plan_driver = None
    outcome = await run_to_outcome(session)
    assert (outcome.status, world.effects) == ("paused", [])
    assert "plans resume" in outcome.report.blocker
