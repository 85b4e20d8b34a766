"""A confirmed plan runs task by task, and every call of it passes the judge."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.models.scripted import calls, says
from foregate.evidence.state.recorded_turns import JUDGING, read_judged_turns
from foregate.gates.prelude import judge
from foregate.schemas import strict_json
from foregate.schemas.event import Draft, Event, ModelResponded
from foregate.schemas.event_body import PolicyChanged, ToolStarted
from foregate.schemas.judgement import Judgement
from foregate.schemas.model_response import Block, ModelResponse
from foregate.telemetry.queries.invariants import InvariantChecker
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.planning.plans import CONFIGURATION, call, carried_out, confirmed, edit, plan, statuses, task
from tests.agent.world import World
from tests.events import bodies

NEVER = {"task": 1, "lines_at_least": 99}


async def events(world: World) -> list[Event]:
    return list(await world.log.read("s"))


async def test_tasks_with_calls_run_without_any_model_and_unread_files_are_read_first() -> None:
    world = World()
    session = await world.open([])
    report = await carried_out(
        session, plan(task(1, edit("a.txt", "teh", "the")), task(2, edit("b.txt", "teh", "the"), after=(1,)))
    )
    assert (report.status, statuses(report)) == ("completed", ["done", "done"])
    assert world.workspace.files == {"a.txt": b"the cat", "b.txt": b"the dog"}


async def test_every_call_that_ran_was_allowed_by_a_judgement_of_its_own() -> None:
    world = World()
    session = await world.open([])
    await carried_out(session, plan(task(1, call("read_file", path="a.txt")), task(2, call("send", to="ann"))))
    log = await events(world)
    judged = {event.seq for event in log if event.kind == "turn_judged"}
    started = bodies(log, ToolStarted)
    assert len(started) == 2
    assert all(body.permit.judged in judged for body in started)


async def test_a_seen_plan_is_leave_for_a_dangerous_call_exactly_as_it_was_shown() -> None:
    world = World()
    session = await world.open([], [])
    report = await carried_out(session, plan(task(1, call("send", to="ann", text="hi"))))
    assert report.status == "completed"
    assert world.sent == ["ann"]


async def test_a_plan_confirmed_unseen_is_leave_for_nothing_that_asks() -> None:
    world = World()
    session = await world.open([])
    report = await carried_out(session, plan(task(1, call("send", to="ann", text="hi"))), seen=False)
    assert (report.status, statuses(report), world.sent) == ("blocked", ["failed"], [])


async def test_a_plan_of_which_one_task_failed_by_itself_failed_whatever_else_was_not_let_go() -> None:
    world = World()
    session = await world.open([])
    broken = task(2, call("edit_file", path="a.txt", old="nothing", new="x"))
    report = await carried_out(session, plan(task(1, call("send", to="ann", text="hi")), broken), seen=False)
    assert (report.status, statuses(report)) == ("failed", ["failed", "failed"])


async def test_a_failed_task_takes_its_dependants_along_and_no_others() -> None:
    world = World()
    session = await world.open([])
    report = await carried_out(
        session,
        plan(
            task(1, edit("a.txt", "nowhere", "x")),
            task(2, edit("b.txt", "teh", "the")),
            task(3, call("read_file", path="a.txt"), after=(1,)),
            task(4, call("read_file", path="b.txt"), after=(3,)),
        ),
    )
    assert statuses(report) == ["failed", "done", "aborted", "aborted"]
    assert report.status == "failed"
    assert report.tasks[2].error == "task 1 failed"


async def test_a_plan_that_stops_at_a_failure_runs_nothing_after_it() -> None:
    world = World()
    session = await world.open([])
    report = await carried_out(
        session,
        plan(task(1, edit("a.txt", "nowhere", "x")), task(2, edit("b.txt", "teh", "the")), on_failure="stop"),
    )
    assert statuses(report) == ["failed", "aborted"]
    assert world.workspace.files["b.txt"] == b"teh dog"


async def test_a_plan_that_rolls_back_leaves_the_files_as_they_were() -> None:
    world = World()
    session = await world.open([])
    before = dict(world.workspace.files)
    report = await carried_out(
        session,
        plan(
            task(1, edit("a.txt", "teh", "the")),
            task(2, edit("b.txt", "teh", "the")),
            task(3, edit("a.txt", "nowhere", "x")),
            on_failure="rollback",
        ),
    )
    assert statuses(report) == ["aborted", "aborted", "failed"]
    assert world.workspace.files == before


async def test_a_plan_that_asks_pauses_at_a_failure() -> None:
    world = World()
    session = await world.open([])
    report = await carried_out(
        session,
        plan(task(1, edit("a.txt", "nowhere", "x")), task(2, call("read_file", path="b.txt")), on_failure="ask"),
    )
    assert (report.status, statuses(report)) == ("paused", ["failed", "pending"])


async def test_a_task_without_calls_is_filled_in_by_the_model_and_judged_the_same() -> None:
    world = World()
    session = await world.open([calls(("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}))] * 2)
    report = await carried_out(session, plan(task(1, action="edit_file", target="a.txt")))
    assert (report.status, world.workspace.files["a.txt"]) == ("completed", b"the cat")


async def test_a_model_without_native_calls_may_answer_in_json() -> None:
    wanted = '{"tool": "read_file", "args": {"path": "a.txt"}}'
    for text in (wanted, f"[{wanted}]", f"Here:\n```json\n{wanted}\n```", f'{{"calls": [{wanted}]}}'):
        world = World()
        session = await world.open([says(text)])
        report = await carried_out(session, plan(task(1, action="read_file", target="a.txt")))
        assert report.status == "completed", text
        assert report.tasks[0].responses[0].data == "teh cat"


async def test_calls_filled_in_run_in_their_blocks_and_name_no_results_of_each_other() -> None:
    which, there = ("read_file", {"path": "a.txt"}), ("read_file", {"path": "$result_of_step_1"})
    other = ("read_file", {"path": "b.txt"})
    order = Block("sequential", (0, 1))
    world = World()
    first, second = replace(calls(which, there), order=order, deferred=(1,)), replace(calls(which, other), order=order)
    session = await world.open([first, second])
    report = await carried_out(session, plan(task(1, action="read_file", target="b.txt")))
    assert (report.status, [one.ok for one in report.tasks[0].responses]) == ("completed", [True, True])
    refused = [body.refused for body in await world.bodies(ModelResponded)]
    assert "name each other's results" in refused[0]
    assert verify_rows(world.log.lines("s"), "s").ok


async def test_a_task_is_filled_in_with_the_tool_it_names_or_with_looks_and_nothing_else() -> None:
    world = World()
    session = await world.open([calls(("send", {"to": "eve"}))] * 2, [])
    report = await carried_out(session, plan(task(1, action="edit_file", target="a.txt")))
    assert (statuses(report), world.sent) == (["failed"], [])
    notes = [body.notes for body in await world.bodies(ModelResponded)]
    assert all("send" in note[0] for note in notes)


async def test_a_task_that_changes_something_is_not_done_by_words() -> None:
    world = World()
    session = await world.open([says("I would rather not."), says("")])
    report = await carried_out(session, plan(task(1, action="edit_file", target="a.txt")))
    assert statuses(report) == ["failed"]


async def test_a_task_to_think_about_is_done_by_words() -> None:
    world = World()
    session = await world.open([says("The typo is in a.txt.")])
    report = await carried_out(session, plan(task(1, action="analyze_error")))
    assert (statuses(report), report.tasks[0].summary) == (["done"], "The typo is in a.txt.")


async def test_the_model_that_fills_in_is_told_the_task_and_what_was_wrong() -> None:
    told: list[str] = []

    def answer(request: object) -> ModelResponse:
        told.append(request.messages[-1].text)  # type: ignore[attr-defined]
        return says("no")

    world = World()
    session = await world.open([answer, answer])
    await carried_out(session, plan(task(1, action="edit_file", target="a.txt")))
    assert "a.txt" in told[0]
    assert "why" in told[1]


async def test_pausing_lets_the_call_in_hand_finish_and_nothing_after_it() -> None:
    world = World()
    session = await world.open([])
    run = await confirmed(session, plan(task(1, edit("a.txt", "teh", "the")), task(2, edit("b.txt", "teh", "the"))))
    with session.subscribe(lambda event: run.pause() if event.kind == "tool_finished" else None):
        report = await run.run()
    assert report.status == "paused"
    assert world.workspace.files["b.txt"] == b"teh dog"
    assert (await run.run()).status == "completed"
    assert world.workspace.files == {"a.txt": b"the cat", "b.txt": b"the dog"}


async def test_a_dry_run_judges_everything_and_changes_nothing() -> None:
    world = World()
    session = await world.open([])
    await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    report = await carried_out(session, plan(task(1, edit("a.txt", "teh", "the")), task(2, call("send", to="ann"))))
    assert (report.status, statuses(report)) == ("completed", ["skipped", "skipped"])
    assert (world.sent, world.workspace.files["a.txt"]) == ([], b"teh cat")


@pytest.mark.parametrize(
    ("strict", "first", "came"),
    [
        (True, {"when": NEVER}, ["done", "skipped", "aborted"]),
        (False, {"when": NEVER}, ["done", "skipped", "done"]),
        (True, {}, ["done", "failed", "aborted"]),
        (False, {}, ["done", "failed", "aborted"]),
    ],
)
async def test_what_depends_on_a_failed_task_never_runs_and_on_a_skipped_one_only_where_that_is_not_strict(
    strict: bool, first: dict[str, Any], came: list[str]
) -> None:
    execution = CONFIGURATION.execution.model_copy(update={"strict_dependencies": strict})
    session = await World().open([])
    wanted = plan(
        task(1, call("read_file", path="a.txt")),
        task(2, call("read_file", path="nowhere.txt"), after=(1,), **first),
        task(3, call("read_file", path="b.txt"), after=(2,)),
    )
    chosen = CONFIGURATION.model_copy(update={"execution": execution})
    assert statuses(await carried_out(session, wanted, configuration=chosen)) == came


async def test_what_a_confirmed_plan_covered_is_judged_the_same_from_its_log() -> None:
    world = World()
    session = await world.open([], [])
    await carried_out(session, plan(task(1, call("send", to="ann")), task(2, edit("a.txt", "teh", "the"))))
    log = await events(world)
    turns = list(read_judged_turns([event for event in log if event.kind in JUDGING]))
    assert len(turns) >= 3
    for one in turns:
        judgement = judge(one.turn, session.prelude)
        assert isinstance(judgement, Judgement)
        assert strict_json.dump(judgement) == strict_json.dump(one.judgement)
    meaning = InvariantChecker()
    assert [finding for event in log for finding in meaning.check_event(event)] == []


async def test_a_task_that_may_fail_fails_all_the_same_where_it_was_no_command_that_ended_with_an_error() -> None:
    session = await World().open([])
    wrong = task(1, edit("a.txt", "no such text", "x"), may_fail=True)
    report = await carried_out(session, plan(wrong, task(2, call("note", key="two"), after=(1,))))
    assert statuses(report) == ["failed", "aborted"]
