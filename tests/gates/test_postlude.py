"""The postlude: what is made of an answer after changes."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.gates.postlude import judge_answer
from foregate.schemas.judgement import Decision
from foregate.schemas.turn import Check, CheckResult, Counters
from tests.gates.turns import turn
from tests.policies import policy_with


def decided(*results: CheckResult, policy: Any = None, **more: Any) -> Decision:
    """Return the one row the postlude leaves over checks with these results."""
    checks = tuple(Check(f"criterion {n}", result, "a.txt") for n, result in enumerate(results))
    (decision,) = judge_answer(turn(checks=checks, **more), policy or policy_with()).decisions
    assert decision.gate == "postlude"
    return decision


@pytest.mark.parametrize("results", [(), ("met",), ("met", "met")])
def test_what_was_seen_after_the_last_change_is_verified(results: tuple[CheckResult, ...]) -> None:
    assert decided(*results).code == "verification_passed"


@pytest.mark.parametrize("result", ["failed", "unseen", "uncheckable"])
def test_what_was_not_seen_is_never_verified_and_is_named(result: CheckResult) -> None:
    decision = decided("met", result)
    assert decision.code in ("verification_pending", "unverified")
    assert f"criterion 1 ({result})" in decision.summary
    assert "criterion 0" not in decision.summary
    assert decision.detail["checks"] == {"met": 1, "failed": 0, "unseen": 0, "uncheckable": 0} | {result: 1}


@pytest.mark.parametrize("result", ["failed", "uncheckable"])
def test_what_fails_or_needs_more_than_a_look_is_named_to_the_model_once(result: CheckResult) -> None:
    assert decided(result).code == "verification_pending"
    assert decided(result, counters=Counters(verification_rounds=1)).code == "unverified"


def test_what_a_look_could_not_settle_passes_marked_and_is_not_sent_back() -> None:
    assert decided("unseen").code == "unverified"


def test_after_the_rounds_of_the_policy_nothing_is_sent_back() -> None:
    three, unlimited = (policy_with({"limits.verification_rounds": rounds}) for rounds in (3, 0))
    second, third = (Counters(verification_rounds=rounds) for rounds in (1, 2))
    assert decided("failed", policy=policy_with({"limits.verification_rounds": 1})).code == "unverified"
    assert decided("failed", counters=second, policy=three).code == "verification_pending"
    assert decided("failed", counters=third, policy=three).code == "unverified"
    assert decided("failed", counters=third, policy=unlimited).code == "verification_pending"
