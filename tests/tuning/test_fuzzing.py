"""Recorded calls written otherwise, judged against the calls themselves."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.policy.policy import Policy
from foregate.schemas.tool_call import Command, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Turn
from foregate.tuning.case import dump_case, judge_case, load_case
from foregate.tuning.fuzzing import cut_finding, find_milder
from tests.gates.turns import turn
from tests.policies import policy_with

DELETE = ToolCall.of("delete_path", {"path": "a.txt"}, id="c1")
FILE = SurveyedResource(ResourceKind.FILE, "a.txt", Effect.DELETE, exists=True, hash="h", size=3)
NO_DELETE: dict[str, Any] = {"id": "no-delete", "then": "deny", "tool": "delete_path"}


def recorded(**more: Any) -> Turn:
    return turn(DELETE, surveys=(Survey("c1", resources=(FILE,)),), says="delete a.txt", **more)


def with_rules(*rules: dict[str, Any]) -> Policy:
    return policy_with({"rules.list": list(rules)})


def test_a_rule_about_one_tool_is_got_around_by_another_one() -> None:
    policy = with_rules(NO_DELETE)
    found = list(find_milder(recorded(), policy, {}))
    assert {one.variant.how for one in found} == {"another tool"}
    assert {one.variant.tool for one in found} <= {"run_command", "run_shell"}
    for one in found:
        assert (one.case.expected.verdict, one.case.expected.rules) == ("deny", ("no-delete",))
        assert one.found.verdict != "deny"
    small = cut_finding(found[0], policy)
    assert judge_case(small, policy) == found[0].found
    assert load_case(dump_case(small)).expected == found[0].case.expected
    assert dump_case(small)["calls"][0]["arguments"] == {"argv": ["rm", "--", "a.txt"]}


PUSH = ToolCall.of("run_command", {"argv": ["git", "push", "origin"]}, id="c1")
NO_PUSH: dict[str, Any] = {"id": "no-push", "command": ["git", "push"]}


def find_ways(then: str, **more: Any) -> set[str]:
    """Return the ways to write a push that come out milder than it does under a rule about it."""
    policy = policy_with({"rules.list": [{**NO_PUSH, "then": then}], **more})
    pushed = turn(PUSH, surveys=(Survey("c1", command=Command(("git", "push", "origin"))),), says="push it")
    return {one.variant.how for one in find_milder(pushed, policy, {})}


def test_a_rule_about_a_command_is_got_around_where_the_policy_does_not_say_what_runs_texts() -> None:
    ways = {"base64", "a decoded text", "Python", "a git alias", "what a shell sources", "a makefile", "awk"}
    assert ways <= find_ways("deny", **{"commands.code": {}})


@pytest.mark.parametrize("then", ["deny", "ask"])
def test_a_rule_about_a_command_is_not_got_around_in_any_way_that_is_tried(then: str) -> None:
    assert find_ways(then) == set()


def test_what_a_call_does_in_a_sandbox_is_judged_like_the_call() -> None:
    assert list(find_milder(recorded(), policy_with(), {})) == []


def test_a_call_that_is_let_go_has_no_milder_variant() -> None:
    assert list(find_milder(recorded(), policy_with({"evidence.mode": "off"}), {})) == []
