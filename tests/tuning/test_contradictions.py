"""Conditions of a rule that contradict each other are named."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Rule
from foregate.policy.source.load import default_policy
from foregate.tuning.contradictions import find_contradictions
from tests.policies import policy_with
from tests.tuning.rule_calls import OTHERS, OWN


def find(text: dict[str, object], then: str = "ask") -> list[str]:
    rule = Rule.model_validate({"id": "x", "then": then, **text}, strict=False)
    return list(find_contradictions(rule, default_policy(), OWN, OTHERS))


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ({"tool": "read_file", "command": ["rm"]}, "tool", "command"),
        ({"tool": "read_file", "kind": "url"}, "tool", "kind"),
        ({"tool": "edit_file", "host": "example.org"}, "tool", "host"),
        ({"tool": "list_processes", "resource": "src/**"}, "tool", "resource"),
        ({"tool": "http_request", "protected": ["secret"]}, "tool", "protected"),
        ({"tool": "read_file", "capability": ["external_side_effect"]}, "tool", "capability"),
        ({"tool": "read_file", "secrets": True}, "tool", "secrets"),
        ({"tool": "read_file", "risk_at_least": 500}, "tool", "risk_at_least"),
        ({"tool": "git_*", "effect": ["move"]}, "tool", "effect"),
        ({"tool": "Bash", "effect": ["send"]}, "tool", "effect"),
        ({"host": "example.org", "kind": "file"}, "kind", "host"),
        ({"host": "example.org", "protected": ["secret"]}, "host", "protected"),
        ({"kind": "url", "protected": ["secret"]}, "kind", "protected"),
        ({"command": ["curl"], "host": "example.org"}, "command", "host"),
        ({"command": ["curl"], "kind": "url"}, "command", "kind"),
        ({"command": ["git", "push"], "effect": ["send"]}, "command", "effect"),
        ({"capability": ["read_only"], "effect": ["edit", "delete"]}, "capability", "effect"),
        ({"capability": ["read_only", "high_impact_write"]}, "read_only", "high_impact_write"),
    ],
)
def test_the_two_conditions_that_contradict_each_other_are_named(
    rule: dict[str, object], first: str, second: str
) -> None:
    (why,) = find(rule)
    assert f"`{first}` and `{second}`" in why


@pytest.mark.parametrize(
    "rule",
    [
        {"tool": "run_command", "effect": ["delete"]},  # as what it did in its sandbox
        {"tool": "write_file", "effect": ["edit"]},
        {"tool": "delete_path", "kind": "directory"},
        {"tool": "read_file", "effect": ["observation"], "risk_at_least": 400},
        {"tool": "git_commit", "secrets": True},
        {"tool": "write_mail", "effect": ["send"]},  # a tool of somebody's own
        {"tool": "mail.*", "effect": ["observation"], "kind": "url"},
    ],
)
def test_conditions_that_a_call_can_meet_are_no_contradiction(rule: dict[str, object]) -> None:
    assert find(rule) == []


def test_an_allow_rule_goes_by_our_own_names() -> None:
    (why,) = find({"tool": "delete_file"}, "allow")
    assert why == "`allow` goes by Foregate's own names; write `delete_path` for `delete_file`"
    assert find({"tool": "delete_file"}) == []


def test_of_tools_that_the_policy_describes_otherwise_nothing_is_claimed() -> None:
    rule = Rule.model_validate({"id": "x", "then": "ask", "tool": "read_file", "effect": ["edit"]}, strict=False)
    policy = policy_with({"tools": {"read_file": {"effect": "edit"}}})
    assert list(find_contradictions(rule, policy, OWN, ())) == []
    assert list(find_contradictions(rule, default_policy(), OWN, ())) != []
