"""Child tasks: what they are told, what they may do, what they cost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft, TurnJudged
from foregate.schemas.event_body import CallAnswered, PolicyChanged, Remotes, SessionStarted, TaskEnded
from tests.agent.corpus import ASK_EDITS, rules
from tests.agent.world import World
from tests.events import bodies
from tests.policies import policy_with

DELEGATE = ("delegate", {"task": "read a.txt and say what it says"})
READ = ("read_file", {"path": "a.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


async def test_a_delegated_task_runs_in_a_log_of_its_own_and_answers_in_words() -> None:
    world = World()
    session = await world.open([calls(DELEGATE), calls(READ), says("it says teh cat"), says("teh cat, I hear")])
    assert (await run(session, "what does a.txt say?")).text == "teh cat, I hear"
    names = await world.log.sessions()
    assert len(names) == 2
    events = await world.log.read(names[0])
    (started,) = bodies(events, SessionStarted)
    assert (started.depth, started.parent) == (1, "s")
    assert [event.actor for event in events if event.kind == "user_message"] == ["user", "parent"]


async def test_what_was_configured_for_a_child_is_what_was_when_its_parent_began() -> None:
    world, remotes = World(), Remotes({"origin": "https://git.example/me/x.git"}, "origin", "main")
    session = await world.open([calls(DELEGATE), says("it says teh cat"), says("teh cat, I hear")])
    assert session.state.started is not None
    session.state.started = replace(session.state.started, remotes=remotes)
    await run(session, "what does a.txt say?")
    (started,) = await world.bodies(SessionStarted, (await world.log.sessions())[0])
    assert started.remotes == remotes


async def test_what_a_child_used_is_charged_to_its_parent() -> None:
    world = World()
    session = await world.open([calls(DELEGATE), calls(READ), says("teh cat"), says("done")])
    await run(session, "what does a.txt say?")
    (ended,) = await world.bodies(TaskEnded)
    assert (ended.model_calls, ended.tool_calls) == (4, 2)


async def test_a_child_gets_only_what_budget_is_left() -> None:
    world = World(policy=policy_with({"limits.model_calls": 3}))
    session = await world.open([calls(DELEGATE), calls(READ), calls(READ), says("never asked")])
    outcome = await run(session, "what does a.txt say?")
    assert outcome.status == "budget_exhausted"
    assert "budget_exhausted" in session.state.messages[-1].text
    assert len(session.model.requests) == 3  # type: ignore[attr-defined]


async def test_what_a_person_refused_in_the_parent_stays_refused_in_the_child() -> None:
    world = World(policy=rules(ASK_EDITS))
    model = [calls(READ, text="I will fix the typo in a.txt."), calls(EDIT), calls(DELEGATE)]
    child = [calls(READ), calls(EDIT), says("it is refused"), says("ok")]
    session = await world.open([*model, *child], ["no"])
    await run(session, "fix the typo in a.txt")
    assert world.workspace.files["a.txt"] == b"teh cat"
    name = (await world.log.sessions())[0]
    codes = [decision.code for body in await world.bodies(TurnJudged, name) for decision in body.judgement.decisions]
    assert "refused_before" in codes


async def test_children_end_at_the_policys_depth() -> None:
    world = World(policy=policy_with({"limits.child_depth": 0}))
    session = await world.open([calls(DELEGATE), says("ok")])
    await run(session, "go")
    assert "unknown_tool" in session.state.messages[-2].text
    with pytest.raises(UsageError):
        await session.run_child("go")


async def test_a_child_can_be_started_by_a_program() -> None:
    world = World()
    session = await world.open([says("hello from below")])
    assert (await session.run_child("say hello")).text == "hello from below"


async def test_a_session_without_anything_to_run_child_tasks_offers_none() -> None:
    session = await World().open([], delegate=None)
    assert "delegate" not in session.catalogue
    with pytest.raises(UsageError, match="runs no child tasks"):
        await session.run_child("go")


async def test_a_childs_need_pauses_the_parent_and_both_go_on_in_another_process() -> None:
    world = World(policy=rules(ASK_EDITS))
    session = await world.open([calls(DELEGATE), calls(READ, text="I will fix a.txt."), calls(EDIT)], [None])
    assert (await run(session, "fix the typo in a.txt")).status == "awaiting_approval"
    assert (await world.kinds())[-1] == "task_paused"
    await world.kill(session)
    again = await world.open([says("fixed below"), says("fixed")], ["yes"], resume=True)
    await again.record(Draft(PolicyChanged(dialect="json"), "person"))
    assert (await run_to_outcome(again)).text == "fixed"
    assert world.workspace.files["a.txt"] == b"the cat"
    child = await world.log.read(next(name for name in await world.log.sessions() if "." in name))
    spoken = [e for e in child if isinstance(e.body, (SessionStarted, PolicyChanged)) and e.body.dialect == "json"]
    assert [(e.kind, e.actor) for e in spoken] == [("policy_changed", "parent")]


async def test_a_childs_question_is_answered_by_the_parents_next_message() -> None:
    world = World(policy=policy_with({"uncertainty.threshold": 300}))
    note = ("note", {"key": "zebra"})
    model = [calls(DELEGATE), calls(note, text="I will note it for you."), calls(note), says("noted"), says("all done")]
    session = await world.open(model, [])
    outcome = await run(session, "do it for k")
    assert (outcome.status, "zebra" in outcome.text) == ("needs_input", True)
    assert (await run(session, "yes, the zebra")).text == "all done"
    assert len([name for name in await world.log.sessions() if "." in name]) == 1


async def test_two_children_never_share_one_budget_twice() -> None:
    world = World(policy=policy_with({"limits.model_calls": 4}))
    both = [("delegate", {"task": "one"}), ("delegate", {"task": "two"})]
    session = await world.open([calls(*both), calls(READ), says("one"), says("two"), says("never asked")])
    outcome = await run(session, "what does a.txt say?")
    assert outcome.status == "budget_exhausted"
    assert len(session.model.requests) == 4  # type: ignore[attr-defined]


async def test_a_child_of_a_dry_run_changes_nothing_either() -> None:
    world = World()
    say = "I will fix the typo in a.txt."
    session = await world.open([calls(DELEGATE), calls(READ, text=say), calls(EDIT), says("done below"), says("done")])
    await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    await run(session, "fix the typo in a.txt")
    assert world.workspace.files["a.txt"] == b"teh cat"
    child = (await world.log.sessions())[0]
    assert "not_run_dry_run" in [body.code for body in await world.bodies(CallAnswered, child)]


async def test_of_two_child_tasks_of_one_response_the_second_begins_when_the_first_is_over() -> None:
    world, other = World(), ("delegate", {"task": "read b.txt and say what it says"})
    answers = [says("it says teh cat"), says("it says teh dog")]
    session = await world.open([calls(DELEGATE, other), *answers, says("a cat and a dog")])
    await run(session, "what do a.txt and b.txt say?")
    order = [kind for kind in await world.kinds() if kind in ("tool_started", "tool_finished")]
    assert order == ["tool_started", "tool_finished"] * 2
