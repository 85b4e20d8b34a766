"""Gate `evidence`: the session has observed what a call would change, and it has not changed since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from foregate.policy.policy import Policy, Requirement
from foregate.policy.risk.facts import effect_of_access
from foregate.schemas.codes import EvidenceCode, GateName
from foregate.schemas.judgement import Mode, Opinion, Remedy, Ruling, Standing
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, EvidenceSeen, SurveyedResource, ToolCall, Trust
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

_PASSED = Ruling(Standing.ALLOW, "evidence_passed")


@dataclass(frozen=True)
class EvidenceGate:
    """Holds a change of something unseen or changed since, and names the call that looks."""

    policy: Policy
    catalogue: Catalogue
    name: GateName = "evidence"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.evidence.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        return Opinion({call.id: self.rule_on_call(so_far.facts[call.id]) for call in live})

    def rule_on_call(self, facts: CallFacts) -> Ruling:
        """Return the first unmet requirement's ruling on one call."""
        for resource in facts.resources:
            for requirement in self.policy.evidence.requirements:
                if is_applicable(requirement, resource) and (ruling := self.check_requirement(requirement, resource)):
                    return ruling
        return _PASSED

    def check_requirement(self, requirement: Requirement, resource: SurveyedResource) -> Ruling | None:
        """Return the hold when no accepted record of the resource is there, or only an outdated one."""
        records = [seen for seen in resource.evidence if is_accepted(requirement, seen)]
        if not records:
            why = f"`{resource.id}` has not been looked at in this session"
            return self.build_hold("missing_pre_execution_evidence", why, requirement, resource)
        if requirement.content == "same":  # a listing since the content was read takes nothing from what was read
            records = [seen for seen in records if seen.hash]
        if not records:
            why = f"the content of `{resource.id}` has not been looked at in this session"
            return self.build_hold("missing_pre_execution_evidence", why, requirement, resource)
        newest = max(records, key=lambda seen: seen.seq)
        if requirement.content != "any" and newest.hash and newest.hash != resource.hash:
            why = f"`{resource.id}` has changed since it was last looked at"
            return self.build_hold("stale_evidence", why, requirement, resource)
        return None

    def build_hold(self, code: EvidenceCode, why: str, requirement: Requirement, resource: SurveyedResource) -> Ruling:
        """Return a hold with the remedy the policy names, when that tool is offered."""
        if requirement.remedy not in self.catalogue:
            return Ruling(Standing.HOLD, code, f"{why}; look at it first, then repeat the call", reason=resource.id)
        remedy = Remedy(requirement.remedy, {requirement.parameter: resource.id})
        message = f"{why}; call `{remedy.tool}` on it, then repeat the call"
        return Ruling(Standing.HOLD, code, message, remedy, reason=resource.id)


def is_applicable(requirement: Requirement, resource: SurveyedResource) -> bool:
    """Whether the requirement is about this resource: it exists, and the call would do that to it."""
    return resource.exists and resource.kind is requirement.kind and effect_of_access(resource) in requirement.effects


def is_accepted(requirement: Requirement, seen: EvidenceSeen) -> bool:
    """Whether a record is of an accepted kind and, where the whole content is needed, of all of it."""
    return seen.kind in requirement.accepts and not (requirement.whole and seen.trust is not Trust.DIRECT)
