"""Judging a recorded turn again, under its own policy or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foregate.gates.postlude import postlude
from foregate.gates.prelude import Prelude, judge
from foregate.policy.policy import Policy
from foregate.schemas.judgement import Judgement
from foregate.schemas.need import Need
from foregate.schemas.turn import Turn

Change = Literal["unchanged", "newly_held", "let_go", "other_reason", "would_ask"]


@dataclass(frozen=True, slots=True)
class Redecision:
    """What a turn comes to when judged again: a judgement, or the need nobody has answered (`would_ask`)."""

    change: Change
    judgement: Judgement | None = None
    need: Need | None = None


def decide(turn: Turn, policy: Policy, bench: Prelude) -> Judgement | Need:
    """Judge a turn of any actor: an answer after changes goes to the postlude, everything else to the gates."""
    if turn.actor == "postlude" and not turn.calls:
        return postlude(turn, policy)
    return judge(turn, bench)


def redecide(turn: Turn, recorded: Judgement, policy: Policy, bench: Prelude) -> Redecision:
    """Judge a recorded turn again and say how the verdicts differ.

    Recorded answers are used whatever policy they were given under; a need without one is `would_ask`.
    """
    again = decide(turn, policy, bench)
    if isinstance(again, Need):
        return Redecision("would_ask", need=again)
    return Redecision(compare(recorded, again), again)


def compare(before: Judgement, after: Judgement) -> Change:
    """Return how two judgements of one turn differ, the gravest difference first."""
    pairs = [(old, after.verdict_of(old.call)) for old in before.verdicts]
    if any(old.standing < new.standing for old, new in pairs):
        return "newly_held"
    if any(new.standing < old.standing for old, new in pairs):
        return "let_go"
    if any((old.gate, old.ruling.code) != (new.gate, new.ruling.code) for old, new in pairs):
        return "other_reason"
    return "unchanged"
