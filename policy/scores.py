"""Risk and uncertainty of a call, in thousandths, with reasons."""

from __future__ import annotations

from collections.abc import Iterable

from foregate.policy.policy import Policy
from foregate.schemas.call_facts import CallFacts, Reason, Score
from foregate.schemas.turn import Turn

NONE = Score(0)


def noisy_or(reasons: Iterable[Reason]) -> Score:
    """Combine independent dangers: 1 - (1-a)(1-b)..., so that a further danger never lowers the score.

    Integer arithmetic, rounded once at the end, so that every machine gets the same number.
    """
    kept = tuple(reason for reason in reasons if reason.weight > 0)
    safe, scale = 1, 1
    for reason in kept:
        safe *= 1000 - reason.weight
        scale *= 1000
    return Score(1000 - (safe * 1000 + scale // 2) // scale, kept)


def risk(facts: CallFacts, turn: Turn, policy: Policy) -> Score:
    """Return how much could be lost by this call."""
    weights = policy.scores.risk
    return noisy_or([Reason("effect", weights.effect[facts.effect], f"the call would {facts.effect}")])


def uncertainty(facts: CallFacts, turn: Turn, policy: Policy) -> Score:
    """Return how much is unknown about what this call should do."""
    return NONE
