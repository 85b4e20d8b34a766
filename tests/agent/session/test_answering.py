"""Answers to questions whose session nobody holds: what each may release, and what they never do."""

from __future__ import annotations

import pytest

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.answering import answer_question
from foregate.agent.session.interaction import AbsentPerson
from foregate.agent.session.session import Session
from foregate.schemas.errors import UsageError
from foregate.schemas.event import NeedRaised
from foregate.schemas.protocols import Reply
from foregate.schemas.question import Question
from foregate.telemetry.queries.questions import list_questions
from tests.agent.world import EVE, World
from tests.policies import policy_with

POST = ("post", {"to": EVE, "text": "hello"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
ASK = [{"id": "ask-edits", "then": "ask", "tool": "edit_file"}]
OFF = {"evidence.mode": "off", "plan.mode": "off", "critique.mode": "off"}


async def ask(world: World, *steps: object, request: str = "do what the letter says") -> Question:
    """Have a session of the world ask, and be gone; return its question."""
    session = await world.open(steps, AbsentPerson())
    assert (await run(session, request)).status == "awaiting_approval"
    await world.kill(session)
    (question,) = await list_questions(world.log, world.blobs)
    return question


async def test_a_value_from_outside_is_released_by_its_name_and_by_no_plain_yes() -> None:
    world = World(policy=policy_with(OFF))
    steps = (calls(("letter", {}), text="I read the letter first."), calls(POST, text="I answer it."))
    question = await ask(world, *steps)
    (call,) = question.need.calls
    for reply in (Reply("yes"), Reply("yes", named={call: ("bob@example.org",)}), Reply("no", calls={call: "yes"})):
        with pytest.raises(UsageError, match=f"a yes alone does not release `{call}`; name the value of `to`"):
            await answer_question(world.log, question, reply, world.clock)
    assert await answer_question(world.log, question, Reply("yes", named={call: (EVE,)}), world.clock) == "recorded"
    session = await world.open([says("Sent.")], AbsentPerson(), resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert world.sent == [EVE]


async def test_an_answer_names_the_calls_the_survey_and_the_policy_it_was_given_for() -> None:
    world = World(policy=policy_with({**OFF, "rules.list": ASK}))
    question = await ask(world, calls(EDIT, text="I will fix the typo."), request="fix teh in a.txt")
    await answer_question(world.log, question, Reply("yes", by="ann"), world.clock)
    (raised,) = await world.bodies(NeedRaised)
    events = await world.log.read("s")
    answered = events[-1]
    assert answered.body.answer.survey_hash == raised.survey_hash  # type: ignore[union-attr]
    assert answered.body.answer.digests == raised.need.digests  # type: ignore[union-attr]
    assert answered.body.answer.policy_hash == answered.policy == events[0].policy  # type: ignore[union-attr]


async def test_under_another_policy_the_answer_is_void_and_the_question_is_asked_anew() -> None:
    world = World(policy=policy_with({**OFF, "rules.list": ASK}))
    question = await ask(world, calls(EDIT, text="I will fix the typo."), request="fix teh in a.txt")
    await answer_question(world.log, question, Reply("yes", by="ann"), world.clock)
    other = policy_with({**OFF, "rules.list": ASK, "scope.max_resources": 5})
    session = await world.open([], AbsentPerson(), resume=True, policy=other)
    assert (await run_to_outcome(session)).status == "awaiting_approval"
    assert world.workspace.files["a.txt"] == b"teh cat"
    (again,) = await list_questions(world.log, world.blobs)
    assert (again.need.code, again.asked.seq > question.asked.seq) == ("changed_while_waiting", True)


async def test_the_question_of_a_task_that_was_handed_on_is_answered_in_its_own_log() -> None:
    world = World(policy=policy_with({**OFF, "rules.list": ASK}))
    handed = calls(("delegate", {"task": "fix teh in a.txt"}), text="I hand this on.")
    question = await ask(world, handed, calls(EDIT, text="I will fix the typo."), request="have teh in a.txt fixed")
    assert question.session.startswith("s.")
    assert await answer_question(world.log, question, Reply("yes", by="ann"), world.clock) == "recorded"
    session: Session = await world.open([says("Fixed."), says("Done.")], AbsentPerson(), resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"


async def test_a_call_that_was_held_again_is_done_anyway_where_that_is_answered_elsewhere() -> None:
    world = World(policy=policy_with({"limits.malformed_calls": 2}))
    bad = ("read_file", {"path": 3})
    question = await ask(world, calls(bad), calls(bad), request="go")
    assert question.need.gate == "loop"
    with pytest.raises(UsageError, match="`anyway` is no answer here; answer with stop, more"):
        await answer_question(world.log, question, Reply("anyway"), world.clock)
    with pytest.raises(UsageError, match="`more` needs a text"):
        await answer_question(world.log, question, Reply("more"), world.clock)
    await answer_question(world.log, question, Reply("more", "the path is text"), world.clock)
    session = await world.open([says("thanks")], AbsentPerson(), resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert session.state.messages[-2].text == "the path is text"
