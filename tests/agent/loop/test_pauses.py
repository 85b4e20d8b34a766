"""A session that waits for a person: what a yes is worth later."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.agent.loop.cancelling import cancel_task
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import answers, calls, says
from foregate.agent.session.answering import answer_question
from foregate.agent.session.session import Session
from foregate.schemas.errors import UsageError
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import TaskEnded
from foregate.schemas.protocols import Reply
from foregate.telemetry.queries.questions import list_questions
from tests.agent.world import ACCEPT, World, plan_json
from tests.policies import policy_with

SEND = ("send", {"to": "bob@example.org", "text": "hello"})
TALK = "I will send Bob the greeting you asked for."
ADVICE = [answers(plan_json("send", "bob@example.org")), answers(ACCEPT)]
REQUEST = "send a greeting to bob@example.org"
ASK_EDITS = {"id": "ask-edits", "then": "ask", "tool": "edit_file"}
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
READ = ("read_file", {"path": "a.txt"})


def asking(**keys: Any) -> Any:
    """Return a policy in which edits ask."""
    listed = policy_with().model_dump(mode="json")["rules"]["list"]
    return policy_with({"rules.list": [*listed, ASK_EDITS], **keys})


async def paused() -> tuple[World, Session]:
    """Return a world in which an edit waits for a yes and the process is gone."""
    world = World(policy=asking())
    session = await world.open([calls(READ, text=TALK), calls(EDIT)], [None])
    assert (await run(session, "fix the typo in a.txt")).status == "awaiting_approval"
    await world.kill(session)
    return world, session


async def test_a_yes_is_asked_once_for_plan_critique_and_call() -> None:
    world = World()
    session = await world.open([calls(SEND, text=TALK), *ADVICE, says("sent")], ["yes"])
    assert (await run(session, REQUEST)).status == "completed"
    assert world.sent == ["bob@example.org"]


async def test_without_an_answer_the_task_pauses_and_nothing_has_run() -> None:
    world, _ = await paused()
    assert world.files["a.txt"] == b"teh cat"
    assert (await world.kinds())[-1] == "task_paused"


async def test_a_yes_after_the_restart_counts_when_nothing_has_changed() -> None:
    world, _ = await paused()
    session = await world.open([says("done")], ["yes"], resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"
    assert (await world.kinds()).count("need_raised") == 1


async def test_a_yes_given_just_before_the_process_ended_counts() -> None:
    world = World(policy=asking())

    class Killed(BaseException):
        pass

    def kill(event: Any) -> None:
        if event.kind == "need_answered":
            raise Killed

    session = await world.open([calls(READ, text=TALK), calls(EDIT)], ["yes"], listeners=[kill])
    try:
        await run(session, "fix the typo in a.txt")
    except Killed:
        await world.kill(session)
    again = await world.open([says("done")], [], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"


async def test_a_file_changed_while_waiting_voids_the_yes_and_evidence_holds_the_call() -> None:
    world, _ = await paused()

    def change_first(need: Any) -> Any:
        world.workspace.files["a.txt"] = b"teh elephant"
        return None

    world.workspace.files["a.txt"] = b"teh dog"
    session = await world.open([says("it changed, so I did nothing")], [], resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert world.workspace.files["a.txt"] == b"teh dog"
    assert "stale_evidence" in session.state.messages[-2].text


async def test_a_file_changed_between_the_sheet_and_the_yes_voids_all_answers() -> None:
    world = World(policy=asking())

    def yes_too_late(_: Any) -> Any:
        from foregate.schemas.protocols import Reply

        world.workspace.files["a.txt"] = b"teh dog"
        return Reply("yes")

    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("it changed")], [yes_too_late])
    await run(session, "fix the typo in a.txt")
    judged = await world.bodies(TurnJudged)
    assert judged[1].turn.voided[0].gate == "approval"
    assert world.workspace.files["a.txt"] == b"teh dog"


async def test_a_policy_changed_while_waiting_brings_a_new_sheet_that_says_so() -> None:
    world, _ = await paused()
    changed = asking(**{"approval.expires": 7200})
    session = await world.open([says("done")], ["yes"], resume=True, policy=changed)
    await run_to_outcome(session)
    assert "policy_changed" in await world.kinds()
    assert world.workspace.files["a.txt"] == b"the cat"


async def test_a_yes_under_one_policy_is_void_under_the_next() -> None:
    world = World(policy=asking())
    session = await world.open([calls(READ, text=TALK), calls(EDIT)], [None])
    await run(session, "fix the typo in a.txt")
    open_turn = session.state.open
    assert open_turn is not None
    assert open_turn.need is not None
    turn, yes = session.turns.build_turn(open_turn).turn, {"choice": "yes", "text": "", "by": "person"}
    await session.interaction.record_answer(open_turn.need.need, turn, yes)
    await world.kill(session)
    again = await world.open([says("no")], ["no"], resume=True, policy=asking(**{"scope.max_resources": 5}))
    await run_to_outcome(again)
    (need,) = again.person.needs  # type: ignore[union-attr]
    assert (need.code, world.workspace.files["a.txt"]) == ("changed_while_waiting", b"teh cat")


async def test_an_approval_that_has_expired_is_a_no() -> None:
    world, _ = await paused()
    world.clock.seconds += 86401
    session = await world.open([says("nobody came")], [], resume=True)
    await run_to_outcome(session)
    assert "approval_expired" in session.state.messages[-2].text
    assert world.workspace.files["a.txt"] == b"teh cat"


async def test_a_message_answers_no_question_and_changes_nothing() -> None:
    world, _ = await paused()
    session = await world.open([], [], resume=True)
    before = await world.kinds()
    with pytest.raises(UsageError, match="the question `s:9` is open, and no message answers it"):
        await run(session, "yes")
    assert await world.kinds() == before
    assert session.state.question is not None


async def test_a_task_that_is_given_up_leaves_no_question_and_runs_nothing() -> None:
    world, _ = await paused()
    session = await world.open([says("hello")], [], resume=True)
    assert (await cancel_task(session)).status == "cancelled"
    assert session.state.question is None
    assert (await run(session, "something else: say hello")).text == "hello"
    assert world.workspace.files["a.txt"] == b"teh cat"
    assert "need_answered" not in await world.kinds()
    ended = [body.status for body in await world.bodies(TaskEnded)]
    assert ended == ["cancelled", "completed"]


async def test_time_that_passes_between_an_answer_elsewhere_and_going_on_does_not_count() -> None:
    world, _ = await paused()
    question = (await list_questions(world.log, world.blobs))[0]
    assert await answer_question(world.log, question, Reply("yes", by="ann"), world.clock) == "recorded"
    world.clock.seconds += 3000
    session = await world.open([says("done")], [], resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"
    (ended,) = await world.bodies(TaskEnded)
    assert ended.duration < 10


async def test_an_answer_elsewhere_is_void_where_the_file_has_changed_since() -> None:
    world, _ = await paused()
    question = (await list_questions(world.log, world.blobs))[0]
    await answer_question(world.log, question, Reply("yes", by="ann"), world.clock)
    world.workspace.files["a.txt"] = b"teh dog"
    session = await world.open([says("it changed")], [], resume=True)
    await run_to_outcome(session)
    assert world.workspace.files["a.txt"] == b"teh dog"
    judged = await world.bodies(TurnJudged)
    assert [voided.gate for body in judged for voided in body.turn.voided] == ["approval"]


async def test_the_wall_clock_stops_while_a_person_is_asked() -> None:
    world, _ = await paused()
    world.clock.seconds += 3000
    session = await world.open([says("done")], ["yes"], resume=True)
    await run_to_outcome(session)
    (ended,) = await world.bodies(TaskEnded)
    assert ended.duration < 10


async def test_a_refused_call_sent_again_unchanged_stays_refused() -> None:
    world = World(policy=asking())
    session = await world.open([calls(READ, text=TALK), calls(EDIT), calls(EDIT), says("I see")], ["no"])
    await run(session, "fix the typo in a.txt")
    assert "refused_before" in session.state.messages[-2].text
    assert world.workspace.files["a.txt"] == b"teh cat"


async def test_a_call_held_twice_for_one_reason_is_put_before_the_person_who_may_stop_it() -> None:
    world = World(policy=policy_with({"limits.malformed_calls": 2}))
    bad = ("read_file", {"path": 3})
    session = await world.open([calls(bad), calls(bad)], ["stop"])
    outcome = await run(session, "go")
    assert outcome.status == "blocked"


async def test_a_person_may_answer_a_repeated_hold_with_words_for_the_model() -> None:
    from foregate.schemas.protocols import Reply

    world = World(policy=policy_with({"limits.malformed_calls": 2}))
    bad = ("read_file", {"path": 3})
    session = await world.open([calls(bad), calls(bad), says("thanks")], [Reply("more", "the path is text")])
    assert (await run(session, "go")).status == "completed"
    assert session.state.messages[-2].text == "the path is text"
