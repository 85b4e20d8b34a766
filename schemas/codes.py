"""Every public code, by who gives it. Auditors filter by these names; once shipped they only change with notice."""

from __future__ import annotations

from foregate.schemas.ruling import Standing

GATES = (
    "validity",
    "rules",
    "narration",
    "drift",
    "uncertainty",
    "evidence",
    "plan",
    "critique",
    "approval",
)
"""The gates in the order they are asked."""

CODES: dict[str, tuple[str, ...]] = {
    "validity": ("validity_passed", "unknown_tool", "invalid_arguments", "plan_required"),
    "rules": ("rules_passed", "denied_by_rule", "asked_by_rule", "refused_before"),
    "narration": ("narration_passed", "narration_required"),
    "drift": ("drift_passed", "text_only_turn_side_effecting_tool_drift"),
    "uncertainty": ("uncertainty_passed", "uncertainty_clarification"),
    "evidence": ("evidence_passed", "missing_pre_execution_evidence", "stale_evidence"),
    "plan": (
        "plan_passed",
        "plan_accepted",
        "plan_rejected",
        "plan_unavailable",
        "plan_unavailable_let_go",
        "plan_drift",
        "plan_not_asked",
    ),
    "critique": (
        "critique_not_required",
        "critique_accepted",
        "critique_rejected",
        "critique_invalid",
        "critique_unavailable",
        "critique_skipped_budget",
        "critique_not_asked",
    ),
    "approval": (
        "approval_passed",
        "approval_required",
        "approval_granted",
        "approval_denied",
        "approval_expired",
        "changed_while_waiting",
    ),
    "prelude": ("prelude_ready_for_execution",),
    "postlude": ("verification_passed", "verification_pending", "unverified"),
}
"""Codes by gate. `gate_error` and `not_asked_now` may come from any gate."""

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

NOT_RUN = (
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
)
"""Codes of answers to calls that did not run, beside the gates' own. `tool_failed`: it could not even be started."""

REPEATED_HOLD = "repeated_hold"
"""Code of the loop's own question about a call that was held or denied again for the same reason."""

STANDING: dict[str, Standing] = {
    **dict.fromkeys(
        ("unknown_tool", "denied_by_rule", "approval_required", "approval_denied", "approval_expired"), Standing.DENY
    ),
    **dict.fromkeys(
        ("asked_by_rule", "plan_not_asked", "critique_not_asked", "critique_skipped_budget", "changed_while_waiting"),
        Standing.ASK,
    ),
}
"""Standing of a code that fires; HOLD for every other (three codes follow the policy)."""


def standing_of(code: str) -> Standing:
    """Return the standing a firing `code` has unless the policy says otherwise."""
    return STANDING.get(code, Standing.HOLD)
