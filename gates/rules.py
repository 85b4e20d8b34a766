"""Gate `rules`: the operator's own rules; a call that was refused once stays refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.policy.risk.http import explain_unlisted, is_allowed_host
from foregate.policy.risk.rule_matching import apply_rules
from foregate.schemas.codes import GateName
from foregate.schemas.errors import PolicyError
from foregate.schemas.judgement import Mode, Opinion, Ruling, Standing, build_pass
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, ToolCall, fingerprint
from foregate.schemas.tool_spec import ResourceKind
from foregate.schemas.turn import Refusal, Turn


class RulesGate(Struct, frozen=True, dict=True):
    """Deny beats ask beats allow, whatever the order in the file; what no rule names follows `rules.unmatched`."""

    policy: Policy
    name: GateName = "rules"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.rules.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        return Opinion({call.id: self.rule_on_call(so_far.facts[call.id], turn) for call in live})

    def rule_on_call(self, facts: CallFacts, turn: Turn) -> Ruling:
        """Return the ruling on one call; where a rule cannot be applied to it, only that call is held."""
        try:
            then, rules, message = apply_rules(facts, self.policy)
        except PolicyError as error:
            message = f"a rule cannot be applied to this call, so it is held: {error}"
            return Ruling(Standing.HOLD, "gate_error", message[:400], reason=str(error)[:200])
        if then == "deny":
            return Ruling(Standing.DENY, "denied_by_rule", message, rules=rules)
        if host := find_unlisted_host(facts, self.policy):
            return Ruling(Standing.DENY, "denied_by_rule", explain_unlisted(host, self.policy))
        refusal = find_refusal(facts, turn) if turn.refusals else None
        if refusal is not None and self.policy.rules.refused_before:
            return Ruling(Standing.HOLD, "refused_before", refusal.message, reason=f"{refusal.code}, {refusal.seq}")
        if then == "ask":
            return Ruling(Standing.ASK, "asked_by_rule", message, rules=rules)
        return Ruling(Standing.ALLOW, "rules_passed", rules=rules) if rules else build_pass(self.name)


def find_unlisted_host(facts: CallFacts, policy: Policy) -> str:
    """Return the host of a built-in tool's request that the policy does not list, "" where it lists all of them."""
    if facts.spec is None or facts.spec.provenance != "builtin":
        return ""
    for one in facts.survey.resources:
        if one.kind is ResourceKind.HOST and policy.http.unlisted == "deny" and not is_allowed_host(one.id, policy):
            return one.id
    return ""


def find_refusal(facts: CallFacts, turn: Turn) -> Refusal | None:
    """Return the first refusal of this very call, while what is known of its resources is the same."""
    same = (refusal for refusal in turn.refusals if refusal.digest == facts.call.digest)
    return next((refusal for refusal in same if refusal.fingerprint == fingerprint(facts.survey)), None)
