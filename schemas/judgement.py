"""What the judge says of a turn: one verdict per call, and every decision that led there."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from foregate.schemas.decision import Decision
from foregate.schemas.grant import Grant
from foregate.schemas.opinion import Consequence
from foregate.schemas.plan import PlanInForce
from foregate.schemas.ruling import Ruling
from foregate.schemas.standing import Standing


class Verdict(Struct, frozen=True, forbid_unknown_fields=True):
    """ALLOW, HOLD or DENY for one call, the strictest ruling it got and the gate that gave it."""

    call: str
    digest: str
    standing: Standing
    gate: str
    ruling: Ruling


class Judgement(Struct, frozen=True, forbid_unknown_fields=True):
    """The end of judging. `plan` is the plan in force afterwards when this turn changed it; `grants` are new;
    `uses` names, per allowed call, the scope items of the plan it uses up when it starts."""

    verdicts: tuple[Verdict, ...]
    decisions: tuple[Decision, ...]
    consequence: Consequence | None = None
    consequence_gate: str = ""
    plan: PlanInForce | None = None
    grants: tuple[Grant, ...] = ()
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def find_verdict(self, call_id: str) -> Verdict:
        """Return the verdict on a call of the turn; raise LookupError for another call."""
        for verdict in self.verdicts:
            if verdict.call == call_id:
                return verdict
        raise LookupError(f"the judgement has no verdict on `{call_id}`")

    def is_approved(self, call_id: str) -> bool:
        """Whether a person's yes let the call through."""
        rows = (row for decision in self.decisions for row in decision.rulings)
        return any((row.call, row.code) == (call_id, "approval_granted") for row in rows)
