"""A rule that stands for approval is the operator's yes to what it matches, and to nothing that only looks like it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.source.keys import find_defects
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import layer_policy
from foregate.schemas.errors import PolicyError
from foregate.schemas.judgement import Need, Standing
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue
from tests.gates.turns import CATALOGUE, call, codes, judged, need_of, survey, turn
from tests.policies import policy_with

QUIET = {"uncertainty.mode": "off"}
RULE = {"id": "mine", "then": "allow", "stands_for": "approval"}
SEND = call("send", "bob@example.org")


def ruled(*more: dict[str, Any], **matchers: Any) -> Policy:
    return policy_with({**QUIET, "rules.list": [RULE | matchers, *more]})


def find_rule(of: Turn, policy: Policy) -> str:
    """Return the rule that stands for a yes to the one call of a turn."""
    return compute_turn_facts(of, policy, CATALOGUE)[of.calls[0].id].standing_rule


def running(words: str, **more: Any) -> tuple[ToolCall, Survey]:
    run = call("run_command", words)
    looked = survey(run)
    assert looked.command is not None
    return run, replace(looked, command=replace(looked.command, **more))


@pytest.mark.parametrize("attended", [True, False])
def test_such_a_rule_spares_plan_critique_and_prompt_and_each_decision_names_it(attended: bool) -> None:
    judgement = judged(turn(SEND, attended=attended), ruled(tool="send"))
    assert judgement.find_verdict("c1").standing is Standing.ALLOW
    rows = {row.gate: row for row in judgement.decisions}
    assert [rows[gate].code for gate in ("plan", "critique", "approval")] == [
        "plan_not_required",
        "critique_not_required",
        "approval_granted",
    ]
    told = "the rule `mine` of the policy stands for a yes"
    assert all(told in rows[gate].rulings[0].message + rows[gate].summary for gate in ("plan", "approval"))


def test_an_allow_rule_without_it_is_as_before() -> None:
    policy = policy_with({**QUIET, "rules.list": [{"id": "mine", "then": "allow", "tool": "send"}]})
    assert isinstance(need_of(turn(SEND), policy), Need)


def test_another_rule_that_asks_or_denies_is_stronger() -> None:
    asks = {"id": "other", "then": "ask", "resource": "bob@*"}
    assert isinstance(need_of(turn(SEND), ruled(asks, tool="send")), Need)
    assert codes(judged(turn(SEND), ruled(asks | {"then": "deny"}, tool="send")))["rules"] == "denied_by_rule"


@pytest.mark.parametrize("source", ["outside", "unclear"])
def test_it_is_no_yes_to_a_value_that_only_text_from_outside_said(source: Any) -> None:
    value = ArgumentValue("to", "target", "bob@example.org", "bob@example.org", source, 3)
    looked = replace(survey(SEND), values=(value,))
    assert find_rule(turn(SEND, surveys=(looked,)), ruled(tool="send")) == ""
    known = replace(looked, values=(replace(value, source="unsaid"),))
    assert find_rule(turn(SEND, surveys=(known,)), ruled(tool="send")) == "mine"
    assert find_rule(turn(SEND, surveys=(known,), depth=1), ruled(tool="send")) == ""


@pytest.mark.parametrize(
    ("words", "covered"),
    [
        ("git push origin", True),
        ("git push origin main", True),
        ("git push origin --force", False),
        ("git push origin :main", False),
        ("git push origin --receive-pack=evil", False),
        ("git push evil", False),
        ("git -c x=y push origin", False),
        ("/tmp/git push origin", False),
    ],
)
def test_behind_the_words_of_a_command_only_plain_words_go(words: str, covered: bool) -> None:
    run, looked = running(words)
    policy = ruled(command=["git", "push", "origin"])
    assert find_rule(turn(run, surveys=(looked,)), policy) == ("mine" if covered else "")


def test_a_command_that_could_go_on_to_run_anything_is_allowed_with_the_words_of_the_rule_alone() -> None:
    for words, found in (("npm install", "mine"), ("npm install evil", "")):
        run, looked = running(words)
        assert find_rule(turn(run, surveys=(looked,)), ruled(command=["npm", "install"])) == found


def test_a_line_for_the_shell_and_access_that_was_asked_for_are_not_meant() -> None:
    policy = ruled(command=["make"])
    assert find_rule(turn(call("run_shell", "make; rm -rf x")), policy) == ""
    run, looked = running("make")
    assert find_rule(turn(run, surveys=(looked,)), policy) == "mine"
    run, looked = running("make", access=(Access("socket", "/var/run/docker.sock"),))
    assert find_rule(turn(run, surveys=(looked,)), policy) == ""


def test_what_a_person_would_have_to_name_it_says_nothing_of() -> None:
    leak = replace(survey(SEND), secrets=("`.env` holds a password",))
    assert find_rule(turn(SEND, surveys=(leak,)), ruled(tool="send")) == ""


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"then": "ask", "tool": "send"}, "goes with `then: allow`"),
        ({"effect": ["send"]}, "name a `tool` or a `command`"),
        ({"tool": "*"}, "name a `tool` or a `command`"),
    ],
)
def test_a_rule_that_cannot_stand_for_a_yes_is_refused(rule: dict[str, Any], said: str) -> None:
    found = [sentence for _, sentence in find_defects(ruled(**rule))]
    assert any(said in sentence for sentence in found), found


def test_no_file_of_a_workspace_can_say_yes_for_the_operator() -> None:
    for then in ("allow", "ask", "deny"):
        rule = RULE | {"then": then, "tool": "send"}
        with pytest.raises(PolicyError):
            layer_policy(None, Layer("workspace", "workspace", {"rules": {"list": [rule]}}, {}))
