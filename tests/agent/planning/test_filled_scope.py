"""A yes to the sheet of a plan covers what it shows of a task that lists no calls, and nothing beyond."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.agent.models.scripted import calls
from foregate.agent.planning.control import follow_plan, preview_open_tasks
from foregate.agent.planning.outlook import iter_open_calls
from foregate.agent.planning.planner import record_proposal
from foregate.agent.tools.commands import run_command
from foregate.evidence.state.plan import PlanState, StepState
from foregate.evidence.state.recorded_turns import JUDGING, read_judged_turns
from foregate.gates.prelude import judge
from foregate.gates.support.plan_scope import find_covering_items
from foregate.schemas import strict_json
from foregate.schemas.judgement import Judgement
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.task_plan import TaskPlan
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ResourceKind
from tests.agent.planning.plans import CONFIGURATION, call, carried_out, confirmed, plan, statuses, task
from tests.agent.world import World
from tests.policies import policy_with

EACH = policy_with({"approval.mode": "each"})
"""Every change asks."""
FILLED = plan(task(1, action="edit_file", target="a.txt"))


def edits(*wanted: tuple[str, str, str]) -> ModelResponse:
    """Return a response that edits files."""
    return calls(*(("edit_file", {"path": path, "old": old, "new": new}) for path, old, new in wanted))


def reads(*paths: str) -> ModelResponse:
    """Return a response that reads files."""
    return calls(*(("read_file", {"path": path}) for path in paths))


async def asked(world: World) -> int:
    """Return how often a person was asked."""
    return (await world.kinds()).count("need_raised")


async def test_a_filled_in_call_on_the_target_that_was_shown_does_not_ask() -> None:
    world = World(policy=EACH)
    session = await world.open([reads("a.txt"), edits(("a.txt", "teh", "the"))], [])
    report = await carried_out(session, FILLED)
    assert (report.status, world.workspace.files["a.txt"], await asked(world)) == ("completed", b"the cat", 0)


async def test_a_filled_in_call_on_anything_else_asks() -> None:
    world = World(policy=EACH)
    session = await world.open([reads("b.txt"), edits(("b.txt", "teh", "the"))], ["no"])
    report = await carried_out(session, FILLED)
    assert (statuses(report), world.workspace.files["b.txt"], await asked(world)) == (["failed"], b"teh dog", 1)


async def test_a_plan_confirmed_unseen_covers_no_filled_in_call() -> None:
    world = World(policy=EACH)
    session = await world.open([reads("a.txt"), edits(("a.txt", "teh", "the"))], ["no"])
    report = await carried_out(session, FILLED, seen=False)
    assert (statuses(report), await asked(world)) == (["failed"], 1)


async def test_another_task_cannot_use_what_was_shown_for_one() -> None:
    world = World(policy=EACH)
    both = plan(task(1, action="edit_file", target="a.txt"), task(2, action="edit_file", target="b.txt", after=(1,)))
    first = [reads("a.txt", "b.txt"), edits(("a.txt", "teh", "the"))]
    session = await world.open([*first, edits(("a.txt", "the", "xxx"))], ["no"])
    report = await carried_out(session, both)
    assert (statuses(report), world.workspace.files["a.txt"], await asked(world)) == (["done", "failed"], b"the cat", 1)


async def test_a_leave_counts_during_its_task_for_its_tool_and_for_nothing_risky() -> None:
    world = World()
    session = await world.open([])
    await confirmed(session, FILLED)
    assert session.state.task is not None
    in_force = session.state.task.plan
    assert in_force is not None
    wanted = ToolCall.of("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}, id="c1.1")
    facts = session.turns.build_own_turn(1, (wanted,), "runner", 1).facts["c1.1"]
    write = replace(facts, call=replace(wanted, name="write_file"))
    for one, during, uses in (
        (facts, "task-1", (0,)),
        (facts, "", None),
        (facts, "task-2", None),
        (facts, "task-11", None),
        (write, "task-1", None),
        (replace(facts, risky=True), "task-1", None),
    ):
        assert find_covering_items(one, in_force, {}, same_tool=False, approved=True, during=during) == uses


async def test_a_leave_is_used_up() -> None:
    world = World(files={"a.txt": b"0"}, policy=policy_with({"plan.changed_resources": 0}, EACH))
    steps = [reads("a.txt"), edits(*(("a.txt", str(n), str(n + 1)) for n in range(4)))]
    session = await world.open(steps, ["no"])
    report = await carried_out(session, FILLED)
    assert (statuses(report), world.workspace.files["a.txt"], await asked(world)) == (["failed"], b"3", 1)


@pytest.mark.parametrize(
    ("action", "target"),
    [
        ("edit_file", "*.txt"),
        ("edit_file", ""),
        ("edit_file", "../a.txt"),
        ("edit_file", "."),
        ("send", "ann"),
        ("note", "one"),
        ("read_file", "a.txt"),
        ("frobnicate", "a.txt"),
    ],
)
async def test_nothing_is_left_to_a_task_without_a_file_or_with_more_than_a_file(action: str, target: str) -> None:
    assert await leaves(World(), plan(task(1, action=action, target=target))) == []


async def test_what_is_shown_is_what_is_recorded_and_a_task_with_calls_has_none() -> None:
    world = World()
    wanted = plan(task(1, action="edit_file", target="./a.txt"), task(2, call("note", key="x"), action="edit_file"))
    assert await leaves(world, wanted) == [("edit", ResourceKind.FILE, "a.txt", 3, "edit_file", "task-1")]


async def leaves(world: World, wanted: TaskPlan) -> list[tuple[object, ...]]:
    session = await world.open([])
    state = await follow_plan(session)
    await record_proposal(session, wanted, CONFIGURATION)
    looked = await preview_open_tasks(session, state, CONFIGURATION.execution.target_uses)
    return [(i.effect.value, i.kind, i.pattern, i.uses, i.tool, i.during) for i in looked.permissions]


async def test_what_a_leave_covered_is_judged_the_same_from_its_log() -> None:
    world = World(policy=EACH)
    session = await world.open([reads("a.txt"), edits(("a.txt", "teh", "the"))], [])
    await carried_out(session, FILLED)
    log = [event for event in await world.log.read("s") if event.kind in JUDGING]
    turns = list(read_judged_turns(log))
    granted = 0
    for one in turns:
        judgement = judge(one.turn, session.prelude)
        assert isinstance(judgement, Judgement)
        assert strict_json.dump(judgement) == strict_json.dump(one.judgement)
        granted += "approval_granted" in str(one.judgement)
    assert (len(turns), granted) == (2, 1)


async def test_a_leave_holds_in_the_process_that_resumes_the_task() -> None:
    world = World(policy=EACH)
    session = await world.open([reads("a.txt")], [])
    run = await confirmed(session, FILLED)
    while not world.effects:
        await run.advance()
    run.pause()
    assert (await run.run()).status == "paused"
    await world.kill(session)
    from tests.agent.planning.test_control import gone_on

    session = await world.open([edits(("a.txt", "teh", "the"))], [], resume=True)
    report = await (await gone_on(world, session)).run()
    assert (report.status, await asked(world)) == ("completed", 0)


async def test_a_task_that_names_a_command_without_calls_is_no_leave_for_any() -> None:
    world = World(policy=EACH)
    session = await world.open([], [])
    command = run_command(world.workspace, EACH).spec  # type: ignore[arg-type]
    tasks = plan(task(1, action="run_command", target="python3"), task(2, action="edit_file", target="a.txt"))
    catalogue = {**session.catalogue, command.name: command}
    state = PlanState()
    state.steps = {one.id: StepState(one) for one in tasks.tasks}
    assert [found.id for found, *_ in iter_open_calls(state, catalogue)] == [2]
