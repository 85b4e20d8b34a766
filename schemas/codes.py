"""Every public code, by who gives it, and what it means. Auditors filter by these names; once shipped they only change
with notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

GateName = Literal["validity", "rules", "narration", "drift", "uncertainty", "evidence", "plan", "critique", "approval"]
GATES: tuple[GateName, ...] = get_args(GateName)
"""The gates in the order they are asked."""

if TYPE_CHECKING:
    Decider: TypeAlias = GateName | Literal["prelude", "postlude"]
else:
    Decider = str
"""Whose row a decision is: a gate, the judge itself, or the check after an answer."""

ValidityCode = Literal["validity_passed", "unknown_tool", "invalid_arguments", "plan_required"]
RulesCode = Literal["rules_passed", "denied_by_rule", "asked_by_rule", "refused_before"]
NarrationCode = Literal["narration_passed", "narration_required"]
DriftCode = Literal["drift_passed", "text_only_turn_side_effecting_tool_drift"]
UncertaintyCode = Literal["uncertainty_passed", "uncertainty_clarification"]
EvidenceCode = Literal["evidence_passed", "missing_pre_execution_evidence", "stale_evidence", "unread_value"]
PlanCode = Literal[
    "plan_passed",
    "plan_not_required",
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
    "outside_mandate",
    "changed_while_waiting",
]
PreludeCode = Literal["prelude_ready_for_execution"]
PostludeCode = Literal["verification_passed", "verification_pending", "unverified"]
AnyGateCode = Literal["gate_error", "not_asked_now", "overridden"]
"""Codes that may come from any gate."""
OverriddenCode = Literal["critique_passed"]
"""What stands where a person overrode the critique in an earlier version; elsewhere `critique_not_required` does."""

if TYPE_CHECKING:
    _FirstGatesCode: TypeAlias = ValidityCode | RulesCode | NarrationCode | DriftCode | UncertaintyCode | EvidenceCode
    _LastGatesCode: TypeAlias = PlanCode | CritiqueCode | ApprovalCode | PreludeCode | PostludeCode
    GateCode: TypeAlias = _FirstGatesCode | _LastGatesCode | AnyGateCode | OverriddenCode
else:
    # A log of another version may hold a code this one does not give, and is read all the same.
    GateCode = str
"""Every code of a ruling or a decision."""

_OF_GATES = (ValidityCode, RulesCode, NarrationCode, DriftCode, UncertaintyCode, EvidenceCode, PlanCode, CritiqueCode)
CODES: dict[Decider, tuple[GateCode, ...]] = dict(
    zip(
        (*GATES, "prelude", "postlude"),
        map(get_args, (*_OF_GATES, ApprovalCode, PreludeCode, PostludeCode)),
        strict=True,
    )
)
"""Codes by gate. Those of AnyGateCode may come from any gate."""

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


MEANINGS: dict[str, tuple[str, str]] = {
    "validity_passed": ("The tool exists and the arguments fit its schema.", ""),
    "unknown_tool": ("There is no tool of that name.", "Use a tool of the list; the message names the nearest."),
    "invalid_arguments": (
        "The arguments cannot be read strictly, break the tool's JSON Schema, or name what cannot be surveyed.",
        "Correct what the message names, then send the call again.",
    ),
    "plan_required": (
        "The session's mode allows no change, or no more than one, outside a plan that a person confirmed.",
        "Confirm the plan that Foregate makes; where it can make none, say in words what should change.",
    ),
    "rules_passed": ("No rule is against the call.", ""),
    "denied_by_rule": ("A rule forbids the call.", "Do without it, or change the rule in the policy."),
    "asked_by_rule": ("A rule wants a person's yes.", "`approval` asks for it."),
    "refused_before": (
        "The same call was refused in this task, and neither it nor its evidence has changed.",
        "Change the call, or read its target again where that has changed.",
    ),
    "narration_passed": ("The task has said what it understood and intends.", ""),
    "narration_required": (
        "The call risks something, and the task has said nothing about it.",
        "Say in a sentence what you understood and will do, and send the call with it.",
    ),
    "drift_passed": ("The request does not ask for words only.", ""),
    "text_only_turn_side_effecting_tool_drift": (
        "The request asks for words, and the model wants to act.",
        "Answer in words; the next request to the model goes without tools.",
    ),
    "uncertainty_passed": ("Enough is known to act.", ""),
    "uncertainty_clarification": (
        "Too little is known to change anything. One question names what is open.",
        "Answer the question; what was answered is not asked again.",
    ),
    "evidence_passed": ("The session has read what the call would change, and it is as it was.", ""),
    "missing_pre_execution_evidence": (
        "The session has not read what the call would change.",
        "Run the remedy; where it only observes, Foregate runs it and attaches the result.",
    ),
    "stale_evidence": (
        "What the call would change has changed since the session read it.",
        "Read it again, then send a call that fits what is there now.",
    ),
    "unread_value": (
        "The call names a thing by a number or code that nobody said and nothing that was read holds.",
        "Look it up; the same call once more is shown to a person.",
    ),
    "plan_passed": ("No plan is due, or the accepted one covers the call.", ""),
    "plan_not_required": (
        "The person asked for the call in so many words, or is asked for its values, so no plan was made.",
        "",
    ),
    "plan_accepted": ("A plan was written, checked against the call and accepted.", ""),
    "plan_rejected": ("The plan has a defect, which its reason names.", "Change the call, or say what it is for."),
    "plan_unavailable": ("The planner gave no usable plan.", "Send the call again, or have a person approve it."),
    "plan_unavailable_let_go": ("The planner gave no usable plan, and the policy goes on without one.", ""),
    "plan_drift": (
        "No accepted plan covers the call: it is asked, or held where the planner saw the call.",
        "Keep to the plan, say yes to the call, or say why the plan must be widened.",
    ),
    "plan_not_asked": ("No person can say yes to the call, so the planner was not asked.", "Run it with a person."),
    "critique_not_required": ("The call needs no critique.", ""),
    "critique_accepted": ("The critic found nothing against it.", ""),
    "critique_rejected": ("The critic names what is wrong with it.", "Correct what the issues name, then try again."),
    "critique_invalid": ("The critic's answer could not be used.", "Send the call again, or have a person approve it."),
    "critique_unavailable": ("The critic could not be reached.", "Send the call again, or have a person approve it."),
    "critique_skipped_budget": ("The task's budget for critiques is used up.", "A person decides instead."),
    "critique_not_asked": ("No person can say yes to the call, so the critic was not asked.", "Run it with a person."),
    "approval_passed": ("Nothing asks for a yes.", ""),
    "approval_required": (
        "The call needs a person's yes, and no person can be asked.",
        "Run it with a person (`foregate chat`), or leave it out.",
    ),
    "approval_granted": ("A person said yes, or had given permission that covers the call.", ""),
    "outside_mandate": (
        "Only text from outside says a value of the call, or it would lose or reveal what the person did not speak of.",
        "Have the person name it, on the sheet or in a message; a plain yes does not do.",
    ),
    "approval_denied": ("A person said no.", "Read the reason; do something else."),
    "approval_expired": ("No one answered in time.", "Send the call again while somebody is there."),
    "changed_while_waiting": (
        "What the question was about changed while it was open, so the answer does not count.",
        "A new sheet shows what changed.",
    ),
    "prelude_ready_for_execution": ("Judging is over, and something may run.", ""),
    "verification_passed": ("The session observed what the plan promised, after the last change.", ""),
    "verification_pending": (
        "Something that the plan promised was not observed yet.",
        "Check it and report the outcome.",
    ),
    "unverified": ("The answer passes; it marks what was not observed.", ""),
    "gate_error": (
        "The gate could not judge the call, so it is held.",
        "Read the reason in the log and correct its cause.",
    ),
    "not_asked_now": (
        "Something else in the response must be settled first.",
        "Settle that, then send the call again.",
    ),
    "overridden": ("A person wanted the call done anyway, though the gate had held it.", ""),
    "not_run_after_change_not_made": (
        "An earlier change of the response was not made, and this one may depend on it.",
        "Settle the earlier change, then send the call again.",
    ),
    "not_run_after_failure": (
        "An earlier step of the same sequence failed, was held or denied, or its outcome is unknown.",
        "Settle that step, then send the call again if it is still wanted.",
    ),
    "not_run_loop": ("The identical call ran several times and nothing changed.", "Do something else."),
    "not_run_too_many": ("The response holds more calls than are judged.", "Send the call again."),
    "not_run_dry_run": ("A dry run: the call was judged and would have run.", ""),
    "not_run_cancelled": (
        "The person or the caller cancelled, or the process ended.",
        "Send the call again if it is still wanted.",
    ),
    "not_run_budget": ("The task has used all its tool calls.", "Ask for less, or raise `limits.tool_calls`."),
    "not_run_truncated": ("The response was cut off.", "Send the calls again, shorter."),
    "tool_failed": ("The tool could not even be started.", "Read the message and correct its cause."),
}
"""Per code what it says and, where it stops something, what to do about it. A test holds that no code is missing."""
