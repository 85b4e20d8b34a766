"""How often a gate has fired in a task, and asked about a response; shadow gates keep counters of their own."""

from __future__ import annotations

from foregate.schemas.judgement import Mode
from foregate.schemas.turn import Turn


def count_fired(turn: Turn, gate: str, mode: Mode) -> int:
    """Return how often `gate` has fired in the task before this turn."""
    counts = turn.shadow_fired if mode == "shadow" else turn.fired
    return counts.get(gate, 0)


def has_asked_enough(turn: Turn, gate: str, bound: int) -> bool:
    """Whether `gate` has had `bound` answers about this response, those that no longer count included; 0 is never."""
    answers = len(turn.find_answers(gate)) + sum(void.gate == gate for void in turn.voided)
    return 0 < bound <= answers
