"""Gate `critique`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.critique import CritiqueGate
from foregate.schemas.judgement import Standing, Voided
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import Atom, Origin
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Counters, Turn
from tests.gates.turns import (
    ACCEPT,
    answered,
    call,
    codes,
    facts_of,
    judged,
    need_of,
    plan_for,
    row,
    seen,
    survey,
    turn,
)
from tests.policies import policy_with

SEND = call("send", "bob@example.org")
OFF = {"uncertainty.mode": "off", "critique.level": "plan"}
POLICY = policy_with(OFF)
LEVEL_CALL = policy_with({**OFF, "plan.mode": "off", "critique.level": "call"})


def planned(policy: Any = POLICY) -> Turn:
    """Return a turn whose plan is there, so that the critic is next."""
    of = turn(SEND)
    return answered(of, need_of(of, policy), plan_for(of.calls[0]))


def criticised(value: Any, of: Turn | None = None, policy: Any = POLICY, error: str = "") -> Turn:
    """Return the turn with the critic's answer, and a person's yes where one is asked."""
    of = of or planned()
    need = need_of(of, policy)
    assert need.who == "critic"
    return answered(of, need, value, error)


def yes(of: Turn, policy: Any = POLICY) -> Turn:
    """Return the turn with a person's yes."""
    return answered(of, need_of(of, policy), {"choice": "yes", "text": "", "by": "person"})


def test_a_plan_for_something_external_is_shown_to_the_critic_once() -> None:
    judgement = judged(yes(criticised(ACCEPT)), POLICY)
    assert codes(judgement)["critique"] == "critique_accepted"
    assert row(judgement, "critique").detail["summary"] == "looks right"


def test_what_reaches_outside_is_shown_to_the_critic_however_low_it_scores() -> None:
    lenient = policy_with({**OFF, "critique.risk": 1000, "critique.uncertainty": 1000})
    of = planned(policy=lenient)
    assert need_of(of, lenient).who == "critic"


def test_a_tame_change_needs_no_critic() -> None:
    assert codes(judged(turn(call("edit_file")), POLICY))["critique"] == "critique_not_required"


def test_a_rejection_holds_the_call_and_the_plan_never_comes_into_force() -> None:
    judgement = judged(criticised({"verdict": "replan", "issues": ["wrong Bob"], "summary": "no"}), POLICY)
    verdict = judgement.verdicts[0]
    assert (verdict.standing, verdict.ruling.code, judgement.plan) == (Standing.HOLD, "critique_rejected", None)
    assert "wrong Bob" in verdict.ruling.message


@pytest.mark.parametrize(
    ("edition", "words"),
    [(0, "change the call or say why it is right"), (1, "sent again as it is, it stays held"), (9, "stays held")],
)
def test_a_rejection_promises_no_more_than_holds_and_a_recorded_one_keeps_its_words(edition: int, words: str) -> None:
    of = replace(criticised({"verdict": "replan", "issues": ["wrong Bob"], "summary": "no"}), edition=edition)
    assert judged(of, POLICY).verdicts[0].ruling.message.endswith(words)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"verdict": "accept", "issues": [], "summary": " "}, "missing_summary"),
        ({"verdict": "replan", "issues": [" "], "summary": "no"}, "missing_issues_for_replan"),
    ],
)
def test_a_critique_that_cannot_be_used_asks_a_person_where_the_call_is_dangerous(value: Any, reason: str) -> None:
    of = criticised(value)
    assert need_of(of, POLICY).code == "critique_invalid"
    assert row(judged(yes(of), POLICY), "critique").detail["error"] == reason


def test_a_critic_that_cannot_be_had_asks_a_person_and_the_policy_may_hold_or_let_go() -> None:
    of = criticised(None, error="critique_generation_failed")
    assert need_of(of, POLICY).code == "critique_unavailable"
    for choice, standing in (("hold", Standing.HOLD), ("proceed", Standing.ALLOW)):
        policy = policy_with(
            {**OFF, "critique.on_unavailable": {"dangerous": choice, "other": choice}, "approval.mode": "never"}
        )
        decision = row(judged(of, policy), "critique")
        assert (decision.code, decision.rulings[0].standing) == ("critique_unavailable", standing)


