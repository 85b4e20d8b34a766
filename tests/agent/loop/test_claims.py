"""What an answer claims or only promises, beside what the task really did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session.result import RunResult
from foregate.schemas.event import TurnJudged
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall
from tests.agent.world import World
from tests.policies import policy_with

TALK = "I understand, and this is what I will do now."
READ = ("read_file", {"path": "a.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
MISNAMED = ("edit_file", {"path": "a.txt", "contents": "the cat"})
WRONG = ("edit_file", {"path": "a.txt", "old": "zzz", "new": "x"})
CLAIM = "Done: I fixed a.txt."
ASKED = "fix a.txt"


def unreadable(why: str) -> ModelResponse:
    """Return a response whose one call was begun and cannot be read."""
    return ModelResponse(TALK, (ToolCall.from_defect("edit_file", "<edit_file><path>a.txt", why),), "tool_calls")


async def end(*steps: Any, asked: str = ASKED, person: Sequence[Any] | None = None, **more: Any) -> RunResult:
    """Return how a task ends whose model does these steps."""
    session = await World().open(list(steps), person, **more)
    result = await run(session, asked)
    assert isinstance(session.model, ScriptedModel)
    session.model.finish()
    return result


FORMS: dict[str, tuple[str, list[ModelResponse], dict[str, Any]]] = {
    "arguments of another tool": ("invalid_arguments", [calls(MISNAMED, text=TALK)], {}),
    "a tag that is never closed": ("invalid_arguments", [unreadable("`edit_file` is not closed")], {}),
    "a result that cannot be put in": ("invalid_arguments", [unreadable("`$result_of_step_1` is no argument")], {}),
    "a tool that is not there": ("unknown_tool", [calls(("create_file", {"path": "a.txt"}), text=TALK)], {}),
    "a response that was cut off": (
        "not_run_truncated",
        [replace(calls(EDIT, text=TALK), finish_reason="length")],
        {},
    ),
    "words were asked for": (
        "text_only_turn_side_effecting_tool_drift",
        [calls(EDIT, text=TALK)],
        {"asked": "don't change anything", "policy": policy_with({"evidence.mode": "off"})},
    ),
    "a person says no": (
        "approval_denied",
        [calls(("send", {"to": "eve@example.org"}), text=TALK)],
        {"person": ["no"], "policy": policy_with({"plan.mode": "off", "critique.mode": "off"})},
    ),
    "an earlier change failed": (
        "not_run_after_change_not_made",
        [calls(READ, text=TALK), calls(WRONG, ("note", {"key": "k"}))],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
async def test_a_claim_about_a_call_that_did_not_run_carries_a_line_that_names_it(form: str) -> None:
    code, steps, more = FORMS[form]
    result = await end(*steps, says(CLAIM), **more)
    assert result.text.startswith(CLAIM + "\n\n[Foregate: ")
    assert f"was not done ({code})" in result.remark


@pytest.mark.parametrize("form", [form for form in FORMS if "person" not in form and "earlier" not in form])
@pytest.mark.parametrize(
    "words", ["I could not fix a.txt: the call was not accepted.", "a.txt was not changed.", "It reads `teh cat`."]
)
async def test_an_answer_that_claims_nothing_carries_no_line(form: str, words: str) -> None:
    _, steps, more = FORMS[form]
    assert (await end(*steps, says(words), **more)).text == words


async def test_a_claim_without_any_call_that_could_have_done_it_carries_a_line() -> None:
    assert (await end(says(CLAIM))).remark == "[Foregate: no call of this task did what the answer says]"
    assert (await end(calls(READ), says(CLAIM))).remark


async def test_a_claim_of_something_that_was_done_carries_no_line_whatever_went_wrong_before() -> None:
    wrong = calls(MISNAMED, text=TALK)
    assert (await end(wrong, calls(READ), calls(EDIT), says(CLAIM))).text == CLAIM
    again = (calls(READ, text=TALK), calls(EDIT), calls(("view_file", {"path": "a.txt"})))
    assert (await end(*again, says(CLAIM))).text == CLAIM


async def test_a_message_that_did_not_go_out_is_named_though_a_file_was_changed() -> None:
    lost = calls(("send", {"address": "bob@example.org"}))
    ended = await end(calls(READ, text=TALK), calls(EDIT), lost, says("I fixed a.txt and sent it to Bob."))
    assert ended.remark == "[Foregate: `send` was not done (invalid_arguments)]"


async def test_what_is_said_of_things_nobody_asked_to_change_carries_no_line() -> None:
    assert not (await end(calls(READ), says("It was created in May."), asked="who wrote a.txt?")).remark


async def test_an_answer_that_only_promises_is_asked_once_to_act_and_then_blocks_the_task() -> None:
    promise = says("I will read a.txt and tell you.")
    assert (await end(promise, calls(READ), says("It says teh cat."), asked="read a.txt")).status == "completed"
    ended = await end(promise, says("Let me do it now!"), asked="read a.txt")
    assert (ended.status, ended.report.blocker) == (
        "blocked",
        "the model only said what it would do, and nothing ran",
    )


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("hello", "I will help where I can."),
        ("fix a.txt", "I will fix it. Which of the two words do you mean?"),
        ("just explain how you fix a.txt", "I will replace the word."),
        ("fix a.txt", "There is nothing to fix."),
    ],
)
async def test_where_nothing_was_asked_for_or_something_is_asked_back_no_request_is_added(
    asked: str, text: str
) -> None:
    assert (await end(says(text), asked=asked)).status == "completed"


async def test_an_empty_list_of_promises_asks_nobody_again() -> None:
    quiet = policy_with({"postlude.promises": []})
    assert (await end(says("I will fix it."), policy=quiet)).status == "completed"


async def test_where_no_plan_promised_anything_an_answer_after_a_change_is_not_checked() -> None:
    world = World()
    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("I corrected a.txt.")])
    assert (await run(session, "fix a.txt")).status == "completed"
    assert {body.turn.actor for body in await world.bodies(TurnJudged)} == {"model"}
