"""Answers from a program: an open question is answered, given up or left open, and no message is taken for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate.schemas.event import NeedAnswered, NeedRaised
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from foregate.testing import ScriptedModel, calls, says
from tests.events import bodies
from tests.policies import policy_with

EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
TALK = "I will fix the typo in a.txt."
ASK = [{"id": "ask-edits", "then": "ask", "tool": "edit_file"}]


@pytest.fixture
def options(folder: Path) -> dict[str, Any]:
    """Options of an agent whose edits ask, over a log in memory that outlives it."""
    (folder / "a.txt").write_text("teh cat")
    policy = policy_with({"rules.list": ASK, "evidence.mode": "off", "plan.mode": "off", "critique.mode": "off"})
    return {"workspace": folder, "policy": policy, "log": MemoryLog(), "blobs": MemoryBlobs()}


async def ask(options: dict[str, Any]) -> str:
    """Have an agent ask and be gone; return the session's name."""
    model = ScriptedModel([calls(EDIT, text=TALK)])
    async with foregate.Agent(model=model, person=foregate.AbsentPerson(), **options) as agent:
        assert (await agent.run("fix teh in a.txt")).status == "awaiting_approval"
        return agent.session


async def test_an_answer_in_another_agent_goes_on_exactly_where_the_question_was_asked(
    options: dict[str, Any], folder: Path
) -> None:
    name = await ask(options)
    async with foregate.Agent(model=ScriptedModel([says("Done.")]), resume=name, **options) as agent:
        (question,) = await agent.open_questions()
        outcome = await agent.answer(question, foregate.Reply("yes", by="ann@example.org"))
    assert (outcome.status, (folder / "a.txt").read_text()) == ("completed", "the cat")
    events = await options["log"].read(name)
    assert len(bodies(events, NeedRaised)) == 1
    (answered,) = bodies(events, NeedAnswered)
    assert answered.answer.value == {"choice": "yes", "text": "", "by": "ann@example.org"}


@pytest.mark.parametrize("person", [None, foregate.AbsentPerson()])
async def test_a_message_is_never_a_no_and_changes_nothing(options: dict[str, Any], person: Any) -> None:
    name = await ask(options)
    async with foregate.Agent(model=ScriptedModel([]), resume=name, person=person, **options) as agent:
        before = await options["log"].read(name)
        for message in ("yes", "do something else"):
            with pytest.raises(foregate.UsageError, match=r"is open, and no message answers it; answer it .* give its"):
                await agent.run(message)
        assert await options["log"].read(name) == before
        assert len(await agent.open_questions()) == 1


async def test_a_task_is_given_up_in_so_many_words_and_the_next_one_begins(
    options: dict[str, Any], folder: Path
) -> None:
    name = await ask(options)
    async with foregate.Agent(model=ScriptedModel([says("Hello.")]), resume=name, **options) as agent:
        assert (await agent.cancel()).status == "cancelled"
        assert await agent.open_questions() == []
        assert (await agent.run("say hello")).text == "Hello."
    assert (folder / "a.txt").read_text() == "teh cat"


async def test_an_answer_given_elsewhere_is_gone_on_with_and_no_message_comes_between(
    options: dict[str, Any], folder: Path
) -> None:
    name = await ask(options)
    approvals = foregate.Approvals(options["log"], options["blobs"])
    assert await approvals.answer(name, foregate.Reply("yes", by="ann")) == "recorded"
    async with foregate.Agent(model=ScriptedModel([says("Done.")]), resume=name, **options) as agent:
        with pytest.raises(foregate.UsageError, match="has been answered; resume it"):
            await agent.run("well?")
        assert (await agent.go_on()).status == "completed"
        with pytest.raises(foregate.UsageError, match="no task is open"):
            await agent.go_on()
    assert (folder / "a.txt").read_text() == "the cat"


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (foregate.Reply("maybe"), "`maybe` is no answer here; answer with yes, grant, project, no"),
        (foregate.Reply("yes", calls={"c9.9": "yes"}), "`c9.9` is no call of this question"),
        (foregate.Reply("project"), "what holds beyond this session is said at the sheet"),
    ],
)
async def test_what_answers_nothing_is_refused_and_the_question_stays_open(
    options: dict[str, Any], reply: foregate.Reply, sentence: str
) -> None:
    name = await ask(options)
    approvals = foregate.Approvals(options["log"], options["blobs"])
    with pytest.raises(foregate.UsageError, match=sentence):
        await approvals.answer(name, reply)
    assert len(await approvals.list()) == 1


async def test_another_question_and_a_closed_one_take_no_answer(options: dict[str, Any]) -> None:
    name = await ask(options)
    approvals = foregate.Approvals(options["log"], options["blobs"])
    for wrong, sentence in (
        (f"{name}:1", "asks no person anything"),
        (f"{name}:999", "asks no person anything"),
        (f"{name}:x", "names no question"),
        ("nothing", "there is no session"),
    ):
        with pytest.raises(foregate.ForegateError, match=sentence):
            await approvals.answer(wrong, foregate.Reply("yes"))
    (question,) = await approvals.list()
    await approvals.answer(question, foregate.Reply("no", by="ann"))
    with pytest.raises(foregate.UsageError, match="was answered already: no, by ann"):
        await approvals.answer(question, foregate.Reply("yes", by="bob"))


async def test_a_further_question_of_a_task_that_goes_on_waits_as_the_first_did(options: dict[str, Any]) -> None:
    name = await ask(options)
    again = ("edit_file", {"path": "a.txt", "old": "cat", "new": "dog"})
    async with foregate.Agent(model=ScriptedModel([calls(again, text=TALK)]), resume=name, **options) as agent:
        assert (await agent.answer(name, "yes")).status == "awaiting_approval"
        assert [one.need.digests for one in await agent.open_questions()] != []
