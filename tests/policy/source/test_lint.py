"""What lint says of policies that can be used and do not do what they say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.policy.policy import Rule
from foregate.policy.risk.rule_matching import is_match
from foregate.policy.source.layers import build_layer, read_layer
from foregate.policy.source.lint import compute_most_risk, compute_most_uncertainty, list_layer_remarks
from foregate.policy.source.load import SHIPPED, default_policy, resolve_policy_file
from foregate.policy.source.rule_lint import covers
from foregate.schemas.tool_spec import Effect
from tests.policy.making import TOOLS, facts, file

RULES = "rules:\n  list:\n"


def remarks(text: str, fired: dict[str, int] | None = None) -> list[str]:
    """What is said of a file, each with its line."""
    layer = build_layer("mine.yaml", "mine.yaml", text)
    return [f"{line}: {said}" for _, line, said in list_layer_remarks(layer, (fired or {}, 7))]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{RULES}    - {{id: a, then: deny, tool: x}}\n    - {{id: b, then: ask, tool: x, effect: [edit]}}\n",
         "4: the rule `b` never decides: `a` matches whatever it does"),
        (f"{RULES}    - {{id: a, then: deny, tool: x}}\n    - {{id: b, then: ask, tool: x}}\n",
         "4: the rules `b` and `a` contradict each other; `deny` is stronger and holds"),
        (f"{RULES}    - {{id: a, then: ask, tool: '*'}}\n    - {{id: b, then: ask, tool: x}}\n",
         "4: the rule `b` adds nothing"),
        (f"{RULES}    - {{id: a, then: ask, command: [git]}}\n"
         "    - {id: b, then: allow, command: [git, push], stands_for: approval}\n",
         "4: the rule `b` never decides: `a` matches"),
        (f"{RULES}    - {{id: a, then: ask, host: x.org, kind: file}}\n",
         "3: the rule `a` never matches: a file has no host"),
        (f"{RULES}    - {{id: a, then: ask, risk_at_least: 999}}\n",
         "3: the rule `a` never matches: no risk reaches 999"),
        (f"{RULES}    - {{id: a, then: deny, tool: '*'}}\n    - {{id: b, then: ask, command: [rm]}}\n",
         "4: the rule `b` never decides: `a` matches"),
        (f"{RULES}    - {{id: a, then: deny, command: [git push]}}\n",
         "3: the rule `a` never matches: no program is called `git push`; write each word by itself, as in"),
        (f"{RULES}    - {{id: a, then: allow, tool: x}}\n", "3: the rule `a` spares nothing"),
        ("uncertainty: {threshold: 1000}\n", "1: no uncertainty reaches 1000"),
        ("critique: {risk: 0}\n", "1: each risk reaches 0"),
        ("plan: {mode: off}\ncritique: {level: plan}\n", "2: `plan` reviews plans, and the gate `plan` is off"),
        ("approval: {mode: never}\n", "1: nobody is asked"),
        ("rules: {mode: shadow}\n", "1: the gate is `shadow`, so no rule denies or asks"),
        ("files: {secret: []}\n", "1: it is empty, so the rule `secret-files` never matches"),
        ("commands: {read_only: {git: {options: []}}}\n", "1: `git` may go on to run anything"),
        ("commands: {read_only: {python3: {options: [-c]}}}\n", "1: `python3` may go on to run anything"),
        ("commands: {read_only: {sudo: {options: []}}}\n", "1: `sudo` may go on to run anything"),
        ("commands: {read_only: {rm: {options: [-r]}}}\n", "1: `rm` deletes (`commands.deletes`)"),
        ("commands: {read_only: {terraform: {options: []}}}\n", "1: that `terraform` changes nothing is on your word"),
        ("commands: {read_only: {find: {options: [-print, -delete], valued: [-exec]}}}\n",
         "1: that `find -delete -exec` changes nothing is on your word alone"),
        ("http: {hosts: ['*']}\n", "1: `*` is every host"),
        ("tools: {run_command: {effect: observation}}\n", "1: it changes nothing: a command is judged by its words"),
    ],
)  # fmt: skip
def test_what_does_not_do_what_it_says_is_remarked_on_with_its_line(text: str, says: str) -> None:
    assert [said for said in remarks(text) if said.startswith(says)], remarks(text)


@pytest.mark.parametrize(
    "text",
    [
        "narration: {mode: shadow}\nuncertainty: {threshold: 600}\n",
        "commands: {read_only: {git log: {options: [--oneline]}, tree: {options: [-a]}, find: {options: [-print]}}}\n",
        f"{RULES}    - {{id: a, then: allow, command: [make, stage], stands_for: approval}}\n",
        f"{RULES}    - {{id: a, then: allow, tool: send, resource: ann@example.org}}\n",
        f"{RULES}    - {{id: a, then: ask, tool: x}}\n    - {{id: b, then: deny, tool: x, effect: [edit]}}\n",
    ],
)
def test_nothing_is_said_of_what_does_what_it_says(text: str) -> None:
    assert remarks(text, {"a": 3, "b": 1}) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_do_what_they_say(name: str) -> None:
    layer = read_layer(resolve_policy_file(name), name, trusted=True)
    assert [key for key, _, _ in list_layer_remarks(layer)] in ([], ["mandate.mode"])


def test_a_rule_that_never_fired_is_said_only_where_the_log_knows_it() -> None:
    text = f"{RULES}    - {{id: a, then: ask, tool: x}}\n    - {{id: b, then: ask, tool: y}}\n"
    assert remarks(text, {"a": 0}) == ["3: the rule `a` has never fired in the 7 sessions of the log"]


RULE = st.builds(
    lambda then, **matchers: Rule(id="x", then=then, **{"tool": "*", **{k: v for k, v in matchers.items() if v}}),
    st.sampled_from(["deny", "ask", "allow"]),
    tool=st.sampled_from([None, "*", "edit_file", "*_file", "read_file"]),
    effect=st.sampled_from([None, (Effect.EDIT,), (Effect.EDIT, Effect.DELETE), (Effect.OBSERVATION,)]),
    resource=st.sampled_from([None, "**", "a.txt", "src/**"]),
    risk_at_least=st.sampled_from([None, 1, 150, 500]),
    command=st.sampled_from([None, ("git",), ("git", "push")]),
    capability=st.sampled_from([None, ("reversible",), ("reversible", "idempotent")]),
)
CALLS = [
    facts("edit_file", file("a.txt")),
    facts("edit_file", file("src/b.py")),
    facts("read_file", file("a.txt", Effect.OBSERVATION)),
    facts("delete_path", file("src/b.py", Effect.DELETE)),
    facts("run_command", argv=("git", "push", "origin")),
    facts("run_command", argv=("git", "status")),
]


@settings(max_examples=100, deadline=None)
@given(RULE, RULE)
def test_a_rule_said_to_cover_another_matches_whatever_that_one_does(wide: Rule, narrow: Rule) -> None:
    policy = default_policy()
    if covers(wide, narrow) and not (wide.then == "allow" and narrow.then != "allow"):
        assert all(is_match(wide, one, policy) for one in CALLS if is_match(narrow, one, policy))


def test_no_call_is_riskier_or_less_certain_than_the_most_that_is_computed() -> None:
    policy, tools = default_policy(), len(TOOLS)
    assert tools
    assert max(one.risk.value for one in CALLS) <= compute_most_risk(policy) < 1000
    assert max(one.uncertainty.value for one in CALLS) <= compute_most_uncertainty(policy) < 1000
