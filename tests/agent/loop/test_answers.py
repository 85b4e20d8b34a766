"""What becomes of an answer after changes: checked where a plan promised something, truthful whatever is claimed."""

from __future__ import annotations

from typing import Any

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import answers, calls, says
from foregate.schemas.event import Event, TurnJudged
from tests.agent.world import World, plan_json
from tests.events import bodies
from tests.policies import policy_with

TALK = "I understand, and this is what I will do now."
READ = ("read_file", {"path": "a.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
PLANNED = {"plan.due": "first_side_effect", "plan.changed_resources": 1}


def plan(check: str | None, target: str | None, expected: str | None = None, **more: Any) -> Any:
    """Return the planner's answer: a plan for the edit with one criterion."""
    wanted = {"text": "it can be seen", "check": check, "target": target, "expected": expected}
    return answers(plan_json("edit_file", "a.txt") | {"success_criteria": [wanted], **more})


async def told(world: World, *steps: Any) -> tuple[str, list[str], list[Event]]:
    """Return the answer, the postlude's codes and the events of a task that edits a.txt."""
    session = await world.open([calls(READ, text=TALK), calls(EDIT), *steps])
    outcome = await run(session, "fix a.txt")
    session.model.finish()  # type: ignore[attr-defined]
    events = list(await world.log.read("s"))
    rows = [row for body in bodies(events, TurnJudged) for row in body.judgement.decisions]
    return outcome.text, [row.code for row in rows if row.gate == "postlude"], events


async def test_a_promise_that_a_look_confirms_is_verified_and_the_answer_stays_as_it_is() -> None:
    world = World(policy=policy_with(PLANNED))
    text, codes, events = await told(world, plan("file_contains", "a.txt", "the cat"), says("fixed"))
    assert (text, codes) == ("fixed", ["verification_passed"])
    assert [e.actor for e in events if e.kind == "tool_started"][-1] == "postlude"


async def test_a_promise_that_a_look_refutes_is_told_once_and_then_marked() -> None:
    world = World(policy=policy_with(PLANNED))
    text, codes, events = await told(world, plan("file_contains", "a.txt", "the dog"), says("fixed"), says("it is"))
    assert codes == ["verification_pending", "unverified"]
    assert text.startswith("it is\n\n[Foregate: unverified:")
    (notice,) = [body.notice for body in bodies(events, TurnJudged) if body.notice]
    assert "it can be seen (failed)" in notice


async def test_a_model_that_mends_what_was_refuted_is_verified() -> None:
    world = World(policy=policy_with(PLANNED))
    more = ("edit_file", {"path": "a.txt", "old": "cat", "new": "dog"})
    step = {"tool": "edit_file", "target": "a.txt", "description": "again", "effect": None, "uses": 3}
    first = {"tool": "edit_file", "target": "a.txt", "description": "do it", "effect": None, "uses": None}
    wanted = plan("file_contains", "a.txt", "the dog", planned_steps=[first, step])
    text, codes, _ = await told(world, wanted, says("fixed"), calls(more), says("now it is"))
    assert (text, codes) == ("now it is", ["verification_pending", "verification_passed"])


async def test_what_a_plan_promises_in_words_alone_is_never_verified_and_is_named() -> None:
    text, codes, _ = await told(World(policy=policy_with(PLANNED)), plan(None, None), says("fixed"))
    assert codes == ["unverified"]
    assert text == "fixed\n\n[Foregate: unverified: not seen after the last change: it can be seen (unseen)]"


async def test_a_promise_is_looked_at_also_where_the_call_reports_no_change() -> None:
    world = World(policy=policy_with({**PLANNED, "mandate.mode": "off"}))
    wanted = {"text": "b.txt names bob", "check": "file_contains", "target": "b.txt", "expected": "bob"}
    planned = answers(plan_json("send", "bob@example.org") | {"success_criteria": [wanted]})
    send = calls(("send", {"to": "bob@example.org"}), text=TALK)
    session = await world.open([send, planned, says("sent"), says("it is")], ["yes"])
    outcome = await run(session, "send it to bob@example.org")
    assert world.sent == ["bob@example.org"]
    assert outcome.text == "it is\n\n[Foregate: unverified: not seen after the last change: b.txt names bob (failed)]"


async def test_without_a_plan_or_with_the_postlude_off_nothing_is_checked() -> None:
    assert (await told(World(), says("fixed")))[:2] == ("fixed", [])
    off = World(policy=policy_with({**PLANNED, "postlude.mode": "off"}))
    assert (await told(off, plan("file_contains", "a.txt", "the dog"), says("fixed")))[:2] == ("fixed", [])


async def test_an_answer_after_a_failed_change_names_it_whatever_the_model_claims() -> None:
    world = World()
    wrong = ("edit_file", {"path": "b.txt", "old": "no such text", "new": "x"})
    text, _, _ = await told(world, calls(("read_file", {"path": "b.txt"})), calls(wrong), says("all done"))
    assert text.startswith("all done\n\n[Foregate: `edit_file b.txt` failed")
    assert "a.txt" not in text
