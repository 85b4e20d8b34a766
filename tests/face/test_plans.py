"""A program's person confirms plans as the one at a terminal does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foregate import AbsentPerson, Agent, Approvals, Reply
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson
from foregate.policy.policy import Policy
from foregate.schemas.errors import UsageError
from foregate.schemas.event import NeedAnswered
from foregate.schemas.task_plan import PlanConfirmed, PlannedCall, PlanTask, TaskPlan
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog

NAMES = ("a.txt", "b.txt")


def mended(number: int, name: str) -> PlanTask:
    """Return a task that reads and edits a file."""
    edit = {"path": name, "old": "teh", "new": "the"}
    calls = (PlannedCall("read_file", {"path": name}), PlannedCall("edit_file", edit))
    return PlanTask(number, reason=f"fix {name}", calls=calls)


PLAN = TaskPlan("p", "", "fix both", (mended(1, "a.txt"), mended(2, "b.txt")))


@pytest.fixture
def options(folder: Path, policy: Policy) -> dict[str, Any]:
    """Options of an agent over a log in memory and two files."""
    for name in NAMES:
        (folder / name).write_text("teh\n")
    return {"workspace": folder, "policy": policy, "log": MemoryLog(), "model": ScriptedModel([])}


def contents(folder: Path) -> list[str]:
    """Return what the files hold."""
    return [(folder / name).read_text().strip() for name in NAMES]


async def test_steps_a_person_chose_hold_in_the_agent_that_resumes_the_session(
    options: dict[str, Any], folder: Path
) -> None:
    person = ScriptedPerson(["step", "yes", "no"])
    async with Agent(person=person, **options) as agent:
        assert (await agent.execute(PLAN)).status == "paused"
        name = agent.session
    assert [need.key for need in person.needs] == ["confirm:1", "task:1", "task:2"]
    assert contents(folder) == ["the", "teh"]
    for reply, status, second in (("no", "paused", "teh"), ("yes", "completed", "the")):
        again = ScriptedPerson([reply])
        async with Agent(person=again, resume=name, **options) as agent:
            assert (await agent.execute(PLAN)).status == status
        assert [need.key for need in again.needs] == ["task:2"]
        assert contents(folder) == ["the", second]
    confirmed = [event.body for event in await options["log"].read(name) if isinstance(event.body, PlanConfirmed)]
    assert [(body.approved, body.step) for body in confirmed] == [(True, True)]


async def test_a_no_runs_nothing_and_a_question_left_open_is_asked_again(options: dict[str, Any], folder: Path) -> None:
    person = ScriptedPerson([None, "no"])
    async with Agent(person=person, **options) as agent:
        first, second = await agent.execute(PLAN), await agent.execute(PLAN)
    assert (first.status, second.status) == ("awaiting_approval", "cancelled")
    assert "not confirmed" in second.reason
    assert contents(folder) == ["teh", "teh"]


async def test_a_plan_said_to_be_confirmed_is_not_asked_about_and_leaves_nothing_open(
    options: dict[str, Any], folder: Path
) -> None:
    person = ScriptedPerson([])
    async with Agent(person=person, **options) as agent:
        assert (await agent.execute(PLAN, confirmed=True)).status == "completed"
        log = await options["log"].read(agent.session)
    assert [event.body.approved for event in log if isinstance(event.body, PlanConfirmed)] == [False]
    assert not [event for event in log if isinstance(event.body, NeedAnswered)]
    assert contents(folder) == ["the", "the"]


async def test_with_neither_a_person_nor_a_yes_a_plan_is_refused(options: dict[str, Any], folder: Path) -> None:
    async with Agent(**options) as agent:
        with pytest.raises(UsageError, match="confirmed=True"):
            await agent.execute(PLAN)
    assert contents(folder) == ["teh", "teh"]


async def test_a_plan_is_confirmed_from_elsewhere_step_by_step_and_no_answer_counts_twice(
    options: dict[str, Any], folder: Path
) -> None:
    options["blobs"] = MemoryBlobs()
    approvals = Approvals(options["log"], options["blobs"])
    async with Agent(person=AbsentPerson(), **options) as agent:
        assert (await agent.execute(PLAN)).status == "awaiting_approval"
        name = agent.session
    seen = []
    for reply, after in (("step", ["teh", "teh"]), ("yes", ["the", "teh"]), ("no", ["the", "teh"])):
        (question,) = await approvals.list()
        seen.append(question.need.key)
        await approvals.answer(question, Reply(reply, by="ann"))
        async with Agent(resume=name, **options) as agent:
            await agent.go_on()
        assert contents(folder) == after
    assert seen == ["confirm:1", "task:1", "task:2"]
    assert await approvals.list() == []
    async with Agent(person=AbsentPerson(), resume=name, **options) as agent:
        assert (await agent.execute(PLAN)).status == "paused"
    (again,) = await approvals.list()
    assert again.need.key == "task:2"
