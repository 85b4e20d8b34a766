"""Every public code, by who gives it. Auditors filter by these names; once shipped they only change with notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

GateName = Literal[
    "validity",
    "rules",
    "narration",
    "drift",
    "uncertainty",
    "evidence",
    "plan",
    "critique",
    "approval",
]
GATES: tuple[GateName, ...] = get_args(GateName)
"""The gates in the order they are asked."""

if TYPE_CHECKING:
    Decider: TypeAlias = GateName | Literal["prelude", "postlude"]
else:
    Decider = str
"""Whose row a decision is: a gate, the judge itself, or the check after an answer."""

ValidityCode = Literal[
    "validity_passed",
    "unknown_tool",
    "invalid_arguments",
    "plan_required",
]
RulesCode = Literal[
    "rules_passed",
    "denied_by_rule",
    "asked_by_rule",
    "refused_before",
]
NarrationCode = Literal[
    "narration_passed",
    "narration_required",
]
DriftCode = Literal[
    "drift_passed",
    "text_only_turn_side_effecting_tool_drift",
]
UncertaintyCode = Literal[
    "uncertainty_passed",
    "uncertainty_clarification",
]
EvidenceCode = Literal[
    "evidence_passed",
    "missing_pre_execution_evidence",
    "stale_evidence",
]
PlanCode = Literal[
    "plan_passed",
    "plan_accepted",
    "plan_rejected",
    "plan_unavailable",
    "plan_unavailable_let_go",
    "plan_drift",
    "plan_not_asked",
]
CritiqueCode = Literal[
    "critique_not_required",
    "critique_accepted",
    "critique_rejected",
    "critique_invalid",
    "critique_unavailable",
    "critique_skipped_budget",
    "critique_not_asked",
]
ApprovalCode = Literal[
    "approval_passed",
    "approval_required",
    "approval_granted",
    "approval_denied",
    "approval_expired",
    "changed_while_waiting",
]
PreludeCode = Literal["prelude_ready_for_execution",]
PostludeCode = Literal[
    "verification_passed",
    "verification_pending",
    "unverified",
]
AnyGateCode = Literal["gate_error", "not_asked_now"]
"""Codes that may come from any gate."""
OverriddenCode = Literal["critique_passed"]
"""What stands where a person overrode the critique; elsewhere `critique_not_required` does."""

if TYPE_CHECKING:
    GateCode: TypeAlias = (
        ValidityCode
        | RulesCode
        | NarrationCode
        | DriftCode
        | UncertaintyCode
        | EvidenceCode
        | PlanCode
        | CritiqueCode
        | ApprovalCode
        | PreludeCode
        | PostludeCode
        | AnyGateCode
        | OverriddenCode
    )
else:
    GateCode = str  # a log of another version may hold a code this one does not give, and is read all the same
"""Every code of a ruling or a decision."""

CODES: dict[Decider, tuple[GateCode, ...]] = {
    "validity": get_args(ValidityCode),
    "rules": get_args(RulesCode),
    "narration": get_args(NarrationCode),
    "drift": get_args(DriftCode),
    "uncertainty": get_args(UncertaintyCode),
    "evidence": get_args(EvidenceCode),
    "plan": get_args(PlanCode),
    "critique": get_args(CritiqueCode),
    "approval": get_args(ApprovalCode),
    "prelude": get_args(PreludeCode),
    "postlude": get_args(PostludeCode),
}
"""Codes by gate. Those of AnyGateCode may come from any gate."""

PLAN_REASONS = (
    "missing_goal",
    "missing_success_criteria",
    "missing_first_action_tool",
    "first_action_tool_mismatch",
    "missing_first_action_description",
    "missing_first_action_target",
    "first_action_target_mismatch",
    "missing_verification_requirement",
    "missing_risk_acknowledgment",
    "missing_plan_version",
    "planned_steps_first_action_mismatch",
    "planned_steps_first_action_target_mismatch",
    "planned_steps_incomplete_entry",
)
"""Why a plan is rejected, in the order they are checked."""

CRITIQUE_REASONS = ("missing_summary", "missing_issues_for_replan")
"""Why a critique is invalid."""

NotRunCode = Literal[
    "not_run_after_change_not_made",
    "not_run_after_failure",
    "not_run_loop",
    "not_run_too_many",
    "not_run_dry_run",
    "not_run_cancelled",
    "not_run_budget",
    "not_run_truncated",
    "not_asked_now",
    "stale_evidence",
    "tool_failed",
]
NOT_RUN: tuple[NotRunCode, ...] = get_args(NotRunCode)
"""Codes of answers to calls that did not run, beside the gates' own. `tool_failed`: it could not even be started."""

REPEATED_HOLD = "repeated_hold"
"""Code of the loop's own question about a call that was held or denied again for the same reason."""


def get_pass_code(gate: GateName) -> GateCode:
    """Return the code by which a gate lets a call pass."""
    return cast(GateCode, f"{gate}_passed")
