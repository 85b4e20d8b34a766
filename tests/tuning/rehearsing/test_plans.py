"""Plans of a whole task are played again as they would really be made, confirmed and run under another policy."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.models.scripted import calls, says
from foregate.agent.planning.control import roll_back_plans
from foregate.schemas.event import Event, NeedRaised
from foregate.schemas.event_body import Checkpoint
from foregate.schemas.protocols import Reply
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, RecordedConfiguration
from foregate.tuning.rehearse import Rehearsal, count_events
from tests.agent import corpus
from tests.agent.planning import plans
from tests.agent.planning.plans import CONFIGURATION
from tests.events import bodies
from tests.policies import policy_with
from tests.tuning.rehearsing.families import list_events, open_further, rehearse_family
from tests.tuning.rehearsing.models import TALK
from tests.tuning.rehearsing.planned import (
    JUNK,
    Models,
    Somebody,
    Story,
    drive,
    get_driver,
    live,
    task,
    try_again,
    wire,
)
from tests.tuning.rehearsing.test_rehearse import judge_alike

READ, EDIT = corpus.READ, ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
READ_B, EDIT_B = ("read_file", {"path": "b.txt"}), ("edit_file", EDIT[1] | {"path": "b.txt"})
LOST, LOST_B = ("edit_file", EDIT[1] | {"old": "nowhere"}), ("edit_file", EDIT_B[1] | {"old": "nowhere"})
SEND = ("send", {"to": corpus.BOB, "text": "hello"})
WANTS_PLAN = [(TALK, [READ, EDIT])]
MENDS = wire(
    task(1, READ), task(2, EDIT, depends_on=[1]), task(3, READ_B), task(4, EDIT_B, depends_on=[3]), task(5, SEND)
)
FILLS = wire(
    task(1, READ), task(2, action="edit_file", target="a.txt", depends_on=[1]), task(3, ("note", {"key": "k"}))
)
FILLS_TWO = wire(task(1, action="edit_file", target="a.txt"), task(2, action="edit_file", target="b.txt"))
FAILS = wire(task(1, READ), task(2, LOST, depends_on=[1]), task(3, READ_B), task(4, EDIT_B, depends_on=[3]))
FAILS_TWICE = wire(task(1, READ), task(2, LOST), task(3, EDIT_B, depends_on=[2]), task(4, SEND))
ASKS = plans.plan(
    plans.task(1, plans.call("read_file", path="a.txt")),
    plans.task(2, plans.edit("a.txt", "nowhere", "the")),
    plans.task(3, plans.call("note", key="k")),
    on_failure="ask",
)
NOTES = plans.call("note", key="k")
BACK = plans.plan(
    plans.task(1, plans.edit("a.txt", "teh", "the")),
    plans.task(2, plans.edit("b.txt", "lost", "the")),
    on_failure="rollback",
)
EDITED = json.dumps({"goal": "mend b", "tasks": [{"id": 1, "calls": [{"tool": EDIT_B[0], "arguments": EDIT_B[1]}]}]})
FURTHER: Sequence[Any] = (
    {"answer": "a.txt is mended", "goal": "mend b.txt", "tasks": [task(1, READ_B), task(2, EDIT_B)]},
    {"answer": "both are mended", "plan": None},
)
LOOKS_UNCONFIRMED = CONFIGURATION.model_copy(
    update={"execution": CONFIGURATION.execution.model_copy(update={"confirmation": "dangerous"})}
)
SILENT = CONFIGURATION.model_copy(update={"planning": CONFIGURATION.planning.model_copy(update={"answer": "never"})})
STORIES = {
    "confirmed whole": Story([MENDS], WANTS_PLAN, further="what is in a.txt?"),
    "of more than one change": Story(
        [wire(task(1, READ_B, EDIT_B), task(2, SEND))], [(TALK, [READ]), ("", [EDIT]), ("", [EDIT_B])], begins="auto"
    ),
    "made, and confirmed in another process": Story([MENDS], begins="made"),
    "made, and refused in another process": Story([MENDS], begins="made", person={"confirm:1": ["no"]}),
    "confirmed unseen": Story([MENDS], begins="made", unseen=True),
    "before each task": Story([MENDS], WANTS_PLAN, person={"confirm:1": ["step"]}),
    "before each task, and not confirmed at first": Story(
        [MENDS], begins="made", asks_first=True, person={"task:2": ["no"]}, resumes=1
    ),
    "a dry run": Story([MENDS], begins="made", dry_run=True, unseen=True),
    "refused": Story([MENDS], WANTS_PLAN, person={"confirm:1": [Reply("no", "not so")]}, further="then read a.txt"),
    "corrected by the person": Story([MENDS], WANTS_PLAN, person={"confirm:1": [Reply("edit", EDITED), "yes"]}),
    "corrected, and not well": Story(
        [MENDS], WANTS_PLAN, person={"confirm:1": [Reply("edit", "nonsense"), Reply("edit", EDITED), "yes"]}
    ),
    "not usable at first": Story([JUNK, MENDS], WANTS_PLAN),
    "asked for in other words": Story([JUNK, JUNK, JUNK, MENDS], WANTS_PLAN, further="mend them one by one"),
    "with a task that fails": Story([FAILS], WANTS_PLAN, further="what now?"),
    "with a task that is filled in": Story([FILLS], WANTS_PLAN, fills={2: [calls(EDIT)]}),
    "with a task that is filled in again": Story([FILLS], WANTS_PLAN, fills={2: [says("Hm."), calls(EDIT)]}),
    "with a task whose calls are refused": Story([FILLS], WANTS_PLAN, fills={2: [calls(SEND), calls(EDIT)]}),
    "followed by a further one": Story([wire(task(1, EDIT))], WANTS_PLAN, results=FURTHER),
    "whose edits wait for a look": Story([wire(task(1, EDIT), task(2, EDIT_B))], begins="made", unseen=True),
    "paused in its midst": Story([MENDS], WANTS_PLAN, pauses=2, resumes=1),
    "paused where a task is filled in": Story([FILLS], begins="made", fills={2: [calls(EDIT)]}, pauses=2, resumes=1),
    "tried again once it had ended": Story([FAILS], begins="made", retries=0, meanwhile={"a.txt": b"nowhere"}),
    "of which one task was tried again": Story([FAILS_TWICE], begins="made", retries=2, further="read a.txt"),
    "filled in, of which one task was tried again": Story(
        [FILLS_TWO], begins="made", fills={1: [calls(READ, EDIT)], 2: [calls(READ_B, LOST_B), calls(EDIT_B)]}, retries=0
    ),
    "paused before a task is filled in": Story([FILLS], begins="made", fills={2: [calls(EDIT)]}, pauses=-1, resumes=1),
    "brought along": Story([], begins="brought", brought=ASKS),
    "with a failure that is tried again": Story(
        [], begins="brought", brought=ASKS, person={"failure:2": ["retry", "stop"]}
    ),
    "with a failure that waits for another process": Story(
        [], begins="brought", brought=ASKS, person={"failure:2": [None, "go_on"]}, resumes=1
    ),
    "that takes itself back": Story([], begins="brought", brought=BACK, further="what is in a.txt?"),
    "taken back after a failure": Story(
        [],
        begins="brought",
        brought=replace(BACK, on_failure="ask"),
        person={"failure:2": ["roll_back"]},
        further="what is in a.txt?",
        steps=[("", [READ])],
    ),
    "that nobody had to confirm": Story(
        [wire(task(1, READ), task(2, READ_B))], begins="made", configuration=LOOKS_UNCONFIRMED
    ),
}
CHANGES: Sequence[dict[str, Any]] = (
    {},
    {"narration.mode": "off"},
    {"evidence.mode": "off"},
    {"plan.mode": "off"},
    {"critique.level": "call"},
    {"approval.mode": "each"},
    {"limits.parallel_calls": 1},
    {"limits.tool_calls": 3},
    {"limits.wall_clock": 600},
    {"limits.repeated_holds": 1},
    {"rules.list": [{"id": "ask", "then": "ask", "tool": "edit_file"}]},
    {"rules.list": [{"id": "no", "then": "deny", "tool": "edit_file"}]},
    {"rules.list": [{"id": "no", "then": "deny", "tool": "send"}]},
)


NO_CONFIGURATION = (
    "a plan of the whole task begins here, and the log does not hold the configuration it was made and run under"
)
RECORDED: dict[tuple[str, int], Sequence[Event]] = {}
"""What was recorded of stories under policies already."""


async def record_once(name: str, change: int) -> Sequence[Event]:
    """Return the events of a story under a policy, of which it happens only once."""
    if (name, change) not in RECORDED:
        RECORDED[name, change] = await record(STORIES[name], CHANGES[change])
    return RECORDED[name, change]


async def record(story: Story, changes: dict[str, Any] | None = None) -> Sequence[Event]:
    """Return the events of a story that really happened."""
    return await (await live(story, policy_with(changes or {}))).log.read("s")


def deny(tool: str) -> dict[str, Any]:
    """Return what denies the calls of a tool."""
    return {"rules.list": [{"id": "no", "then": "deny", "tool": tool}]}


async def play_again(events: Sequence[Event], changes: dict[str, Any] | None = None, **assumed: str) -> Rehearsal:
    """Return a session played again under the default policy with changes, None for its own."""
    policy = policy_with(changes) if changes is not None else None
    return (await rehearse_family({"s": events}, policy, **assumed))["s"]


@pytest.mark.parametrize("name", STORIES)
async def test_under_its_own_policy_a_plan_is_made_confirmed_and_run_as_it_was(name: str) -> None:
    events = await record_once(name, 0)
    played = await play_again(events)
    assert (played.stopped, played.assumed) == ("", {})
    assert played.now == played.then == count_events(events)
    assert judge_alike(played.events) == judge_alike(events)
    assert [one.steps for one in bodies(played.events, Checkpoint)] == [one.steps for one in bodies(events, Checkpoint)]
    then, now = bodies(events, PlanConfirmed), bodies(played.events, PlanConfirmed)
    assert [(one.digest, one.plan, one.step, one.dry_run) for one in now] == [
        (one.digest, one.plan, one.step, one.dry_run) for one in then
    ]


@pytest.mark.parametrize(
    "name", ["confirmed whole", "with a task whose calls are refused", "taken back after a failure"]
)
async def test_a_log_that_ends_anywhere_comes_to_the_same_then_and_now(name: str) -> None:
    events = await record_once(name, 0)
    for last in range(1, len(events)):
        played = await play_again(events[:last])
        assert played.now == played.then, (events[last - 1].kind, played.stopped)


WHICH = st.integers(0, len(CHANGES) - 1)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(STORIES)), WHICH, WHICH)
def test_where_it_was_not_stopped_a_plan_counts_as_if_it_were_really_carried_out_again(
    name: str, before: int, after: int
) -> None:
    async def scenario() -> None:
        then, really = await record_once(name, before), await record_once(name, after)
        played = await play_again(then, CHANGES[after])
        if played.stopped:
            judged = judge_alike(played.events)[:-1]
            assert judged == judge_alike(really)[: len(judged)]
        else:
            assert played.now == count_events(really)
            assert judge_alike(played.events) == judge_alike(really)

    asyncio.run(scenario())


async def test_a_plan_that_comes_to_less_now_is_counted_as_it_would_come_to_that() -> None:
    played = await play_again(await record(Story([MENDS], WANTS_PLAN, configuration=SILENT)), deny("send"))
    assert (played.stopped, played.then.ran, played.now.ran) == ("", 6, 5)
    assert (played.then.held, played.now.held) == (1, 2)


async def test_the_planner_that_is_told_of_other_results_stops_it_unless_it_is_assumed_to_say_the_same() -> None:
    events = await record(STORIES["confirmed whole"])
    played = await play_again(events, deny("send"))
    assert played.stopped.startswith("the planning model is told something else than then")
    asked = next(event for event in events if event.seq == played.at)
    assert isinstance(asked.body, NeedRaised)
    assert asked.body.need.gate == "plan_results"
    gone_on = await play_again(events, deny("send"), model="same")
    assert (gone_on.stopped, gone_on.assumed) == ("", {"model": 2})
    assert (gone_on.now.ran, played.then.ran) == (played.now.ran, 6)


async def test_the_model_that_fills_in_a_task_is_asked_the_very_same_or_it_stops() -> None:
    apart = wire(task(1, SEND, may_fail=True), task(2, action="edit_file", target="a.txt"))
    events = await record(Story([apart], begins="made", fills={2: [calls(READ), calls(EDIT)]}))
    asks = {"rules.list": [{"id": "ask", "then": "ask", "tool": "send"}], "approval.mode": "each"}
    played = await play_again(events, asks, person="no")
    assert played.stopped.startswith("the execution model is told something else than then")
    assert played.now.requests == played.then.requests == 0


async def test_a_call_that_a_plan_sent_again_takes_what_came_of_that_and_it_is_no_assumption() -> None:
    story = dataclasses.replace(STORIES["whose edits wait for a look"], configuration=SILENT)
    played = await play_again(await record(story), {"evidence.mode": "off"})
    assert (played.stopped, played.assumed) == ("", {})
    assert (played.then.held, played.now.held) == (2, 0)
    assert played.now == count_events(await record(story, {"evidence.mode": "off"}))


async def test_a_model_that_would_hear_of_fewer_calls_of_a_plan_is_not_taken_to_say_the_same() -> None:
    chain = wire(task(1, SEND), task(2, EDIT, depends_on=[1]), task(3, READ_B, depends_on=[2]))
    story = Story([chain], [("", [READ_B]), *WANTS_PLAN], configuration=SILENT, further="what is in a.txt?")
    played = await play_again(await record(story), deny("send"))
    assert "so what the model would have said is unknown" in played.stopped
    assert (played.then.ran - played.now.ran, played.now.held - played.then.held) == (3, 1)
    assert (await play_again(await record(story), deny("send"), model="same")).assumed == {"model": 3}


async def test_what_a_task_would_see_of_a_change_that_is_not_made_now_is_not_recorded() -> None:
    story = Story([wire(task(1, READ), task(2, EDIT), task(3, READ))], begins="made", configuration=SILENT)
    asks = {"rules.list": [{"id": "ask", "then": "ask", "tool": "edit_file"}], "approval.mode": "each"}
    played = await play_again(await record(story), asks, person="no")
    assert "a change it may rest on was made then and is not made now" in played.stopped


async def test_a_question_about_a_plan_that_nobody_answered_then_stops_it() -> None:
    events = await record(STORIES["before each task"], {"limits.tool_calls": 3})
    stopped = await play_again(events, {})
    assert stopped.stopped == "the person is asked here about a plan (task:3), which nobody was then"
    assert stopped.now.prompts == stopped.then.prompts
    gone_on = await play_again(events, {}, person="yes")
    assert gone_on.assumed == {"person": 1}


async def test_without_the_configuration_it_was_run_under_a_plan_is_not_played_again() -> None:
    events = [forget_configuration(event) for event in await record(STORIES["confirmed whole"])]
    for changes in (None, {"narration.mode": "off"}, {"limits.turns": 9}):
        played = await play_again(events, changes)
        assert played.stopped == NO_CONFIGURATION
        assert played.now == played.then
        assert (played.now.requests, played.now.ran, played.now.planner) == (1, 1, 0)
        assert next(event.kind for event in events if event.seq == played.at) in ("turn_judged", "need_raised")


def forget_configuration(event: Event, kept: RecordedConfiguration | None = None) -> Event:
    """Return an event as it would be with another configuration, or as an earlier version recorded it."""
    body = event.body
    return replace(event, body=replace(body, configuration=kept)) if isinstance(body, PlanProposed) else event


@pytest.mark.parametrize("kept", [("0" * 64, {}), ("0" * 64, {"planning": {"max_plans": 0}}), ("0" * 64, {"mode": {}})])
async def test_a_configuration_that_this_version_cannot_restore_stops_a_plan(kept: Any) -> None:
    other = RecordedConfiguration(*kept)
    played = await play_again([forget_configuration(e, other) for e in await record(STORIES["confirmed whole"])])
    assert played.stopped.startswith("the defaults of plan mode are other ones in this version")


async def test_a_process_that_goes_on_under_another_configuration_is_played_under_that() -> None:
    alone = CONFIGURATION.execution.model_copy(update={"parallel_observations": False})
    later = CONFIGURATION.model_copy(update={"execution": alone})
    story = Story([wire(task(1, READ), task(2, READ_B))], begins="made", later=later)
    events = await record(story)
    (confirmed,) = bodies(events, PlanConfirmed)
    assert confirmed.configuration is not None
    assert confirmed.configuration.changes == {"execution": {"parallel_observations": False}}
    played = await play_again(events)
    assert (played.stopped, judge_alike(played.events)) == ("", judge_alike(events))


async def test_a_plan_that_had_ended_is_rolled_back_again_and_tried_again() -> None:
    world = await live(STORIES["with a task that fails"], policy_with())
    session = await world.open(Models([]), Somebody(), resume=True, plan_driver=lambda made: drive(made, CONFIGURATION))
    state = await get_driver(session).follow()
    assert await roll_back_plans(session, state) == []
    await try_again(session, 0)
    events = await world.log.read("s")
    assert [step.status for step in state.steps.values()] == ["done", "failed", "done", "done"]
    played = await play_again(events)
    assert (played.stopped, played.now) == ("", count_events(events))
    assert judge_alike(played.events) == judge_alike(events)


async def test_a_task_that_is_filled_in_again_in_a_further_session_is_asked_of_the_very_same_calls() -> None:
    story = Story([FILLS], begins="made", fills={2: [calls(LOST)]})
    world = await live(story, policy_with())
    await (await world.open([], resume=True)).close()
    further = await open_further(world, Models([], fills={2: [calls(EDIT)]}), Somebody())
    further.plan_driver = drive(further, CONFIGURATION)
    await try_again(further, 0)
    await further.close()
    events = await list_events(world)
    assert [(one.stopped, one.now) for one in (await rehearse_family(events, None)).values()] == [
        ("", count_events(of_one)) for of_one in events.values()
    ]


async def test_where_other_tasks_fail_now_than_were_tried_again_then_a_plan_is_not_played_further() -> None:
    story = dataclasses.replace(STORIES["tried again once it had ended"], configuration=SILENT)
    played = await play_again(await record(story), deny("read_file"))
    assert played.stopped == "tasks of a plan were tried again here, and now it is others that failed"


async def test_nothing_is_taken_back_that_was_not_taken_back_then() -> None:
    story = Story([], begins="brought", brought=replace(BACK, tasks=(BACK.tasks[0], plans.task(2, NOTES))))
    played = await play_again(await record(story), deny("note"))
    assert played.stopped == "a plan takes back here what a task did, and the result is not recorded"
