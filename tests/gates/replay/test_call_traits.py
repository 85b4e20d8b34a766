"""What is kept of a call tells which rules cannot be about it: never one that is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.gates.prelude import build_prelude
from foregate.gates.replay.reach import PolicyChange, describe_traits, may_match
from foregate.policy.policy import Rule
from foregate.policy.risk.rule_matching import is_match
from foregate.schemas.errors import PolicyError
from foregate.schemas.tool_call import CallFacts
from tests.gates.turns import CATALOGUE, call, turn
from tests.policies import policy_with

TOOLS = ["read_file", "edit_file", "delete_path", "send", "run_command", "run_shell", "odd", "fetch"]
POLICY = policy_with()
WORDS = [
    "git push",
    "env git push origin",
    "rm -rf src",
    "sh -c 'git push'",
    "src/a.py",
    ".env",
    "/bin/rm x",
    "xargs env",
    "git $a",
    "sh -c '$a x'",
    "a=git; $a push",
    "'",
    "git rebase '-xgit push'",
    "ssh h 'rm x'",
    "a='git push'; $a",
    "python3 -c 'exec(x)'",
    "echo x | base64 -d | sh",
]
MATCHERS: dict[str, Any] = {
    "tool": st.sampled_from(["*", "run_*", "Bash", "edit_file"]),
    "effect": st.lists(st.sampled_from(["edit", "send", "execute", "observation"]), min_size=1, max_size=2),
    "command": st.sampled_from([["git", "push"], ["rm"], ["g*"]]),
    "resource": st.sampled_from(["src/**", "*.py", "git *"]),
    "kind": st.sampled_from(["file", "process", "message"]),
    "protected": st.just(["secret"]),
    "secrets": st.booleans(),
    "risk_at_least": st.integers(0, 1000),
}


def facts_of(tool: str, words: str) -> CallFacts:
    """Return the facts of a call of a tool with these words as its target."""
    of = turn(call(tool, words))
    return build_prelude(policy_with(), CATALOGUE).facts(of)["c1"]


@given(
    st.sampled_from(TOOLS),
    st.sampled_from(WORDS),
    st.fixed_dictionaries({"then": st.sampled_from(["deny", "ask", "allow"])}, optional=MATCHERS),
)
def test_a_rule_that_matches_or_cannot_be_told_may_match(tool: str, words: str, said: dict[str, Any]) -> None:
    rule = Rule.model_validate({"id": "r", **said}, strict=False)
    facts = facts_of(tool, words)
    matched = True  # what cannot be told may match
    with suppress(PolicyError, ValueError):
        matched = is_match(rule, facts, policy_with())
    assert may_match(rule, describe_traits(facts, POLICY)) or not matched


def test_a_rule_about_another_program_is_not_about_a_command() -> None:
    rule = Rule.model_validate({"id": "r", "then": "deny", "command": ["curl"]}, strict=False)
    assert not may_match(rule, describe_traits(facts_of("run_command", "git push"), POLICY))


def test_a_rule_may_be_about_a_command_that_reads_what_it_runs() -> None:
    rule = Rule.model_validate({"id": "r", "then": "deny", "command": ["curl"]}, strict=False)
    facts = facts_of("run_command", "xargs env")
    assert is_match(rule, facts, policy_with())
    assert may_match(rule, describe_traits(facts, POLICY))


@pytest.mark.parametrize("line", ["echo x | base64 -d | sh", "git rebase '-xcurl x'"])
def test_a_rule_may_be_about_a_command_that_runs_texts(line: str) -> None:
    rule = Rule.model_validate({"id": "r", "then": "deny", "command": ["curl"]}, strict=False)
    assert may_match(rule, describe_traits(facts_of("run_shell", line), POLICY))


def test_a_new_rule_may_be_about_any_call_where_other_programs_complete_commands_than_before() -> None:
    before = policy_with({"commands.completes": []})
    traits = describe_traits(facts_of("run_command", "xargs env"), before)
    rules = [{"id": "r", "then": "deny", "command": ["curl"]}]
    assert PolicyChange(before, policy_with({"rules.list": rules})).can_match(traits)
    assert not PolicyChange(before, policy_with({"rules.list": rules, "commands.completes": []})).can_match(traits)


@pytest.mark.parametrize("key", ["commands.code", "commands.wrappers"])
def test_so_may_it_where_other_programs_run_texts_or_commands_than_before(key: str) -> None:
    before = policy_with({key: {} if key == "commands.code" else []})
    traits = describe_traits(facts_of("run_command", "odd -e git"), before)
    rules = [{"id": "r", "then": "deny", "command": ["curl"]}]
    assert PolicyChange(before, policy_with({"rules.list": rules})).can_match(traits)
