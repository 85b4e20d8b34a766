"""The policy a served session is judged by: what remains of one where no model is talked with."""

from __future__ import annotations

from foregate.policy.policy import Policy

OFF = ("narration", "drift", "uncertainty", "plan", "critique", "postlude")
"""Gates that ask what a model said, what a person asked for, or another model: here is none of them."""
_UNCOUNTED = (
    "turns",
    "model_calls",
    "tool_calls",
    "tokens",
    "cost",
    "wall_clock",
    "identical_changes",
    "identical_observations",
    "repeated_holds",
    "child_depth",
)
"""Limits of one task and its loop, which the caller has to keep; 0 is none, and no `delegate`."""


def narrow_policy(policy: Policy) -> Policy:
    """Return the policy with the gates `validity`, `rules`, `evidence` and `approval` as they are, and no others.

    Limits of a task do not count: a served session is one task without an end. Everything else stays.
    """
    gates = {name: getattr(policy, name).model_copy(update={"mode": "off"}) for name in OFF}
    limits = policy.limits.model_copy(update=dict.fromkeys(_UNCOUNTED, 0))
    return policy.model_copy(update={**gates, "limits": limits})
