"""Playing a session again gives what really playing it again gives, or stops where its log holds nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import answers, calls, says
from foregate.gates.replay.assumption import NOTHING, Assumption
from foregate.policy.policy import Policy
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.protocols import Reply
from foregate.tuning.family_replay import PolicyReplacer
from foregate.tuning.rehearse import Rehearsal, SessionCounts, count_events
from tests.agent import corpus
from tests.agent.world import World
from tests.events import bodies
from tests.policies import policy_with
from tests.tuning.rehearsing.models import TALK, Agreeing, Heedless, Insistent, Wanted, rehearse_one, sends_twice

REQUEST = f"fix a.txt and send a greeting to {corpus.BOB}"
POST: Wanted = ("post", {"to": corpus.BOB, "text": "hello"})
NOTE: Wanted = ("note", {"key": "k"})
CALLS: Sequence[Wanted] = (
    corpus.READ,
    corpus.EDIT,
    corpus.SEND,
    POST,
    ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"}),
    NOTE,
    ("letter", {}),
    ("nope", {}),
)
CHANGES: Sequence[dict[str, Any]] = (
    {},
    {"narration.mode": "off"},
    {"narration.scope": "first_response"},
    {"evidence.mode": "off"},
    {"plan.mode": "off"},
    {"critique.level": "call"},
    {"approval.mode": "never"},
    {"plan.max_amendments": 0},
    {"uncertainty.threshold": 100},
    {"limits.repeated_holds": 2},
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["", TALK]), st.lists(st.sampled_from(CALLS), min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)
STORIES = ("narration", "uncertainty", "evidence", "plan_drift", "critique_rejected", "verification", "stages")
FIRST = "first_response"


def judge_alike(events: Sequence[Event]) -> list[Any]:
    """Return what was judged, without the numbers of events."""
    found = []
    for body in bodies(events, TurnJudged):
        rows = [
            (row.gate, row.code, [(one.standing, one.code) for one in row.rulings]) for row in body.judgement.decisions
        ]
        found.append((body.turn.actor, rows, [(one.standing, one.ruling.code) for one in body.judgement.verdicts]))
    return found


async def play(model: Heedless, policy: Policy) -> Sequence[Event]:
    world = World(policy=policy)
    await run(await world.open(model, Agreeing()), REQUEST)
    return await world.log.read("s")


async def told(steps: list[Any], person: list[Any] | None = None, **changes: Any) -> Sequence[Event]:
    """Return the events of a session that a script led."""
    world = World(policy=policy_with({key.replace("__", "."): value for key, value in changes.items()}))
    await run(await world.open(steps, person), REQUEST)
    return await world.log.read("s")


def rehearsed(events: Sequence[Event], changes: dict[str, Any] | None = None, **assumed: str) -> Rehearsal:
    """Return a session played again under the default policy with changes, None for its own."""
    policy = policy_with(changes) if changes is not None else None
    again = PolicyReplacer((lambda layers: policy) if policy is not None else None)
    return asyncio.run(rehearse_one(events, again, Assumption(**assumed)))


@pytest.mark.parametrize("name", STORIES)
async def test_under_its_own_policy_a_session_is_judged_as_it_was(name: str) -> None:
    world = World()
    await getattr(corpus, name)(world)
    events = await world.log.read("s")
    played = await rehearse_one(events, PolicyReplacer(None), NOTHING)
    assert not played.stopped
    assert judge_alike(played.events) == judge_alike(events)
    assert played.now == played.then == count_events(events)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([Heedless, Insistent]), STEPS, st.sampled_from(CHANGES), st.sampled_from(CHANGES))
def test_where_it_was_not_stopped_the_counts_are_those_of_really_playing_again(
    kind: type[Heedless], steps: list[Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    async def scenario() -> None:
        then, really = await play(kind(steps), policy_with(before)), await play(kind(steps), policy_with(after))
        played = await rehearse_one(then, PolicyReplacer(lambda layers: policy_with(after)), NOTHING)
        if not played.stopped and not (played.assumed and (kind is Heedless or sends_twice(steps))):
            assert played.now == count_events(really)
            assert judge_alike(played.events) == judge_alike(really)

    asyncio.run(scenario())


async def test_a_call_that_a_gate_held_takes_what_came_of_it_when_it_was_sent_again() -> None:
    events = await told([calls(NOTE), calls(NOTE, text=TALK), says("sent")], narration__scope=FIRST)
    played = await asyncio.to_thread(rehearsed, events, {"narration.mode": "off"})
    assert (played.stopped, played.assumed) == ("", {"repeats": 1})
    assert (played.then.requests, played.then.held) == (3, 1)
    assert (played.now.requests, played.now.held, played.now.ran) == (2, 0, 1)


async def test_a_call_that_had_not_run_and_runs_now_stops_the_session() -> None:
    events = await told([calls(NOTE), calls(corpus.READ), says("sent")], narration__scope=FIRST)
    played = await asyncio.to_thread(rehearsed, events, {"narration.mode": "off"})
    assert "`note` is let go here" in played.stopped
    assert played.at == 4
    assert played.then == played.now == SessionCounts()


async def test_a_model_that_is_told_something_else_stops_it_unless_it_is_assumed_to_say_the_same() -> None:
    events = await told([calls(corpus.READ), calls(corpus.EDIT), calls(corpus.READ, text=TALK), says("done")])
    stricter = {"narration.scope": FIRST}
    played = await asyncio.to_thread(rehearsed, events, stricter)
    assert "--assume model=same" in played.stopped
    gone_on = await asyncio.to_thread(rehearsed, events, stricter, model="same")
    assert gone_on.assumed["model"] == 1
    assert gone_on.now.held == 1


async def test_what_rests_on_a_change_that_is_not_made_now_is_not_played() -> None:
    events = await told([calls(corpus.READ), calls(corpus.EDIT), calls(corpus.READ), says("done")])
    stricter = {"rules.list": [{"id": "no-edits", "then": "deny", "tool": "edit_file"}]}
    played = await asyncio.to_thread(rehearsed, events, stricter, model="same")
    assert "a change it may rest on was made then and is not made now" in played.stopped


async def test_a_question_nobody_answered_stops_it_unless_the_answer_is_assumed() -> None:
    plan = answers({"not": "a plan"})
    events = await told([calls(corpus.SEND, text=TALK), plan, plan, says("sent")], ["yes"], plan__mode="off")
    asked = {"approval.mode": "each", "rules.list": [{"id": "ask", "then": "ask", "tool": "send"}]}
    stopped = await asyncio.to_thread(rehearsed, events, {**asked, "critique.level": "call"})
    assert "--assume" in stopped.stopped
    everybody = {"planner": "accept", "critic": "accept", "person": "yes"}
    played = await asyncio.to_thread(rehearsed, events, {**asked, "critique.level": "call"}, **everybody)
    assert not played.stopped
    assert sum(played.assumed.values()) >= 1


async def test_a_no_that_was_said_then_is_said_again() -> None:
    rules = [{"id": "ask", "then": "ask", "tool": "edit_file"}]
    steps = [calls(corpus.READ), calls(corpus.EDIT, text=TALK), says("I left it")]
    events = await told(steps, [Reply("no", "not now")], rules__list=rules)
    played = await asyncio.to_thread(rehearsed, events)
    assert (played.now.prompts, played.now.held, played.stopped) == (1, 1, "")


async def test_nothing_of_a_rehearsal_reaches_a_tool() -> None:
    world = World(policy=policy_with({"narration.mode": "off"}))
    await run(await world.open([calls(corpus.READ), calls(corpus.EDIT), says("done")]), REQUEST)
    before, files = list(world.effects), dict(world.workspace.files)
    await rehearse_one(await world.log.read("s"), PolicyReplacer(None), NOTHING)
    assert (world.effects, world.workspace.files) == (before, files)


async def test_of_two_answers_to_the_same_question_the_second_is_given_second() -> None:
    events = await told([calls(corpus.SEND, text=TALK), corpus.BAD, corpus.PLAN, says("sent")], ["yes"])
    played = await asyncio.to_thread(rehearsed, events)
    assert (played.stopped, played.now) == ("", played.then)
    assert (played.now.planner, played.now.held) == (2, 0)


async def test_a_question_takes_its_own_answer_where_the_one_before_it_is_not_asked_now() -> None:
    rules = [{"id": "no", "then": "deny", "tool": "note"}, {"id": "ask", "then": "ask", "tool": "edit_file"}]
    steps = [calls(corpus.READ, NOTE, text=TALK), calls(NOTE, corpus.EDIT), says("never said")]
    keys = {"limits__repeated_holds": 2, "rules__list": rules}
    events = await told(steps, ["yes", Reply("stop")], **keys)
    unasked = {"limits.repeated_holds": 2, "rules.list": rules[:1]}
    played = await asyncio.to_thread(rehearsed, events, unasked)
    assert (played.then.prompts, played.now.prompts, played.now.requests, played.stopped) == (2, 1, 2, "")


async def test_requests_questions_and_calls_are_each_counted_as_what_they_are() -> None:
    events = await told([calls(corpus.SEND, text=TALK), corpus.PLAN, says("sent")], ["yes"])
    assert count_events(events) == SessionCounts(requests=2, planner=1, critic=0, prompts=1, held=0, ran=1)
