"""A plan made without a look at the calls that has a defect is asked for once more by its name, and then rejected."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.plan import PLAN_REASONS
from foregate.schemas.judgement import Judgement, Need, Standing
from tests.gates.blind import blind_plan
from tests.gates.test_plan import TO_ANN, TO_BEN, in_force, judged, of_calls, pay
from tests.gates.turns import answered, codes

DEFECTS: dict[str, dict[str, Any]] = {
    "missing_goal": {"goal": " "},
    "missing_success_criteria": {"success_criteria": []},
    "missing_first_action_tool": {"first_action": {"tool": "", "target": "", "description": "x"}},
    "missing_first_action_description": {"first_action": {"tool": "pay", "target": "", "description": " "}},
    "missing_verification_requirement": {"requires_verification": False},
    "missing_risk_acknowledgment": {"risky_actions": [" "]},
    "missing_plan_version": {"version": 0},
    "planned_steps_first_action_mismatch": {"first_action": {"tool": "wire", "target": "", "description": "x"}},
    "planned_steps_incomplete_entry": {"planned_steps": [TO_ANN, TO_BEN | {"description": " "}]},
}


@pytest.mark.parametrize("reason", DEFECTS)
def test_a_plan_with_a_defect_is_asked_for_once_more_by_its_name_and_then_rejected(reason: str) -> None:
    need = judged(of_calls(pay()))
    assert isinstance(need, Need)
    bad = blind_plan(TO_ANN, **DEFECTS[reason])
    first = answered(of_calls(pay()), need, bad)
    again = judged(first)
    assert isinstance(again, Need)
    assert (again.key, again.who) == ("plan:blind:2", "planner")
    assert again.request == {**need.request, "defect": reason, "rejected": bad}
    mended = judged(answered(first, again, blind_plan(TO_ANN)))
    assert isinstance(mended, Judgement)
    assert (codes(mended)["plan"], mended.verdicts[0].standing) == ("plan_accepted", Standing.ALLOW)
    done = judged(answered(first, again, bad))
    assert isinstance(done, Judgement)
    (verdict,) = done.verdicts
    assert (verdict.standing, verdict.ruling.code, verdict.ruling.reason) == (Standing.HOLD, "plan_rejected", reason)
    assert done.plan is None
    (row,) = [row for row in done.decisions if row.gate == "plan"]
    assert (row.detail["result"], row.detail["plan"]) == ("rejected", bad)


def test_every_reason_that_needs_no_call_is_one_of_a_blind_plan() -> None:
    assert [reason for reason in PLAN_REASONS if reason in DEFECTS] == list(DEFECTS)
    assert set(PLAN_REASONS) - set(DEFECTS) == {
        "first_action_tool_mismatch",
        "missing_first_action_target",
        "first_action_target_mismatch",
        "planned_steps_first_action_target_mismatch",
    }


def test_an_answer_without_a_plan_after_one_with_a_defect_is_no_plan_to_be_had() -> None:
    need = judged(of_calls(pay()))
    assert isinstance(need, Need)
    first = answered(of_calls(pay()), need, blind_plan(TO_ANN, goal=""))
    again = judged(first)
    assert isinstance(again, Need)
    asked = judged(answered(first, again, None, "plan_generation_failed: empty"))
    assert isinstance(asked, Need)
    assert (asked.who, asked.code) == ("person", "plan_unavailable")


def test_beside_a_plan_of_another_kind_a_plan_with_a_defect_is_drift_of_its_call() -> None:
    seen = replace(in_force(), blind=False)
    need = judged(of_calls(pay(), plan=seen))
    assert isinstance(need, Need)
    first = answered(of_calls(pay(), plan=seen), need, blind_plan(TO_ANN, goal=""))
    again = judged(first)
    assert isinstance(again, Need)
    asked = judged(answered(first, again, blind_plan(TO_ANN, goal="")))
    assert isinstance(asked, Need)
    assert (asked.who, asked.code) == ("person", "plan_drift")
