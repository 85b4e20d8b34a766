"""What a tool is able to do, declared once per tool."""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """Seven flags. The default is the worst: mutating, external, irreversible, at most once, needs approval."""

    read_only: bool = False
    external_side_effect: bool = True
    needs_approval: bool = True
    idempotent: bool = False
    high_impact_write: bool = False
    reversible: bool = False
    personal_memory: bool = False

    def raise_by(self, other: Capabilities) -> Capabilities:
        """Return the riskier of both, flag by flag: a second opinion may raise a risk, never lower it."""
        return Capabilities(
            read_only=self.read_only and other.read_only,
            external_side_effect=self.external_side_effect or other.external_side_effect,
            needs_approval=self.needs_approval or other.needs_approval,
            idempotent=self.idempotent and other.idempotent,
            high_impact_write=self.high_impact_write or other.high_impact_write,
            reversible=self.reversible and other.reversible,
            personal_memory=self.personal_memory and other.personal_memory,
        )


UNDECLARED = Capabilities()
OBSERVER = Capabilities(
    read_only=True, external_side_effect=False, needs_approval=False, idempotent=True, reversible=True
)