def test_an_exhausted_safety_budget_asks_a_person_or_proceeds_as_the_policy_says() -> None:
    spent = replace(planned(), counters=Counters(safety_rounds=8))
    assert need_of(spent, POLICY).code == "critique_skipped_budget"
    proceed = policy_with({**OFF, "critique.on_budget_exhausted": "proceed", "approval.mode": "never"})
    assert row(judged(spent, proceed), "critique").rulings[0].standing is Standing.ALLOW


def test_level_call_asks_for_each_qualifying_call_and_level_off_for_none() -> None:
    assert need_of(turn(SEND), LEVEL_CALL).gate == "critique"
    off = policy_with({**OFF, "critique.level": "off", "plan.mode": "off", "approval.mode": "never"})
    assert codes(judged(turn(SEND), off))["critique"] == "critique_not_required"


def test_a_target_only_outsiders_named_is_a_reason_to_ask_the_critic() -> None:
    edit = call("edit_file")
    plain = survey(edit, seen())
    named = replace(plain, atoms=(Atom("a.txt", Origin.EXTERNAL, 5),))
    assert codes(judged(turn(edit, surveys=(plain,)), LEVEL_CALL))["critique"] == "critique_not_required"
    assert need_of(turn(edit, surveys=(named,)), LEVEL_CALL).gate == "critique"


def test_the_critic_is_not_asked_about_what_nobody_can_say_yes_to_and_the_no_is_that_of_approval() -> None:
    of = turn(SEND, attended=False)
    verdict = judged(of, LEVEL_CALL).verdicts[0]
    assert (codes(judged(of, LEVEL_CALL))["critique"], verdict.ruling.code) == (
        "critique_not_asked",
        "approval_required",
    )
    assert verdict == judged(of, policy_with({"critique.mode": "off"}, LEVEL_CALL)).verdicts[0]


def test_the_critic_is_asked_without_a_person_when_a_call_of_the_response_may_still_be_let_go() -> None:
    edit = call("edit_file", number=2)
    outsider = replace(survey(edit, seen()), atoms=(Atom("a.txt", Origin.EXTERNAL, 5),))
    of = turn(SEND, edit, surveys=(survey(SEND, seen()), outsider), attended=False)
    assert need_of(of, LEVEL_CALL).calls == ("c1", "c2")


def test_the_critic_is_asked_without_a_person_about_what_an_approved_plan_lets_go() -> None:
    item = ScopeItem(Effect.SEND, ResourceKind.MESSAGE, "bob@example.org", approved=True)
    of = turn(SEND, plan=PlanInForce(1, "tell Bob", (item,)), attended=False)
    assert need_of(of, LEVEL_CALL).who == "critic"


def test_the_scores_are_recorded_with_their_bounds() -> None:
    edit = row(judged(turn(call("edit_file")), POLICY), "critique")
    assert {number.path for number in edit.numbers} == {"critique.risk", "critique.uncertainty"}


def test_critiques_that_no_longer_count_are_counted_as_asked_and_past_the_cap_the_call_is_held() -> None:
    voided = tuple(Voided(n, "critique", "what was judged has changed since the answer") for n in range(3))
    assert need_of(turn(SEND, voided=voided[:2]), LEVEL_CALL).gate == "critique"
    verdict = judged(turn(SEND, voided=voided), LEVEL_CALL).verdicts[0]
    assert (verdict.standing, verdict.ruling.code) == (Standing.HOLD, "critique_unavailable")


def test_a_plan_is_looked_at_again_when_it_is_widened_by_a_class_of_risk_and_not_otherwise() -> None:
    of = turn(SEND, plan=PlanInForce(1, "goal", (), classes=("edit", "send")))
    facts = facts_of(SEND)
    for classes, looked in ((("edit", "send"), []), (("edit",), []), (("edit", "external", "send"), [facts])):
        so_far = SoFar({SEND.id: facts}, plan=PlanInForce(2, "goal", (), classes=classes), uses={SEND.id: (0,)})
        assert CritiqueGate(POLICY).select_calls(of, [facts], so_far) == looked
