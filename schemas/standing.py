"""How a call stands after a ruling."""

from __future__ import annotations

from enum import Enum


class Standing(Enum):
    """How a call stands, from loosest to strictest; rulings are joined by `max`.

    HOLD may be cured and sent again; DENY is final for that digest in its task.
    """

    ALLOW = "allow"
    ASK = "ask"
    HOLD = "hold"
    DENY = "deny"

    def __init__(self, _word: str) -> None:
        self.rank = len(type(self).__members__)
        """0 for ALLOW to 3 for DENY."""
        self.stops = _word in ("hold", "deny")
        """Whether no further gate is asked about the call."""

    def __lt__(self, other: Standing) -> bool:
        return self.rank < other.rank


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


def find_standing(code: str) -> Standing:
    """Return the standing a firing `code` has unless the policy says otherwise."""
    return STANDING.get(code, Standing.HOLD)
