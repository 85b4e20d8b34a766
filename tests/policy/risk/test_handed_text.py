"""Texts that programs run: a rule finds what it names in them, and may be about what nobody can read in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.handed_text import read_handed_texts, runs_unread
from foregate.policy.risk.rule_matching import apply_rules, is_command_match
from foregate.policy.risk.running import can_run
from foregate.schemas.errors import PolicyError
from foregate.schemas.tool_call import Command
from tests.policies import policy_with
from tests.policy.making import facts, with_rules

POLICY = policy_with()
LINES = Path(__file__).parent / "lines"
PUSH = ("git", "push")


def lines(name: str) -> list[Command]:
    """Return the commands of a table: a line in which `\\n` is a new line, or words as JSON."""
    found = (LINES / f"{name}.txt").read_text("utf-8").splitlines()
    return [build_command(line) for line in found if not line.startswith("# ")]


def build_command(line: str) -> Command:
    return Command(tuple(json.loads(line))) if line.startswith('["') else Command(shell=line.replace("\\n", "\n"))


def matches(command: Command, policy: Policy = POLICY, then: str = "deny", wanted: tuple[str, ...] = PUSH) -> bool:
    rule = Rule.model_validate({"id": "r", "then": then, "command": list(wanted)}, strict=False)
    return is_command_match(rule, wanted, command, policy)


@pytest.mark.parametrize("command", lines("hides"), ids=str)
def test_a_strict_rule_is_about_what_hides_the_command_it_names(command: Command) -> None:
    assert matches(command)
    assert matches(command, then="ask")


@pytest.mark.parametrize("command", lines("shows"), ids=str)
def test_a_strict_rule_is_about_no_everyday_command_in_which_one_can_read_another_one(command: Command) -> None:
    assert not matches(command)


def test_the_tables_are_long_enough_to_mean_something() -> None:
    assert len(lines("hides")) >= 180
    assert len(lines("shows")) >= 130


def test_an_allow_rule_is_never_about_what_nobody_can_read() -> None:
    assert not matches(Command(shell='sh -c "$a"'), then="allow")
    assert not matches(Command(("python3", "-c", "exec(x)")), then="allow")


def test_the_policy_names_the_programs_that_run_texts_and_what_in_one_starts_a_program() -> None:
    odd = Command(("oddity", "--do", "start git"))
    assert not matches(odd)
    assert matches(odd, policy_with({"commands.code": {"oddity --do": ["\\bstart\\b"]}}))
    assert not matches(odd, policy_with({"commands.code": {"oddity --do": ["\\bbegin\\b"]}}))
    assert matches(Command(("oddity", "--do=git push")), policy_with({"commands.code": {"oddity --do": []}}))
    assert not matches(Command(shell="echo x | base64 -d | sh"), policy_with({"commands.code": {}}))


def test_a_person_reads_why_a_rule_is_about_a_command_it_does_not_name() -> None:
    policy = with_rules({"id": "r", "then": "deny", "command": [*PUSH]})
    hidden = apply_rules(facts("run_shell", shell="echo x | base64 -d | sh"), policy)
    assert "nobody can read beforehand what this runs" in hidden.message
    assert "nobody can read" not in apply_rules(facts("run_shell", shell="git push | sh"), policy).message


@pytest.mark.parametrize("line", ["watch " * 680, "ssh h " * 680, "bash <<< " * 400, "sh -c '" * 500])
def test_texts_within_texts_are_read_up_to_a_bound(line: str) -> None:
    assert len(read_handed_texts(Command(shell=line), POLICY)) <= 100


@given(st.text(max_size=60), st.sampled_from(["sh -c", "python3 -c", "watch", "cat |", "bash <<<", "x=1;", ""]))
def test_any_line_can_be_read_and_what_is_in_it_matters_only_where_it_may_run(text: str, start: str) -> None:
    command: Any = Command(shell=f"{start} {text}")
    assert runs_unread(command, POLICY) in (True, False)
    assert not read_handed_texts(command, policy_with({"commands.code": {}}))


def test_a_line_too_long_to_be_read_may_be_anything_only_where_it_names_what_runs_texts() -> None:
    assert matches(Command(shell=f"base64 -d x | sh # {'x' * 4096}"))
    assert not matches(Command(shell=f"cat x | sort # {'x' * 4096}"))


def test_a_text_whose_quotes_do_not_close_cannot_be_told_apart() -> None:
    with pytest.raises(PolicyError):
        can_run(PUSH, Command(("git", "rebase", "-x", "echo 'a")), POLICY)
