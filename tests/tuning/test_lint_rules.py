"""What lint says of rules, against what happens when the rule is taken away."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.rule_matching import is_match
from foregate.policy.source.layers import build_layer
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import PolicyError
from foregate.tuning.lint import Known, find_rule_remarks, list_layer_remarks
from foregate.tuning.rule_cover import are_disjoint, covers
from tests.tuning.rule_calls import OTHERS, OWN, RULE, RULES, build_policy, judge_rules, list_calls

_BUT_WHERE = re.compile(r"but where (.*) would match")


def claims(policy: Policy, own: Sequence[str]) -> dict[str, str]:
    """What is said of the rules with these ids, by the id."""
    return {str(path[2]): said for path, said in find_rule_remarks(policy, own, OWN, OTHERS)}


def matched(rule: Rule, policy: Policy) -> list[bool | None]:
    """Whether the rule matches each call, None where it cannot be applied to it."""

    def match(number: int) -> bool | None:
        try:
            return is_match(rule, list_calls()[number], policy)
        except PolicyError:
            return None

    return [match(number) for number in range(len(list_calls()))]


@settings(max_examples=150, deadline=None)
@given(RULES, st.sampled_from(["allow", "ask", "deny"]), st.booleans())
def test_taking_away_a_rule_that_is_said_to_do_nothing_changes_no_verdict(
    rules: list[Rule], unmatched: str, usual: bool
) -> None:
    given_ = [*(default_policy().rules.list if usual else ()), *rules]
    policy = build_policy(given_, unmatched)
    said = claims(policy, [rule.id for rule in rules])
    before = judge_rules(policy) if said else []
    for name, why in said.items():
        after = judge_rules(build_policy([rule for rule in given_ if rule.id != name], unmatched))
        spared = _list_spared(why, next(rule for rule in rules if rule.id == name), policy)
        if "where calls can be read" in why:
            spared |= {n for n in range(len(before)) if "unclear" in (before[n], after[n])}
        wrong = [n for n in range(len(before)) if before[n] != after[n] and n not in spared]
        assert not wrong, (name, why, [(list_calls()[n].call.name, before[n], after[n]) for n in wrong[:3]])


def _list_spared(why: str, rule: Rule, policy: Policy) -> set[int]:
    """The calls that a claim itself excepts."""
    spared = set[int]()
    if "only holds what it cannot be compared with" in why:
        spared |= {number for number, found in enumerate(matched(rule, policy)) if found is None}
    if "nobody can read beforehand" in why or "a path of the workspace" in why:
        spared |= {number for number, found in enumerate(matched(rule, policy)) if found is not False}
    if but := _BUT_WHERE.search(why):
        for other in policy.rules.list:
            if f"`{other.id}`" in but[1]:
                spared |= {number for number, found in enumerate(matched(other, policy)) if found is not False}
    return spared


@settings(max_examples=200, deadline=None)
@given(RULE, RULE)
def test_a_rule_said_to_cover_another_matches_whatever_that_one_does(wide: Rule, narrow: Rule) -> None:
    if covers(wide, narrow):
        pairs = zip(matched(wide, default_policy()), matched(narrow, default_policy()), strict=True)
        assert all(by_wide is not False for by_wide, by_narrow in pairs if by_narrow)


@settings(max_examples=100, deadline=None)
@given(RULE, RULE)
def test_no_call_matches_two_rules_that_are_said_to_be_apart(strict: Rule, other: Rule) -> None:
    if strict.then != "allow" and are_disjoint(strict, other):
        pairs = zip(matched(strict, default_policy()), matched(other, default_policy()), strict=True)
        assert not any(both == (True, True) for both in pairs)


def say(*rules: str, unmatched: str = "allow") -> list[str]:
    """What is said of a file with these rules."""
    text = "".join(f"    - {{{rule}}}\n" for rule in rules)
    layer = build_layer("mine.yaml", "mine.yaml", f"rules:\n  unmatched: {unmatched}\n  list:\n{text}")
    return [said for _, _, said in list_layer_remarks(layer, Known(OWN))]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (("id: a, then: deny, resource: 'src/**'", "id: b, then: ask, resource: 'src/*.py'"), "`b` never decides"),
        (("id: a, then: ask, resource: 'src/**'", "id: b, then: ask, resource: src/a/b.py"), "`b` adds nothing: `a`"),
        (("id: a, then: ask, tool: 'git_*'", "id: b, then: allow, tool: git_push"), "`b` never decides: `a`"),
        (
            ("id: a, then: ask, tool: 'e*'", "id: b, then: ask, tool: '*e*'", "id: c, then: ask, tool: 'ed*'"),
            "`c` adds",
        ),
        (
            ("id: a, then: deny, command: [git]", "id: b, then: deny, command: [git, 'push', --force]"),
            "`b` adds nothing",
        ),
        (
            ("id: a, then: deny, tool: x", "id: b, then: deny, tool: x, message: why"),
            "`a` adds nothing: `b` says the same",
        ),
        (("id: a, then: deny, tool: x, message: y", "id: b, then: deny, tool: x, message: z"), "`b` adds nothing: `a`"),
        (("id: a, then: ask, protected: [secret]",), "`a` adds nothing: `secret-files` says the same"),
        (
            ("id: a, then: deny, command: [/usr/bin/git]",),
            "`a` never matches: programs are compared by their bare names",
        ),
        (
            ("id: a, then: deny, resource: ./src/**",),
            "`a` never matches a path of the workspace: paths stand without `./`",
        ),
        (("id: a, then: deny, kind: file, resource: 'https://x.org/**'",), "`https://x.org/**` is an address"),
        (("id: a, then: allow, tool: http_request, host: api.x.org",), "`a` never decides: `http.hosts` does not list"),
        (("id: a, then: allow, tool: send, kind: url, effect: [send]",), "`a` spares nothing"),
        (("id: a, then: deny, resource: s", "id: b, then: deny, resource: s, host: x.org"), "does; it only holds what"),
        (("id: a, then: ask, tool: x", "id: b, then: ask, tool: x, command: [rm]"), "does; it only holds what"),
        (("id: a, then: deny, tool: x", "id: b, then: deny, tool: x, command: [rm]"), "`a` matches whatever it does|"),
    ],
)
def test_a_rule_that_does_nothing_is_named_with_what_stands_before_it(rules: tuple[str, ...], says: str) -> None:
    assert says in "".join(f"{said}|" for said in say(*rules))


@pytest.mark.parametrize(
    ("rules", "unmatched", "says"),
    [
        (("id: a, then: ask, tool: x",), "ask", "`a` adds nothing: `rules.unmatched: ask` says the same"),
        (("id: a, then: ask, command: [rm]", "id: b, then: allow, tool: read_file"), "ask", "where calls can be read"),
        (("id: a, then: deny, tool: x", "id: b, then: allow, tool: y"), "deny", "but where `secret-files`"),
        (("id: a, then: ask, tool: x", "id: b, then: allow, tool: '*'"), "ask", ""),
        (("id: a, then: ask, tool: x, message: why",), "ask", ""),
        (("id: a, then: deny, tool: delete_file", "id: b, then: allow, tool: '*_path'"), "deny", ""),
    ],
)
def test_a_rule_that_says_what_holds_for_unmatched_calls_is_named_unless_it_says_more(
    rules: tuple[str, ...], unmatched: str, says: str
) -> None:
    said = " ".join(say(*rules, unmatched=unmatched))
    assert says in said if says else not said


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"tool": "B*"}, {"tool": "Bash"}),  # which is also what others call `run_shell`
        ({"kind": "file"}, {"kind": "file", "resource": "src/**"}),  # which also holds a folder in which there is such
        ({"kind": "file", "resource": "src/*"}, {"kind": "file", "resource": "src/*/x"}),
        ({"command": ["git", "p*", "origin"]}, {"command": ["git", "push", "origin"]}),  # which passes over `-C pull`
    ],
)
def test_what_a_strict_rule_reaches_beyond_its_words_is_not_said_to_be_covered(
    wide: dict[str, object], narrow: dict[str, object]
) -> None:
    rules = [Rule.model_validate({"id": "x", "then": "ask", **one}, strict=False) for one in (wide, narrow)]
    assert not covers(*rules)


def test_a_tool_and_what_others_call_it_are_not_said_to_be_apart() -> None:
    bash, runner, reader = (Rule(id="x", then="ask", tool=tool) for tool in ("Bash", "run_command", "read_file"))
    assert not are_disjoint(bash, runner)
    assert are_disjoint(bash, reader)


def test_a_yes_for_fewer_words_is_none_for_more_of_them() -> None:
    yes = ("id: a, then: allow, command: [make], stands_for: approval", "id: b, then: allow, command: [make, all]")
    assert "`b` adds nothing" in " ".join(say(*yes, unmatched="ask"))
    both = (yes[0], f"{yes[1]}, stands_for: approval")
    assert say(*both, unmatched="ask") == []


def test_a_target_that_a_rule_vouches_for_is_not_covered_by_a_wider_one() -> None:
    named = "id: b, then: allow, tool: send, resource: ann@example.org"
    assert say("id: a, then: allow, tool: send, stands_for: approval", named) == []
    assert "`c` adds nothing" in say(named, named.replace("id: b", "id: c"))[0]
