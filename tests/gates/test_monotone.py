"""What is made stricter is never looser anywhere: more rules that deny let nothing more through, heavier weights lower
no score."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.gates.prelude import build_prelude
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.policy.source.strict_yaml import Path
from foregate.policy.source.values import list_values, replace_values
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Turn
from foregate.tuning.case import SEVERITY, Fate, find_fates
from tests.gates.turns import CATALOGUE, call, seen, survey, turn
from tests.policies import policy_with

TOOLS = ("read_file", "edit_file", "delete_path", "send", "run_command", "run_shell", "odd")
PATHS = ("a.txt", "b/c.txt", ".env", "rm -r b", "git push", "bob@example.org")
CALLS = st.builds(call, st.sampled_from(TOOLS), st.sampled_from(PATHS))
SAID = st.sampled_from(["fix a.txt", "clean up", "send it to bob@example.org", "explain a.txt", "delete b/c.txt"])
MATCHERS = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.sampled_from(["*", "edit_*", "send"]),
        "effect": st.lists(st.sampled_from([one.value for one in Effect]), min_size=1, max_size=2, unique=True),
        "resource": st.sampled_from(["**", "*.txt", "b/**"]),
        "command": st.sampled_from([["rm", "**"], ["git", "**"]]),
        "risk_at_least": st.sampled_from([0, 300, 700]),
    },
).filter(bool)
WEIGHTS = [
    path
    for path, value in list_values(default_policy()).items()
    if path[:2] in (("scores", "risk"), ("scores", "uncertainty")) and isinstance(value, int)
]


def build_turn(wanted: ToolCall, says: str, read: bool, attended: bool, narrated: int) -> Turn:
    """Return a turn over a call whose file was read or not."""
    looked = survey(wanted, seen()) if read else survey(wanted)
    return turn(wanted, surveys=(looked,), says=says, attended=attended, narrated=narrated)


TURNS = st.builds(build_turn, CALLS, SAID, st.booleans(), st.booleans(), st.sampled_from([0, 100]))


def judge(of: Turn, policy: Policy) -> Fate:
    return find_fates(of, policy, build_prelude(policy, CATALOGUE))["c1"]


BASES = [
    default_policy(),
    policy_with({"approval.mode": "each"}),
    policy_with({"evidence.mode": "off", "narration.mode": "shadow", "plan.mode": "off"}),
]


@settings(max_examples=60)
@given(TURNS, st.sampled_from(BASES), MATCHERS)
def test_a_further_rule_that_denies_lets_nothing_more_through(of: Turn, base: Policy, matchers: dict[str, Any]) -> None:
    rule = {"id": "further", "then": "deny", **matchers}
    stricter = replace_values(base, {("rules", "list", "further"): rule})
    before, after = judge(of, base), judge(of, stricter)
    assert SEVERITY[after.verdict] >= SEVERITY[before.verdict]
    assert after.verdict == "deny" or after == before or "further" in after.rules


@settings(max_examples=60)
@given(TURNS, st.sampled_from(WEIGHTS), st.integers(1, 400), st.sampled_from([0, 300, 670]))
def test_a_heavier_weight_lowers_no_score_and_no_severity(of: Turn, path: Path, more: int, threshold: int) -> None:
    ask = {"id": "risky", "then": "ask", "risk_at_least": threshold}
    base = replace_values(default_policy(), {("rules", "list", "risky"): ask})
    heavier = replace_values(base, {path: min(1000, list_values(base)[path] + more)})
    facts = [build_prelude(policy, CATALOGUE).facts(of)["c1"] for policy in (base, heavier)]
    assert facts[1].risk.value >= facts[0].risk.value
    assert facts[1].uncertainty.value >= facts[0].uncertainty.value
    before, after = judge(of, base), judge(of, heavier)
    if not of.attended and before.code == "approval_required":
        # Nobody can be asked, so that the question is a denial; what is held before it is asked is no looser.
        assert after.verdict != "allow"
    else:
        assert SEVERITY[after.verdict] >= SEVERITY[before.verdict]
