"""A reply answers what it names, or plainly says yes to; what knows nothing answers nothing."""

from __future__ import annotations

import pytest

from foregate.policy.risk.proposal import list_answered_slots
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import HoldCount, Said
from tests.gates.turns import call, turn
from tests.policies import policy_with

CALL = call("delete_path", "old/a.txt")
AIMED = (SurveyedResource(ResourceKind.FILE, "old/a.txt", Effect.DELETE, exists=True),)


def answered(*replies: str, asked: bool = True, actor: str = "user", mode: str = "enforce") -> tuple[str, ...]:
    """Return the slots that these replies answer, of a target and a scope."""
    messages = (Said(3, "clean up"), *(Said(seq, text, actor) for seq, text in enumerate(replies, 4)))
    holds = (HoldCount(CALL.digest, "uncertainty_clarification", "f", 1),) if asked else ()
    of = turn(CALL, slots_answered=("target", "scope"), holds=holds)
    policy = policy_with({"mandate.mode": mode})
    return list_answered_slots(CALL.digest, AIMED, type(of)(**{**fields(of), "user_messages": messages}), policy)


def fields(of: object) -> dict[str, object]:
    return {name: getattr(of, name) for name in of.__struct_fields__}  # type: ignore[attr-defined]


@pytest.mark.parametrize("reply", ["old/a.txt", "Take a.txt.", "the one in old/a.txt please"])
def test_a_reply_that_names_the_target_answers_all(reply: str) -> None:
    assert answered(reply) == answered(reply, asked=False) == ("target", "scope")


@pytest.mark.parametrize("reply", ["yes", "Yes, do it.", "ok", "Yes, delete it."])
def test_a_plain_yes_answers_for_the_call_that_was_asked_about_and_for_no_other(reply: str) -> None:
    assert answered(reply) == ("target", "scope")
    assert answered(reply, asked=False) == ()


@pytest.mark.parametrize(
    "reply",
    [
        "I only want the lines counted.",
        "ok, count the lines",
        "no idea",
        "Which one?",
        "I don't know",
        "keine Ahnung",
        "What do you mean?",
        "a.txt?",
    ],
)
def test_a_reply_that_knows_nothing_answers_nothing(reply: str) -> None:
    assert answered(reply) == ()


@pytest.mark.parametrize("reply", ["b.txt", "yes, but b.txt", "rather the one in new/b.txt"])
def test_a_reply_that_names_another_target_leaves_the_target_open(reply: str) -> None:
    assert "target" not in answered(reply)


def test_a_later_reply_answers_after_one_that_did_not() -> None:
    assert answered("no idea", "a.txt") == ("target", "scope")


def test_what_no_person_said_answers_nothing_more() -> None:
    assert answered("a.txt", actor="parent") == ("target", "scope") == answered(mode="enforce")


def test_without_a_mandate_any_reply_answers() -> None:
    assert answered("no idea", mode="off") == ("target", "scope")
    assert default_policy().mandate.mode == "enforce"
