"""What each code says, and what one does about it: for whoever reads a log, and for the generated pages."""

from __future__ import annotations

MEANINGS: dict[str, tuple[str, str]] = {
    "validity_passed": ("The tool exists and the arguments fit its schema.", ""),
    "unknown_tool": ("There is no tool of that name.", "Use a tool of the list; the message names the nearest."),
    "invalid_arguments": (
        "The arguments cannot be read strictly, break the tool's JSON Schema, or name what cannot be looked at.",
        "Mend what the message names, then send the call again.",
    ),
    "plan_required": (
        "The session's mode lets nothing, or no more than one change, be made outside a plan that a person confirmed.",
        "Confirm the plan that is made of it; where none can be made, say in words what is to be changed.",
    ),
    "rules_passed": ("No rule stands against the call.", ""),
    "denied_by_rule": ("A rule forbids the call.", "Do without it, or change the rule in the policy."),
    "asked_by_rule": ("A rule wants a person's yes.", "`approval` asks for it."),
    "refused_before": (
        "The same call was refused in this task, and neither it nor its evidence has changed.",
        "Change the call, or look at its target again where that has changed.",
    ),
    "narration_passed": ("What was understood and intended has been said.", ""),
    "narration_required": (
        "Something is about to be risked and nothing was said about it.",
        "Say in a sentence what was understood and what will be done, with the call.",
    ),
    "drift_passed": ("The request does not ask for words only.", ""),
    "text_only_turn_side_effecting_tool_drift": (
        "The request wants words, and the model wants to act.",
        "Answer in words; the next request to the model goes without tools.",
    ),
    "uncertainty_passed": ("Enough is known to act.", ""),
    "uncertainty_clarification": (
        "Too little is known to change anything: one question names what is open.",
        "Answer the question; what was answered is not asked again.",
    ),
    "evidence_passed": ("What the call would change was looked at, and is as it was.", ""),
    "missing_pre_execution_evidence": (
        "What the call would change was not looked at in this session.",
        "Take the look the remedy names; where it only observes, Foregate takes it and attaches the result.",
    ),
    "stale_evidence": (
        "What the call would change has changed since it was looked at.",
        "Look again, then send a call that fits what is there now.",
    ),
    "plan_passed": ("No plan is due, or the accepted one covers the call.", ""),
    "plan_accepted": ("A plan was written, checked against the call and accepted.", ""),
    "plan_rejected": ("The plan has a defect, which its reason names.", "Change the call, or say what it is for."),
    "plan_unavailable": ("The planner gave no usable plan.", "Send the call again, or have a person approve it."),
    "plan_unavailable_let_go": ("The planner gave no usable plan, and the policy goes on without one.", ""),
    "plan_drift": (
        "The accepted plan does not cover the call, and could not be widened.",
        "Keep to the plan, or say why it must be widened.",
    ),
    "plan_not_asked": ("Nobody can say yes to the call, so the planner was not asked.", "Have a person at hand."),
    "critique_not_required": ("The call needs no second look.", ""),
    "critique_accepted": ("The critic found nothing against it.", ""),
    "critique_rejected": ("The critic names what is wrong with it.", "Mend what the issues name, then try again."),
    "critique_invalid": ("The critic's answer could not be used.", "Send the call again, or have a person approve it."),
    "critique_unavailable": ("The critic could not be had.", "Send the call again, or have a person approve it."),
    "critique_skipped_budget": ("The task's budget for critiques is used up.", "A person decides instead."),
    "critique_not_asked": ("Nobody can say yes to the call, so the critic was not asked.", "Have a person at hand."),
    "approval_passed": ("Nothing asks for a yes.", ""),
    "approval_required": (
        "The call needs a person's yes, and nobody can be asked.",
        "Run it with a person at hand (`foregate chat`), or leave it out.",
    ),
    "approval_granted": ("A person said yes, or had given leave that covers the call.", ""),
    "approval_denied": ("A person said no.", "Read the reason; do something else."),
    "approval_expired": ("Nobody answered in time.", "Send the call again while somebody is there."),
    "changed_while_waiting": (
        "What the question was about changed while it was open, so the answer is void.",
        "A new sheet shows what changed.",
    ),
    "prelude_ready_for_execution": ("The judging is over and something may run.", ""),
    "verification_passed": ("What the plan promised was seen after the last change.", ""),
    "verification_pending": ("Something the plan promised was not seen yet.", "Check it and say what came of it."),
    "unverified": ("The answer passes, with what was not seen marked.", ""),
    "gate_error": ("The gate could not judge the call, so it is held.", "Read the reason in the log; mend its cause."),
    "not_asked_now": (
        "Something else of the response must be settled first.",
        "Settle that, then send the call again.",
    ),
    "not_run_after_change_not_made": (
        "An earlier change of the response was not made, and this one may have counted on it.",
        "See to the earlier change, then send the call again.",
    ),
    "not_run_after_failure": (
        "An earlier step of the same sequence failed, was held or denied, or nobody knows what became of it.",
        "See to that step, then send the call again if it is still wanted.",
    ),
    "not_run_loop": ("The identical call ran several times and nothing changed.", "Do something else."),
    "not_run_too_many": ("The response holds more calls than are judged.", "Send the call again."),
    "not_run_dry_run": ("A dry run: the call was judged and would have run.", ""),
    "not_run_cancelled": ("The person cancelled, or the process ended.", "Send the call again if it is still wanted."),
    "not_run_budget": ("The task has used all its tool calls.", "Ask for less, or raise `limits.tool_calls`."),
    "not_run_truncated": ("The response was cut off.", "Send the calls again, shorter."),
    "tool_failed": ("The tool could not even be started.", "Read the message; mend its cause."),
}
"""Per code what it says and, where it stops something, what to do about it. A test holds that no code is missing."""
