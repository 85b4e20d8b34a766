"""Gate `rules`: the operator's own rules; a call that was refused once stays refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from foregate.policy.policy import Policy
from foregate.policy.risk.rules import apply_rules
from foregate.schemas.codes import GateName
from foregate.schemas.errors import PolicyError
from foregate.schemas.judgement import Mode, Opinion, Ruling, Standing
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, ToolCall, fingerprint
from foregate.schemas.turn import Refusal, Turn

_PASSED = Ruling(Standing.ALLOW, "rules_passed")


@dataclass(frozen=True)
class RulesGate:
    """Deny beats ask beats allow, whatever the order in the file; what no rule names follows `rules.unmatched`."""

    policy: Policy
    name: GateName = "rules"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.rules.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        return Opinion({call.id: self.rule_or_hold(so_far.facts[call.id], turn) for call in live})

    def rule_or_hold(self, facts: CallFacts, turn: Turn) -> Ruling:
        """Return the ruling on one call; where a rule cannot be applied to it, only that call is held."""
        try:
            return self.rule_on_call(facts, turn)
        except PolicyError as error:
            message = f"a rule cannot be applied to this call, so it is held: {error}"
            return Ruling(Standing.HOLD, "gate_error", message[:400], reason=str(error)[:200])

    def rule_on_call(self, facts: CallFacts, turn: Turn) -> Ruling:
        """Return the ruling on one call."""
        then, rules, message = apply_rules(facts, self.policy, turn)
        if then == "deny":
            return Ruling(Standing.DENY, "denied_by_rule", message, rules=rules)
        if self.policy.rules.refused_before and (refusal := find_refusal(facts, turn)):
            return Ruling(Standing.HOLD, "refused_before", refusal.message, reason=f"{refusal.code}, {refusal.seq}")
        if then == "ask":
            return Ruling(Standing.ASK, "asked_by_rule", message, rules=rules)
        return Ruling(Standing.ALLOW, "rules_passed", rules=rules) if rules else _PASSED


def find_refusal(facts: CallFacts, turn: Turn) -> Refusal | None:
    """Return the first refusal of this very call, while what is known of its resources is the same."""
    for refusal in turn.refusals:
        if refusal.digest == facts.call.digest and refusal.fingerprint == fingerprint(facts.survey):
            return refusal
    return None
