"""Child tasks, sessions that go on with an ended one, and undos are really played again, or say why they are not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.loop.undo import undo
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import EffectUndone, ToolFinished, UserMessage
from foregate.tuning.rehearse import SessionCounts, count_events
from tests.agent import corpus
from tests.agent.world import World
from tests.events import bodies
from tests.policies import policy_with
from tests.tuning.rehearsing.families import (
    DONE,
    Message,
    count_sessions,
    delegate,
    list_events,
    play_messages,
    rehearse_family,
    sort_counts,
)
from tests.tuning.rehearsing.models import TALK, Agreeing, Heedless, Insistent, sends_twice
from tests.tuning.rehearsing.test_rehearse import CALLS, CHANGES

OTHER_EDIT = ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"})
READ_B = ("read_file", {"path": "b.txt"})
CALLED = st.tuples(st.sampled_from(["", TALK]), st.lists(st.sampled_from(CALLS), min_size=1, max_size=2))
CHILD = st.lists(CALLED, max_size=2).map(lambda steps: [("", [delegate()]), *steps, DONE])
STEPS = st.lists(st.one_of(CALLED.map(lambda one: [one]), CHILD), min_size=1, max_size=2).map(
    lambda parts: [step for part in parts for step in part]
)
MESSAGES = st.lists(st.builds(Message, STEPS, undoes=st.booleans(), ends=st.booleans()), min_size=1, max_size=3)


def told(*steps: Any, **more: Any) -> Message:
    """Return a message after which the model sends these calls, each in a response of its own with words."""
    return Message([(TALK, [step]) if isinstance(step[1], dict) else step for step in steps], **more)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([Heedless, Insistent]), MESSAGES, st.sampled_from(CHANGES))
def test_under_their_own_policy_all_sessions_of_a_family_come_to_what_they_came_to(
    kind: type[Heedless], messages: list[Message], keys: dict[str, Any]
) -> None:
    async def scenario() -> None:
        events = await list_events(await play_messages(messages, policy_with(keys), kind))
        played = await rehearse_family(events, None)
        assert [one.stopped for one in played.values()] == [""] * len(events)
        assert {name: one.now for name, one in played.items()} == {n: count_events(e) for n, e in events.items()}
        assert all(one.now == one.then for one in played.values())

    asyncio.run(scenario())


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([Heedless, Insistent]), MESSAGES, st.sampled_from(CHANGES), st.sampled_from(CHANGES))
def test_where_no_session_of_a_family_was_stopped_the_counts_are_those_of_really_playing_it_again(
    kind: type[Heedless], messages: list[Message], before: dict[str, Any], after: dict[str, Any]
) -> None:
    async def scenario() -> None:
        events = await list_events(await play_messages(messages, policy_with(before), kind))
        played = await rehearse_family(events, policy_with(after))
        twice = kind is Heedless or sends_twice([step for message in messages for step in message.steps])
        if twice and any(one.assumed for one in played.values()):
            return
        really = await play_messages(messages, policy_with(after), kind)
        for name, one in played.items():
            if not one.stopped and "." not in name:
                assert one.now == count_events(await really.log.read(name))
        if not any(one.stopped for one in played.values()):
            assert sort_counts(one.now for one in played.values()) == await count_sessions(really)

    asyncio.run(scenario())


async def play_under(messages: Sequence[Message], keys: dict[str, Any], kind: type[Heedless] = Heedless) -> Any:
    """Return the events of sessions that were really played under the default policy with changes."""
    return await list_events(await play_messages(messages, policy_with(keys), kind))


CHILD_EDITS = [told(("", [delegate()]), corpus.READ, corpus.EDIT, DONE)]


async def test_a_child_task_is_played_where_its_parent_begins_it_and_counts_as_a_session() -> None:
    events = await play_under(CHILD_EDITS, {})
    played = await rehearse_family(events, policy_with({"narration.mode": "off"}))
    parent, child = played.values()
    assert (parent.stopped, child.stopped, child.session) == ("", "", "s.c4.1")
    assert (parent.now.ran, child.now.ran) == (1, 2)


async def test_what_stops_a_child_task_stops_its_parent_and_both_say_where() -> None:
    events = await play_under(CHILD_EDITS, {})
    rules = [{"id": "no-edits", "then": "deny", "tool": "edit_file"}]
    parent, child = (await rehearse_family(events, policy_with({"rules.list": rules}))).values()
    assert "a call that ran is answered with denied_by_rule now" in child.stopped
    assert parent.stopped == f"in its child task `s.c4.1`: {child.stopped}"
    assert child.now.held == 1
    assert (parent.at, parent.now) == (4, SessionCounts())  # a turn in the middle counts neither then nor now
    assert child.at == [event.seq for event in events["s.c4.1"] if event.kind == "model_response"][-1]


async def test_a_child_task_that_is_not_begun_now_comes_to_nothing() -> None:
    events = await play_under([told(("", [delegate()]), corpus.READ, DONE)], {})
    parent, child = (await rehearse_family(events, policy_with({"limits.child_depth": 0}), model="same")).values()
    assert (parent.stopped, parent.now.held) == ("", 1)
    assert (child.stopped, child.now.requests, child.then.requests) == ("", 0, 2)


async def test_a_child_task_that_had_not_begun_and_is_let_go_now_stops_its_parent() -> None:
    events = await play_under([told(("", [delegate()]), corpus.READ, DONE)], {"limits.child_depth": 0})
    (parent,) = (await rehearse_family(events, policy_with())).values()
    assert "`delegate` is let go here, which had not run" in parent.stopped


async def test_a_child_task_that_answers_otherwise_stops_its_parent_unless_the_model_is_assumed_to_say_the_same() -> (
    None
):
    steps = [("", [delegate()]), ("", [corpus.READ]), ("", [READ_B]), DONE]
    events = await play_under([Message(steps)], {})
    less = policy_with({"limits.turns": 2})
    parent, child = (await rehearse_family(events, less)).values()
    assert "a child task answers otherwise now" in parent.stopped
    assert (child.stopped, child.now.requests, child.then.requests) == ("", 1, 3)
    parent, _ = (await rehearse_family(events, less, model="same")).values()
    assert parent.assumed == {"model": 1}


async def test_the_question_of_a_child_task_is_answered_by_what_its_parent_was_sent() -> None:
    note = ("note", {"key": "zebra"})
    steps = [("", [delegate()]), (TALK, [note]), (TALK, [note]), DONE]
    sent = [Message(steps, "do it for k"), Message([], "yes, the zebra")]
    events = await play_under(sent, {"uncertainty.threshold": 300})
    assert [event.body.text for event in events["s.c4.1"] if isinstance(event.body, UserMessage)][-1] == sent[1].text
    played = await rehearse_family(events, None)
    assert all(one.now == one.then and not one.stopped for one in played.values())
    unasked = await rehearse_family(events, policy_with({"uncertainty.threshold": 990}))
    assert unasked["s.c4.1"].assumed == {"repeats": 1}
    assert "the model is asked once more than then" in unasked["s"].stopped


async def test_a_child_task_that_waited_for_a_yes_in_another_process_is_played_to_its_end() -> None:
    world = World(policy=corpus.rules(corpus.ASK_EDITS))
    steps = [("", [delegate()]), (TALK, [corpus.READ]), (TALK, [corpus.EDIT]), DONE, DONE]
    model = Heedless(steps)
    session = await world.open(model, [None])
    assert (await run(session, "fix the typo in a.txt")).status == "awaiting_approval"
    await world.kill(session)
    again = await world.open(model, ["yes"], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    events = await list_events(world)
    played = await rehearse_family(events, None)
    assert all(one.now == one.then and not one.stopped for one in played.values())
    assert (played["s"].now.ran, played["s.c4.1"].now.prompts) == (1, 1)


async def test_a_task_that_a_program_began_says_so_and_leaves_its_parent_alone() -> None:
    world = World()
    session = await world.open(Heedless([(TALK, [corpus.READ]), DONE, DONE]))
    await run(session, "read a.txt")
    await session.run_child("say hello")
    parent, child = (await rehearse_family(await list_events(world), None)).values()
    assert (parent.stopped, parent.now) == ("", parent.then)
    assert "a program began this child task" in child.stopped
    assert (child.now, child.then) == (SessionCounts(), SessionCounts())


async def test_a_child_task_whose_log_is_gone_stops_its_parent() -> None:
    events = await play_under(CHILD_EDITS, {})
    del events["s.c4.1"]
    (parent,) = (await rehearse_family(events, None)).values()
    assert parent.stopped == "the log holds no session `s.c4.1`"


async def test_a_child_task_of_a_child_task_is_played_too() -> None:
    events = await play_under([told(("", [delegate()]), ("", [delegate("deeper")]), corpus.READ, DONE, DONE)], {})
    assert len(events) == 3
    played = await rehearse_family(events, None)
    assert all(one.now == one.then and not one.stopped for one in played.values())


FURTHER = [told(corpus.READ, corpus.EDIT, ends=True), told(corpus.READ, ends=True), told(READ_B, OTHER_EDIT)]


async def test_a_session_that_goes_on_with_an_ended_one_knows_what_that_one_does_now() -> None:
    events = await play_under(FURTHER, {})
    assert list(events) == ["s", "s-2", "s-3"]
    for keys in (None, {"narration.mode": "off"}):
        played = await rehearse_family(events, policy_with(keys) if keys else None)
        assert all(one.now == one.then and not one.stopped for one in played.values())
    again = played["s-3"].events
    assert [event.kind for event in again] == [event.kind for event in events["s-3"]]


async def test_what_stops_a_session_stops_those_that_go_on_with_it_and_nothing_is_claimed_of_them() -> None:
    events = await play_under(FURTHER, {})
    rules = [{"id": "no-edits", "then": "deny", "resource": "a.txt", "tool": "edit_file"}]
    first, second, third = (await rehearse_family(events, policy_with({"rules.list": rules}))).values()
    assert "denied_by_rule" in first.stopped
    assert second.stopped == "it resumes session `s`, which was stopped before its end"
    assert third.stopped == "it resumes session `s-2`, which was stopped before its end"
    assert second.now == second.then == third.now == SessionCounts()


async def test_without_the_session_it_goes_on_with_none_is_played() -> None:
    events = await play_under(FURTHER, {})
    del events["s"]
    second, third = (await rehearse_family(events, None)).values()
    assert second.stopped == "it resumes session `s`, which the log does not hold"
    assert third.at == 1


UNDONE = [told(corpus.READ, corpus.EDIT, undoes=True), told(corpus.READ, corpus.EDIT)]


async def test_what_was_undone_is_undone_again_and_has_to_be_looked_at_again() -> None:
    events = await play_under(UNDONE, {})
    played = (await rehearse_family(events, None))["s"]
    assert (played.stopped, played.now) == ("", played.then)
    undone = [event.body.changes for event in played.events if isinstance(event.body, EffectUndone)]
    assert undone == [event.body.changes for event in events["s"] if isinstance(event.body, EffectUndone)] != []


async def test_what_an_earlier_session_did_is_undone_again_in_a_further_one() -> None:
    first, second = told(corpus.READ, corpus.EDIT, ends=True), told(READ_B, undoes=True)
    events = await play_under([first, second], {})
    (undone,) = bodies(events["s-2"], EffectUndone)
    assert undone.call.startswith("s:")
    played = await rehearse_family(events, policy_with({"narration.scope": "first_response"}))
    assert all(not one.stopped and one.now == one.then for one in played.values())
    assert bodies(played["s-2"].events, EffectUndone) == [undone]


async def test_a_call_that_took_what_came_of_its_repeat_is_undone_as_the_call_it_is_now() -> None:
    sent = [told(READ_B), Message([("", [OTHER_EDIT]), (TALK, [OTHER_EDIT])], undoes=True)]
    events = await play_under(sent, {"narration.scope": "first_response"})
    (undone,) = bodies(events["s"], EffectUndone)
    played = (await rehearse_family(events, policy_with({"narration.mode": "off"})))["s"]
    assert (played.stopped, played.assumed) == ("", {"repeats": 1})
    (again,) = bodies(played.events, EffectUndone)
    assert (again.changes, again.call != undone.call) == (undone.changes, True)
    assert again.call in {body.call for body in bodies(played.events, ToolFinished)}


async def test_an_undo_of_what_does_not_run_now_stops_the_session() -> None:
    events = await play_under([told(corpus.READ, corpus.EDIT, undoes=True)], {})
    rules = [{"id": "no-edits", "then": "deny", "tool": "edit_file"}]
    played = (await rehearse_family(events, policy_with({"rules.list": rules}), model="same"))["s"]
    assert "was undone then, which has not run here" in played.stopped


async def test_an_undo_of_the_newest_change_stops_where_another_one_is_the_newest_now() -> None:
    both = [("", [corpus.READ, READ_B]), (TALK, [corpus.EDIT]), (TALK, [OTHER_EDIT])]
    world = World()
    session = await world.open(Heedless([*both, DONE]), Agreeing())
    await run(session, "fix a.txt and b.txt")
    await undo(session)
    events = await list_events(world)
    rules = [{"id": "no-b", "then": "deny", "resource": "b.txt", "tool": "edit_file"}]
    played = (await rehearse_family(events, policy_with({"rules.list": rules}), model="same"))["s"]
    assert "which has not run here" in played.stopped
    older = await world.open(Heedless([*both, DONE]), Agreeing(), name="t")
    world.workspace.files.update({"a.txt": b"teh cat", "b.txt": b"teh dog"})
    await run(older, "fix a.txt and b.txt")
    first = next(body for body in await world.bodies(ToolFinished, "t") if body.changes)
    await undo(older, first.call)  # named, and not the newest
    events = {"t": await world.log.read("t")}
    assert not (await rehearse_family(events, None))["t"].stopped


async def test_an_undo_while_calls_wait_stops_the_session() -> None:
    world = World(policy=corpus.rules(corpus.ASK_EDITS, **{"approval.mode": "scope"}))
    model = Heedless([(TALK, [corpus.READ, READ_B]), (TALK, [corpus.EDIT]), (TALK, [OTHER_EDIT]), DONE])
    session = await world.open(model, ["yes", None])
    await run(session, "fix a.txt and b.txt")
    assert session.state.waits_for_person
    await undo(session)
    await world.kill(session)
    again = await world.open(model, ["yes"], resume=True)
    await run_to_outcome(again)
    played = (await rehearse_family(await list_events(world), None))["s"]
    assert "undone here while calls were waiting" in played.stopped
    assert played.now == played.then


TIME = re.compile(r"2026-[-0-9:T.]+Z")
LETTER = ("letter", {})
STORIES = {
    "what was read has to be read again": [told(corpus.READ, ends=True), told(corpus.EDIT, corpus.READ, corpus.EDIT)],
    "what came from outside stays so": [told(LETTER, ends=True), told(("post", {"to": corpus.BOB}), corpus.READ)],
    "what was refused in a session": [told(corpus.EDIT, ends=True), told(READ_B, OTHER_EDIT, ends=True), told(READ_B)],
    "what a child task read": [told(("", [delegate()]), LETTER, DONE, corpus.READ, corpus.EDIT)],
}


@pytest.mark.parametrize("story", STORIES)
async def test_under_their_own_policy_all_turns_of_a_family_are_judged_from_the_same_facts(story: str) -> None:
    events = await play_under(STORIES[story], {})
    played = await rehearse_family(events, None)
    for name, then in events.items():
        now, recorded = (bodies(of, TurnJudged) for of in (played[name].events, then))
        assert [TIME.sub("", str(turn)) for turn in now] == [TIME.sub("", str(turn)) for turn in recorded]


async def test_a_child_task_of_a_call_that_took_what_came_of_its_repeat_is_that_of_the_repeat() -> None:
    sent = [Message([("", [delegate()]), (TALK, [delegate()]), (TALK, [corpus.READ]), DONE])]
    events = await play_under(sent, {"narration.scope": "first_response"})
    assert list(events)[1] != "s.c4.1"
    parent, child = (await rehearse_family(events, policy_with({"narration.mode": "off"}))).values()
    assert (parent.stopped, parent.assumed, child.stopped) == ("", {"repeats": 1}, "")
    assert child.now == child.then == count_events(events[child.session])


async def test_an_undo_of_the_newest_change_stops_where_repeats_make_another_one_the_newest() -> None:
    both = Message([("", [corpus.EDIT, OTHER_EDIT]), (TALK, [OTHER_EDIT, corpus.EDIT])], undoes=True)
    events = await play_under([told(READ_B), both], {})
    played = (await rehearse_family(events, policy_with({"evidence.mode": "off"})))["s"]
    assert played.stopped == "the newest change was undone then, which is another one here"
    assert played.assumed == {"repeats": 2}
