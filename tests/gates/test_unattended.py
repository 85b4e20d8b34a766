"""Without a person, planner and critic are not asked about what only a yes could let go, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.gates.prelude import build_prelude, judge
from foregate.schemas.judgement import Grant, Judgement, Need, Standing
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Counters, Turn
from tests.gates.test_call_plan import ALONE, POLICY, RUN, SEND, planned
from tests.gates.turns import ACCEPT, CATALOGUE, answered, call, codes, judged, need_of, plan_for, row, turn
from tests.policies import policy_with


def alone(*calls: Any, **more: Any) -> Turn:
    """Return a turn over calls with nobody to ask."""
    return turn(*calls, attended=False, **more)


BLANK = Need("plan", "planner", "k", (), ())
TOUCHED = Counters(changed_resources=3)
LEAVE = Grant("approval", "approval_required", "send", "message", "bob@example.org")


@pytest.mark.parametrize(
    ("of", "policy"),
    [
        (alone(SEND), POLICY),
        (alone(RUN), policy_with()),
        (alone(call("edit_file"), counters=TOUCHED), policy_with({**ALONE, "approval.mode": "each"})),
        (alone(call("odd")), POLICY),
        (turn(SEND), policy_with({**ALONE, "approval.mode": "never"})),
    ],
)
def test_the_planner_is_not_asked_about_what_nobody_can_say_yes_to_and_the_no_is_that_of_approval(
    of: Turn, policy: Any
) -> None:
    verdict = judged(of, policy).verdicts[0]
    assert codes(judged(of, policy))["plan"] == "plan_not_asked"
    assert verdict.ruling.code == "approval_required"
    assert verdict == judged(of, policy_with({"plan.mode": "off", "critique.mode": "off"}, policy)).verdicts[0]


@pytest.mark.parametrize(
    ("of", "policy"),
    [
        (alone(call("edit_file"), counters=TOUCHED), POLICY),
        (alone(call("edit_file"), counters=TOUCHED, auto=True), policy_with({**ALONE, "approval.mode": "each"})),
        (alone(SEND, grants=(LEAVE,)), POLICY),
        (alone(SEND, grants=(replace(LEAVE, gate="plan", code="plan_unavailable"),)), POLICY),
        (alone(SEND, dry_run=True), POLICY),
        (alone(SEND, call("edit_file", number=2), counters=TOUCHED), POLICY),
    ],
)
def test_the_planner_is_asked_without_a_person_wherever_a_call_may_still_be_let_go(of: Turn, policy: Any) -> None:
    assert need_of(of, policy).who == "planner"


def test_without_a_person_an_answer_the_planner_gave_already_is_still_used() -> None:
    of = replace(planned(turn(SEND), plan_for(SEND)), attended=False)
    assert codes(judged(of, POLICY))["plan"] == "plan_accepted"
    defective = replace(planned(turn(SEND), plan_for(SEND, goal="")), attended=False)
    assert codes(judged(defective, POLICY))["plan"] == "plan_not_asked"


def test_what_a_plan_covers_is_used_up_also_where_the_planner_is_not_asked_about_the_rest() -> None:
    plan = PlanInForce(1, "edit", (ScopeItem(Effect.EDIT, ResourceKind.FILE, "a.txt"),))
    of = alone(SEND, call("edit_file", number=2), plan=plan, counters=TOUCHED)
    assert (codes(judged(of, POLICY))["plan"], judged(of, POLICY).uses) == ("plan_not_asked", {"c2": (0,)})


@given(
    st.lists(st.sampled_from(["read_file", "edit_file", "send", "run_command", "odd"]), min_size=1, max_size=3),
    st.sampled_from([(), (LEAVE,), (replace(LEAVE, gate="rules", code="ask-all"),)]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["each", "scope", "never"]),
    st.booleans(),
)
def test_no_answer_of_planner_and_critic_lets_a_call_go_that_they_were_not_asked_about(
    tools: list[str], grants: tuple[Grant, ...], auto: bool, many: bool, mode: str, rule: bool
) -> None:
    calls = [call(tool, "bob@example.org" if tool == "send" else "a.txt", n) for n, tool in enumerate(tools, start=1)]
    rules = [{"id": "ask-all", "then": "ask", "tool": "*"}] if rule else []
    policy = policy_with(
        {"uncertainty.mode": "off", "evidence.mode": "off", "approval.mode": mode, "rules.list": rules}
    )
    counters = TOUCHED if many else Counters()
    of = turn(*calls, attended=False, grants=grants, auto=auto, counters=counters)
    bench = build_prelude(policy, CATALOGUE)
    without = judge(of, bench)
    if not isinstance(without, Judgement) or codes(without).get("plan") != "plan_not_asked":
        return
    for plan, critique in ((plan_for, ACCEPT), (None, ACCEPT), (plan_for, None)):
        asked = next(r.call for r in row(without, "plan").rulings if r.code == "plan_not_asked")
        first = next(c for c in calls if c.id == asked)
        told = answered(of, replace(BLANK, gate="plan", who="planner"), plan(first) if plan else None)
        told = answered(told, replace(BLANK, gate="critique", who="critic"), critique)
        with_ = judge(told, bench)
        assert isinstance(with_, Judgement)
        assert {v.call: v.standing is Standing.ALLOW for v in with_.verdicts} == {
            v.call: v.standing is Standing.ALLOW for v in without.verdicts
        }
