"""How often a gate has fired in a task; shadow gates keep counters of their own."""

from __future__ import annotations

from foregate.schemas.decision import Mode
from foregate.schemas.turn import Turn


def fired(turn: Turn, gate: str, mode: Mode) -> int:
    """Return how often `gate` has fired in the task before this turn."""
    counts = turn.shadow_fired if mode == "shadow" else turn.fired
    return counts.get(gate, 0)
