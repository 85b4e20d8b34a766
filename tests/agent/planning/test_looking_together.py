"""Tasks that only look run together where nothing speaks against it; each still stands for itself."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping

from foregate.agent.tools.tool import Tool
from foregate.evidence.state.plan import PlanState
from foregate.evidence.state.recorded_turns import JUDGING, read_judged_turns
from foregate.gates.prelude import judge
from foregate.schemas import strict_json
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.judgement import Judgement
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanStepChanged
from foregate.schemas.tool_call import ToolResult
from foregate.telemetry.queries.invariants import InvariantChecker
from tests.agent.corpus import rules
from tests.agent.planning.plans import CONFIGURATION, PlanRun, call, carried_out, confirmed, edit, plan, statuses, task
from tests.agent.world import World
from tests.events import bodies
from tests.forever import FOREVER
from tests.policies import policy_with


def read(path: str):  # type: ignore[no-untyped-def]
    """Return a planned look."""
    return call("read_file", path=path)


async def responses(world: World) -> list[list[int]]:
    """Return the tasks of the calls of each response."""
    return [list(body.tasks or ()) for body in await world.bodies(ModelResponded)]


class Meeting(World):
    """A world in which no look ends before two of them are under way."""

    def spied(self, tool: Tool) -> Tool:
        inner, both = super().spied(tool), asyncio.Barrier(2)

        async def run(arguments: Mapping[str, Json]) -> ToolResult:
            async with asyncio.timeout(FOREVER), both:
                return await inner.run(arguments)

        return dataclasses.replace(inner, run=run) if tool.spec.name == "read_file" else inner


async def test_looks_of_several_tasks_are_under_way_at_once() -> None:
    world = Meeting()
    session = await world.open([])
    report = await carried_out(session, plan(task(1, read("a.txt")), task(2, read("b.txt"))))
    assert (report.status, await responses(world)) == ("completed", [[1, 2]])
    assert [result.responses[0].data for result in report.tasks] == ["teh cat", "teh dog"]
    assert all(len(result.calls) == 1 for result in report.tasks)


async def test_the_log_says_of_each_task_when_it_began_and_ended() -> None:
    world = World()
    session = await world.open([])
    report = await carried_out(session, plan(task(1, read("a.txt")), task(2, read("b.txt"))))
    log = list(await world.log.read("s"))
    assert [(body.step, body.status) for body in bodies(log, PlanStepChanged)] == [
        *((1, "running"), (2, "running")),
        *((1, "done"), (2, "done")),
    ]
    assert statuses(PlanState.of(log)) == statuses(report)
    meaning = InvariantChecker()
    assert [finding for event in log for finding in meaning.check_event(event)] == []
    for one in read_judged_turns([event for event in log if event.kind in JUDGING]):
        judgement = judge(one.turn, session.prelude)
        assert isinstance(judgement, Judgement)
        assert strict_json.dump(judgement) == strict_json.dump(one.judgement)


async def test_a_look_that_fails_takes_its_dependants_along_and_no_task_beside_it() -> None:
    world = World()
    session = await world.open([])
    wanted = plan(
        task(1, read("a.txt")), task(2, read("none.txt")), task(3, read("b.txt")), task(4, read("a.txt"), after=(2,))
    )
    report = await carried_out(session, wanted)
    assert (report.status, statuses(report)) == ("failed", ["done", "failed", "done", "aborted"])
    assert (await responses(world))[0] == [1, 2, 3]


async def test_a_plan_that_stops_at_a_failure_still_says_what_was_done_beside_it() -> None:
    world = World()
    session = await world.open([])
    wanted = plan(task(1, read("none.txt")), task(2, read("b.txt")), task(3, read("a.txt"), after=(2,)))
    report = await carried_out(session, plan(*wanted.tasks, on_failure="stop"))
    assert statuses(report) == ["failed", "done", "aborted"]


async def test_no_look_overtakes_a_change_that_is_written_before_it() -> None:
    world = World()
    session = await world.open([])
    wanted = plan(task(1, read("a.txt")), task(2, edit("a.txt", "teh", "the")), task(3, read("a.txt")))
    report = await carried_out(session, wanted)
    assert report.tasks[2].responses[0].data == "the cat"
    assert await responses(world) == [[1], [2], [3]]


async def test_a_task_that_waits_for_another_or_asks_about_it_comes_after_it() -> None:
    world = World()
    session = await world.open([])
    asks = task(3, read("b.txt"), when={"task": 1, "output_contains": "cat"})
    report = await carried_out(
        session, plan(task(1, read("a.txt")), task(2, read("b.txt"), after=(1,)), asks, task(4, read("a.txt")))
    )
    assert (report.status, await responses(world)) == ("completed", [[1, 4], [2, 3]])


async def test_a_change_among_the_calls_of_a_task_keeps_it_to_itself() -> None:
    world = World()
    session = await world.open([])
    wanted = plan(task(1, read("a.txt"), call("note", key="one")), task(2, read("b.txt")), task(3, read("a.txt")))
    await carried_out(session, wanted)
    assert await responses(world) == [[1], [1], [2, 3]]


async def test_not_more_run_together_than_the_policy_allows_and_none_where_the_configuration_says_so() -> None:
    wanted = plan(*(task(n, read(path)) for n, path in enumerate(("a.txt", "b.txt") * 2, 1)), task(5, read("a.txt")))
    execution = CONFIGURATION.execution.model_copy(update={"parallel_observations": False})
    alone = CONFIGURATION.model_copy(update={"execution": execution})
    for bound, configuration, groups in (
        (2, CONFIGURATION, [[1, 2], [3, 4], [5]]),
        (8, alone, [[n] for n in range(1, 6)]),
    ):
        world = World(policy=policy_with({"limits.parallel_calls": bound, "limits.identical_observations": 0}))
        session = await world.open([])
        run = await confirmed(session, wanted)
        await PlanRun(session, run.state, configuration).run()
        assert await responses(world) == groups


async def test_confirming_step_by_step_runs_one_task_at_a_time() -> None:
    asked: list[int] = []

    async def before(one: object) -> bool:
        asked.append(one.id)  # type: ignore[attr-defined]
        return True

    world = World()
    session = await world.open([])
    await carried_out(session, plan(task(1, read("a.txt")), task(2, read("b.txt"))), before=before)
    assert (asked, await responses(world)) == ([1, 2], [[1], [2]])


async def test_pausing_pauses_every_task_in_hand_and_all_go_on() -> None:
    world = World()
    session = await world.open([])
    run = await confirmed(session, plan(task(1, read("a.txt")), task(2, read("b.txt"))))

    def pause(event: Event) -> None:
        if event.kind == "tool_finished":
            run.pause()

    with session.subscribe(pause):
        report = await run.run()
    assert (report.status, statuses(report)) == ("paused", ["paused", "paused"])
    await world.kill(session)
    from tests.agent.planning.test_control import gone_on

    report = await (await gone_on(world, await world.open([], resume=True))).run()
    assert (report.status, len(world.effects)) == ("completed", 2)


async def test_a_denial_by_rule_of_one_ends_the_plan_and_keeps_what_the_others_saw() -> None:
    world = World(policy=rules({"id": "no-b", "then": "deny", "resource": "b.txt"}))
    session = await world.open([])
    wanted = plan(task(1, read("b.txt")), task(2, read("a.txt")), task(3, read("a.txt"), after=(2,)))
    report = await carried_out(session, wanted)
    assert (report.status, statuses(report)) == ("blocked", ["failed", "done", "aborted"])
