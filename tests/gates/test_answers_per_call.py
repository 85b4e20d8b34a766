"""One answer may say yes to some calls and no to others, and a refused call takes no other with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas.judgement import Judgement, Standing
from foregate.schemas.protocols import Reply
from foregate.schemas.turn import Turn
from tests.gates.turns import answered, call, codes, judged, need_of, plan_for, step, turn
from tests.policies import policy_with

ALONE = {"plan.mode": "off", "critique.mode": "off", "uncertainty.mode": "off"}
POLICY = policy_with(ALONE)
CALLS = (call("send", "bob@example.org"), call("send", "eve@example.org", 2), call("run_shell", "make", 3))
IDS = [one.id for one in CALLS]


def answer(value: dict[str, Any], of: Turn | None = None) -> Judgement:
    """Return the judgement on the calls after an answer of this value."""
    of = of or turn(*CALLS)
    return judged(answered(of, need_of(of, POLICY), {"text": "", "by": "person", **value}), POLICY)


def ran(judgement: Judgement) -> list[str]:
    """Return the ids of the calls that may run."""
    return [verdict.call for verdict in judgement.verdicts if verdict.standing is Standing.ALLOW]


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_calls_that_an_answer_names_are_answered_by_that_and_all_others_by_its_choice(choice: str) -> None:
    judgement = answer({"choice": choice, "calls": {"c1": "yes", "c2": "no"}, "text": "not Eve"})
    assert ran(judgement) == ["c1", *(["c3"] if choice == "yes" else [])]
    refused = judgement.find_verdict("c2").ruling
    assert refused.code == "approval_denied"
    assert "the person said no: not Eve" in refused.message
    assert (judgement.is_approved("c1"), judgement.is_approved("c2")) == (True, False)


def test_what_is_allowed_for_the_session_is_only_what_was_not_refused() -> None:
    judgement = answer({"choice": "grant", "calls": {"c2": "no"}})
    assert [grant.pattern or grant.digest for grant in judgement.grants] == ["bob@example.org", CALLS[2].digest]
    assert answer({"choice": "yes", "calls": {"c1": "no"}}).grants == ()


def test_a_yes_to_a_plan_covers_none_of_its_items_that_a_refused_call_would_use() -> None:
    policy = policy_with({**ALONE, "plan.mode": "enforce"})
    bob, eve = CALLS[:2]
    wanted = plan_for(bob, planned_steps=[step("send", "bob@example.org"), step("send", "eve@example.org")])
    of = answered(turn(bob, eve), need_of(turn(bob, eve), policy), wanted)
    value = {"choice": "no", "text": "", "by": "person", "calls": {"c1": "yes"}}
    judgement = judged(answered(of, need_of(of, policy), value), policy)
    assert ran(judgement) == ["c1"]
    assert judgement.plan is not None
    assert {item.pattern: item.approved for item in judgement.plan.items} == {
        "bob@example.org": True,
        "eve@example.org": False,
    }


@pytest.mark.parametrize("calls", [["c1"], "yes", None, {"c1": True}, {"c1": "granted"}, {"c1": ["yes"]}])
def test_an_answer_per_call_that_cannot_be_read_is_no_yes(calls: Any) -> None:
    assert "c1" not in ran(answer({"choice": "yes", "calls": calls}))


def test_an_answer_without_calls_reads_as_it_always_did() -> None:
    assert ran(answer({"choice": "yes"})) == IDS
    assert codes(answer({"choice": "no"}))["approval"] == "approval_denied"
    assert Reply("yes").value == {"choice": "yes", "text": "", "by": "person"}


@given(
    st.sampled_from(["yes", "no", "grant", "whatever"]),
    st.dictionaries(st.sampled_from([*IDS, "c9"]), st.sampled_from(["yes", "no", "No", ""])),
)
def test_no_call_that_an_answer_refuses_ever_runs(choice: str, calls: dict[str, str]) -> None:
    judgement = answer(Reply(choice, calls=calls).value)
    allowed = [one for one in IDS if calls.get(one, "yes" if choice in ("yes", "grant") else "no") == "yes"]
    assert ran(judgement) == allowed
