"""How policies differ, and a policy with single values replaced."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.source.load import default_policy
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import compare_policies, list_values, replace_values
from tests.policies import policy_with

RULE = {"id": "mine", "then": "deny", "tool": "x"}
CHANGES: list[tuple[str, Any]] = [
    ("uncertainty.threshold", 7),
    ("holds", "whole_response"),
    ("files.secret", ["x"]),
    ("tools.send", {"effect": "edit", "targets": {}}),
    ("plan.on_unavailable.other", "hold"),
]


def test_a_policy_does_not_differ_from_itself() -> None:
    assert compare_policies(default_policy(), policy_with({"plan.form": "blind"})) == {}


@given(st.lists(st.sampled_from(CHANGES), unique_by=lambda change: change[0]))
def test_replacing_what_differs_gives_the_other_policy_and_back(changes: list[tuple[str, Any]]) -> None:
    before, after = default_policy(), policy_with(dict(changes), default_policy())
    found = compare_policies(before, after)
    assert bool(found) == bool(changes)
    assert replace_values(before, {path: new for path, (_, new) in found.items()}).hash == after.hash
    back = replace_values(after, {path: old for path, (old, _) in found.items()})
    assert compare_policies(before, back) == {}


def test_a_rule_stands_under_its_id_and_can_be_added_replaced_and_taken_out() -> None:
    path = ("rules", "list", "mine")
    added = replace_values(default_policy(), {path: RULE})
    assert compare_policies(default_policy(), added) == {path: (None, RULE)}
    replaced = replace_values(added, {path: RULE | {"then": "ask"}})
    assert list_values(replaced)[path]["then"] == "ask"
    assert replace_values(replaced, {path: None}).hash == default_policy().hash


def test_an_entry_of_a_command_is_one_value() -> None:
    after = replace_values(default_policy(), {("commands", "read_only", "tree"): {"options": ["-a"]}})
    assert list(compare_policies(default_policy(), after)) == [("commands", "read_only", "tree")]


def test_values_that_make_no_policy_are_refused() -> None:
    with pytest.raises(ValueError, match="threshold"):
        replace_values(default_policy(), {("uncertainty", "threshold"): 2000})


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("limits.turns", True),
        ("limits.needs_per_gate", False),
        ("http.timeout", True),
        ("http.hosts", False),
        ("commands.execute_command", True),
        ("plan.max_bytes", True),
        ("plan.mode", False),
        ("files.secret", False),
    ],
)
def test_what_judging_again_cannot_tell_of_is_known_by_its_key(key: str, expected: bool) -> None:
    assert is_outside_judging(tuple(key.split("."))) is expected
