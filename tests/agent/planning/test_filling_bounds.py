"""What of an answer that fills in a task is used, and what a task may not do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.agent.dialects.dialect_model import build_dialect_model
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.planning.validator import validate
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from tests.agent.planning.plans import CONFIGURATION, call, carried_out, confirmed, plan, statuses, task
from tests.agent.world import World

MOST = CONFIGURATION.execution.max_calls_per_task


async def test_a_task_that_lists_too_many_calls_is_a_defect() -> None:
    world = World()
    session = await world.open([])
    many = tuple(call("note", key=str(number)) for number in range(MOST + 1))
    for wanted, sound in ((many, False), (many[:-1], True)):
        found = validate(plan(task(1, *wanted)), session.catalogue, session.workspace, CONFIGURATION)
        assert found.is_sound is sound
        assert [defect.field for defect in found.defects] == ([] if sound else ["calls"])


async def test_an_answer_with_too_many_calls_runs_none_of_them_and_is_told_why() -> None:
    told: list[str] = []

    def fewer(request: object) -> ModelResponse:
        told.append(request.messages[-1].text)  # type: ignore[attr-defined]
        return calls(("note", {"key": "one"}))

    world = World()
    bound = world.policy.limits.calls_per_response
    session = await world.open([calls(*(("note", {"key": str(n)}) for n in range(bound + 1))), fewer])
    report = await carried_out(session, plan(task(1, action="note")))
    assert (report.status, len(world.effects)) == ("completed", 1)
    assert f"{bound + 1} calls" in told[0]


async def test_the_calls_of_both_answers_of_a_task_count_together() -> None:
    world = World()
    execution = CONFIGURATION.execution.model_copy(update={"max_calls_per_task": 2})
    session = await world.open(
        [calls(("read_file", {"path": "a.txt"})), calls(("note", {"key": "one"}), ("note", {"key": "two"}))]
    )
    run = await confirmed(
        session, plan(task(1, action="note")), configuration=CONFIGURATION.model_copy(update={"execution": execution})
    )
    report = await run.run()
    assert (report.status, world.effects[1:]) == ("failed", [])
    assert "1 more" in report.reason


async def test_a_task_that_changes_something_is_not_done_by_a_look() -> None:
    look = calls(("read_file", {"path": "a.txt"}))
    edit = calls(("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}))
    for answers, status in (([look, edit], "done"), ([look, look], "failed")):
        world = World()
        session = await world.open(answers)
        report = await carried_out(session, plan(task(1, action="edit_file", target="a.txt")))
        assert statuses(report) == [status]


NOTHING_SAID = [
    "[]",
    "```json\n[]\n```",
    '{"arguments": {"path": "a.txt"}}',
    '```json\n[{"args": {"path": "a.txt"}}]\n```',
]


@pytest.mark.parametrize("words", ["I'll do it now!", "Let me read a.txt.", *NOTHING_SAID])
async def test_an_answer_that_only_promises_or_is_empty_does_no_task(words: str) -> None:
    look = calls(("read_file", {"path": "a.txt"}))
    for answers, status in (([says(words), look], "done"), ([says(words), says(words)], "failed")):
        session = await World().open(answers)
        report = await carried_out(session, plan(task(1, action="read_file", target="a.txt")))
        assert statuses(report) == [status]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"tool": "read_file", "args": {"path": "a.txt"', "the JSON of this call ends before it is complete"),
        ('{"tool": read_file}', "this call is no valid JSON"),
    ],
    ids=["cut off", "without a name"],
)
async def test_an_answer_that_cannot_be_read_is_sent_back_with_what_is_wrong(text: str, why: str) -> None:
    told: list[str] = []

    def look(request: object) -> ModelResponse:
        told.append(request.messages[-1].text)  # type: ignore[attr-defined]
        return calls(("read_file", {"path": "a.txt"}))

    session = await World().open([says(text), look])
    report = await carried_out(session, plan(task(1, action="read_file", target="a.txt")))
    assert statuses(report) == ["done"]
    assert why in told[0]
    assert "this task was not offered" not in told[0]


@pytest.mark.parametrize("fallback", [False, True])
async def test_a_call_of_another_tool_than_the_task_names_is_told_that_tool_and_the_key_that_offers_all(
    fallback: bool,
) -> None:
    told: list[str] = []

    def again(request: object) -> ModelResponse:
        told.append(request.messages[-1].text)  # type: ignore[attr-defined]
        return calls(("note", {"key": "one"}))

    world = World()
    validation = CONFIGURATION.validation.model_copy(update={"allow_tool_fallback": fallback})
    configuration = CONFIGURATION.model_copy(update={"validation": validation})
    session = await world.open([calls(("shell_exec", {"command": "make"})), again])
    run = await confirmed(session, plan(task(1, action="note")), configuration=configuration)
    assert statuses(await run.run()) == ["done"]
    assert "calls of tools this task was not offered: shell_exec" in told[0]
    named = "call `note`, which the plan names, or set `validation.allow_tool_fallback: true` to offer all"
    assert (named in told[0]) is not fallback


async def test_an_endpoint_that_fails_once_is_asked_once_more() -> None:
    from foregate.schemas.errors import ModelError

    def broken(request: object) -> ModelResponse:
        raise ModelError("the endpoint is gone")

    for answers, status in (([broken, says("yes")], "done"), ([broken, broken], "failed")):
        world = World()
        session = await world.open(answers)
        report = await carried_out(session, plan(replace(task(1), action="analyze_error")))
        assert statuses(report) == [status]


async def test_a_retry_that_looks_first_still_has_to_make_the_change() -> None:
    from foregate.agent.planning.control import follow_plan, reset_failed_tasks
    from tests.agent.planning.test_control import gone_on

    world = World()
    answers = [
        calls(("note", {"key": "one"}), ("read_file", {"path": "none.txt"})),
        calls(("read_file", {"path": "a.txt"})),
        calls(("note", {"key": "two"})),
    ]
    session = await world.open(answers)
    report = await carried_out(session, plan(task(1, action="note")))
    assert report.status == "failed"
    await reset_failed_tasks(session, await follow_plan(session))
    report = await (await gone_on(world, session)).run()
    assert (report.status, len(world.effects)) == ("completed", 4)


async def test_calls_under_other_agents_names_fill_in_a_task_natively_and_in_json() -> None:
    native = calls(("Edit", {"file_path": "a.txt", "old_string": "teh", "new_string": "the"}))
    written = says('[{"tool": "str_replace", "args": {"path": "a.txt", "old_str": "teh", "new_str": "the"}}]')
    for answer in (native, written):
        world = World()
        session = await world.open(build_dialect_model(ScriptedModel([answer]), "native"))
        look, mend = task(1, call("read_file", path="a.txt")), task(2, action="edit_file", target="a.txt", after=(1,))
        report = await carried_out(session, plan(look, mend))
        assert (report.status, world.workspace.files["a.txt"]) == ("completed", b"the cat")


async def test_a_tool_a_task_was_not_offered_is_answered_with_the_nearest() -> None:
    told: list[str] = []

    def again(request: ModelRequest) -> ModelResponse:
        told.append(request.messages[-1].text)
        return says("I cannot.")

    session = await World().open([calls(("MultiEdit", {"file_path": "a.txt", "edits": []})), again])
    await carried_out(session, plan(task(1, action="edit_file", target="a.txt")))
    assert "did you mean `edit_file`?" in told[0]
