"""What has to be named before it may be lost or go along: the first thing nobody spoke of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.losses import list_unspoken
from foregate.policy.risk.request import read_own_request
from foregate.policy.source.load import default_policy
from foregate.schemas.plan import PlanInForce
from foregate.schemas.tool_call import Survey, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Said
from tests.gates.turns import call, turn
from tests.policies import policy_with
from tests.policy.making import facts, file

POLICY = default_policy()
GONE = {"access": Effect.DELETE, "loses": "all"}
RUN = call("run_command", "make")


def unspoken(
    *lost: SurveyedResource, says: str = "tidy up", policy: Policy = POLICY, secrets: tuple[str, ...] = (), **more: Any
) -> list[tuple[str, str]]:
    """Return role and name of what is to be named of a call that has run in a sandbox, or that commits."""
    surveyed = Survey("c1", resources=lost, changes="blob" if lost else "", secrets=secrets)
    bare = replace(facts("run_command", argv=["make"]), call=RUN, survey=surveyed)
    found = list_unspoken(bare, turn(RUN, says=says, **more), read_own_request((says,), policy), policy)
    return [(value.role, value.text) for value in found]


def test_the_first_thing_that_git_cannot_bring_back_is_to_be_named() -> None:
    assert unspoken(file("kept.txt", **GONE), file("b.txt", **GONE)) == [("lost", "kept.txt")]
    assert unspoken(file("a.txt", Effect.DELETE), file("b.txt", Effect.EDIT, loses="all")) == []


@pytest.mark.parametrize(
    "known",
    [
        {"says": "delete kept.txt"},
        {"says": "yes, do it"},
        {"plan": PlanInForce(1, "tidy up", ())},
        {"policy": policy_with({"mandate.naming": ["secrets"]}, POLICY)},
        {"policy": policy_with({"mandate.mode": "off"}, POLICY)},
    ],
)
def test_what_was_asked_for_and_what_the_policy_leaves_to_a_yes_is_not(known: dict[str, Any]) -> None:
    assert unspoken(file("kept.txt", **GONE), **known) == []


@pytest.mark.parametrize("says", ["ok, now count the lines of notes.txt", "yes, and tell me what is new"])
def test_a_yes_before_another_request_is_about_no_file(says: str) -> None:
    assert unspoken(file("kept.txt", **GONE), says=says) == [("lost", "kept.txt")]


@pytest.mark.parametrize(
    ("proposal", "named"),
    [("I would delete kept.txt, shall I?", []), ("Shall I remove her mail?", [("lost", "kept.txt")])],
)
def test_a_yes_to_a_proposal_is_about_what_that_names(proposal: str, named: list[tuple[str, str]]) -> None:
    assert unspoken(file("kept.txt", **GONE), says="yes please", proposal=Said(2, proposal, "model")) == named


def test_what_lies_elsewhere_now_is_not_lost() -> None:
    assert unspoken(file("kept.txt", Effect.DELETE, loses="moved")) == []


def test_a_plan_that_was_made_without_the_calls_is_about_no_file() -> None:
    assert unspoken(file("kept.txt", **GONE), plan=PlanInForce(1, "tidy up", (), blind=True)) == [("lost", "kept.txt")]


def test_a_file_another_one_replaces_is_named_even_as_the_place_to_move_it_to() -> None:
    onto = file("archive/a.txt", Effect.EDIT, loses="replaced")
    assert unspoken(onto, says="move a.txt to archive/a.txt") == [("lost", "archive/a.txt")]
    assert unspoken(onto, says="overwrite archive/a.txt") == []


def test_what_a_reset_takes_back_is_to_be_named_though_the_files_are_still_there() -> None:
    repository = SurveyedResource(ResourceKind.REPOSITORY, ".", Effect.EDIT, exists=True)
    assert unspoken(repository, file("a.py", Effect.EDIT, loses="all")) == [("lost", "a.py")]


STAGED = "what is staged in `pay.py` matches sensitive.patterns[0]"


@pytest.mark.parametrize(
    ("secrets", "says", "named"),
    [
        ((STAGED, "`.env` is staged"), "commit it", [("secret", "pay.py")]),
        ((STAGED, "`.env` is staged"), "commit pay.py", [("secret", ".env")]),
        ((STAGED,), "commit pay.py", []),
        (("the call matches sensitive.patterns[2]",), "commit it", []),
        (("what is staged holds the value of `DB_KEY` in a secret file",), "commit it", []),
        (("the call holds the value of `DB_KEY` in a secret file",), "commit it", []),
        (("what git would commit cannot be looked at: the command works elsewhere; name it as `cwd`",), "do it", []),
        (("what is to be pushed in `pay.py` matches sensitive.patterns[0]",), "push", [("secret", "pay.py")]),
    ],
)
def test_the_first_file_with_a_secret_that_nobody_named_is_to_be_named(
    secrets: tuple[str, ...], says: str, named: list[tuple[str, str]]
) -> None:
    assert unspoken(secrets=secrets, says=says) == named
    assert unspoken(secrets=secrets, says=says, policy=policy_with({"mandate.naming": ["losses"]}, POLICY)) == []


@given(st.lists(st.text(min_size=1, max_size=30), max_size=5), st.text(max_size=60))
def test_what_is_to_be_named_is_one_of_the_things_that_would_be_lost(names: list[str], says: str) -> None:
    found = unspoken(*(file(name, **GONE) for name in names), says=says)
    assert len(found) <= 1
    assert {name for _, name in found} <= {*names}


def test_what_the_task_itself_made_may_go_again() -> None:
    assert unspoken(file("made.txt", changed_before=True, **GONE)) == []
    assert unspoken(file("made.txt", changed_before=True, **GONE), file("b.txt", **GONE)) == [("lost", "b.txt")]
