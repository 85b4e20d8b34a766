"""Each thing a permission is bound to makes, alone, the difference between a call it covers and one it does not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.support.permitting import is_permitted
from foregate.gates.support.questions import Ask
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.permitted import are_targets_covered, is_covered, is_target_covered, is_value_covered
from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.tool_call import CallFacts, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind, hash_definition
from foregate.schemas.value import ArgumentValue
from tests.gates.turns import CATALOGUE, NOW, call, turn
from tests.policies import policy_with

POLICY = policy_with({})
REASONS = ("approval/approval_required",)
EDIT = CATALOGUE["edit_file"]
GIVEN = Permission("p", "edit_file", "edit", REASONS, hash_definition(EDIT), targets=("file:a.txt",))
FILE = SurveyedResource(ResourceKind.FILE, "a.txt", Effect.EDIT)


def edit(path: str = "a.txt") -> CallFacts:
    """Return the facts of an edit of one file."""
    one = call("edit_file", path, text="x")
    return compute_turn_facts(turn(one), POLICY, CATALOGUE)[one.id]


def test_a_permission_to_keep_what_a_command_changed_is_none_to_run_it() -> None:
    assert is_covered(edit(), GIVEN, NOW, POLICY)
    assert not is_covered(edit(), replace(GIVEN, applied=True), NOW, POLICY)


def test_only_a_wide_permission_to_edit_is_one_to_create_as_well() -> None:
    created = replace(edit("docs/a.md"), effect=Effect.CREATE)
    narrow = replace(GIVEN, targets=("file:docs/a.md",))
    assert not is_covered(created, narrow, NOW, POLICY)
    assert is_covered(created, replace(GIVEN, targets=(), patterns=("docs/**",)), NOW, POLICY)


def test_a_call_that_changes_nothing_known_is_covered_by_no_permission_for_things() -> None:
    facts = edit()
    nothing = replace(facts, survey=replace(facts.survey, resources=()))
    assert are_targets_covered(facts, GIVEN)
    assert not are_targets_covered(nothing, GIVEN)


@pytest.mark.parametrize(
    "change", [{"protected": "secret"}, {"loses": "all", "restorable": False}, {"access": Effect.DELETE}]
)
def test_what_a_command_changed_is_permitted_only_where_an_undo_gives_back_what_was_there(
    change: dict[str, Any],
) -> None:
    applied = replace(GIVEN, applied=True)
    assert is_target_covered(FILE, applied)
    assert not is_target_covered(replace(FILE, **change), applied)


@pytest.mark.parametrize("leave", [{"permission": GIVEN}, {"standing_rule": "ours"}])
def test_leave_given_before_is_none_for_what_somebody_has_to_name(leave: dict[str, Any]) -> None:
    facts = replace(edit(), **leave)
    assert is_permitted(Ask(facts, "approval", "approval_required", ("approval_required",), ""), POLICY)
    assert not is_permitted(Ask(facts, "approval", "outside_mandate", ("approval_required",), ""), POLICY)


def test_a_rule_that_stands_for_a_yes_does_so_for_no_other_rule() -> None:
    facts = replace(edit(), standing_rule="ours")
    assert not is_permitted(Ask(facts, "rules", "approval_required", ("approval_required",), ""), POLICY)


@pytest.mark.parametrize(
    ("text", "fits"), [("50", True), ("49.99", True), ("0", True), ("50.01", False), ("-1", False), ("ten", False)]
)
def test_a_permission_up_to_an_amount_covers_that_amount_and_less_and_nothing_that_is_no_amount(
    text: str, fits: bool
) -> None:
    permitted = PermittedValue("amount", "number:50", "50", at_most=True)
    value = ArgumentValue("amount", "amount", text, f"number:{text}", "said")
    assert is_value_covered(value, permitted) is fits
    assert is_value_covered(replace(value, path="other"), permitted) is False
    assert is_value_covered(value, replace(permitted, at_most=False)) is (text == "50")
