"""Gate `evidence`: the session has observed what a call would change, and it has not changed since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import get_args

from foregate.policy.policy import Policy, Requirement
from foregate.schemas.codes import EvidenceCode, GateName
from foregate.schemas.judgement import Mode, Opinion, Remedy, Ruling, Standing, build_pass
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, SurveyedResource, ToolCall, Trust
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import HoldCount, Turn

_SHOWN = ", and it would be gone; look at what would change, and send the same call again if that is what you want"


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
        rulings = {call.id: self.rule_on_call(so_far.facts[call.id], turn) for call in live}
        held = [call.id for call in live if rulings[call.id].standing is Standing.HOLD]
        if (
            not held or turn.done_steps is None
        ):  # rows of earlier versions name no kind, and are judged again as they were
            return Opinion(rulings)
        return Opinion(rulings, detail=self.describe_gap(so_far.facts[held[0]], rulings[held[0]]))

    def describe_gap(self, facts: CallFacts, held: Ruling) -> dict[str, Json]:
        """Return the kinds of evidence the first held call lacks, of what, and why what there is does not do."""
        kinds = (
            wanted.accepts
            for of, wanted in product(facts.resources, self.policy.evidence.requirements)
            if of.id == held.reason and is_applicable(wanted, of) and find_gap(wanted, of)
        )
        return {"kinds": [k.value for k in next(kinds)], "target": held.reason, "reason": held.message[:300]}

    def rule_on_call(self, facts: CallFacts, turn: Turn) -> Ruling:
        """Return the first unmet requirement's ruling on one call.

        What a sandbox changed it has read; what it took away is to be seen, unless that was shown and confirmed.
        """
        if facts.survey.changes and any(hold.digest == facts.call.digest for hold in find_shown(turn)):
            return build_pass(self.name)
        for resource in facts.resources:
            if facts.survey.changes and resource.loses in ("", "moved"):
                continue
            for requirement in self.policy.evidence.requirements:
                if is_applicable(requirement, resource) and (gap := find_gap(requirement, resource)):
                    if facts.survey.changes:
                        return Ruling(Standing.HOLD, gap[0], f"{gap[1]}{_SHOWN}", reason=resource.id)
                    return self.build_hold(*gap, requirement, resource)
        return build_pass(self.name)

    def build_hold(self, code: EvidenceCode, why: str, requirement: Requirement, resource: SurveyedResource) -> Ruling:
        """Return a hold with the remedy the policy names, when that tool is offered."""
        if requirement.remedy not in self.catalogue:
            return Ruling(Standing.HOLD, code, f"{why}; look at it first, then repeat the call", reason=resource.id)
        remedy = Remedy(requirement.remedy, {requirement.parameter: resource.id})
        message = f"{why}; call `{remedy.tool}` on it, then repeat the call"
        return Ruling(Standing.HOLD, code, message, remedy, reason=resource.id)


def find_shown(turn: Turn) -> list[HoldCount]:
    """Return the holds after which a model was shown what a sandbox would take away, and that still say the same."""
    known = set(turn.fingerprints.values())
    return [hold for hold in turn.holds if hold.code in get_args(EvidenceCode) and hold.fingerprint in known]


def is_applicable(requirement: Requirement, resource: SurveyedResource) -> bool:
    """Whether the requirement is about this resource: it exists, and the call would do that to it."""
    return resource.exists and resource.kind is requirement.kind and resource.effect in requirement.effects


def find_gap(requirement: Requirement, resource: SurveyedResource) -> tuple[EvidenceCode, str] | None:
    """Return why no accepted record of the resource will do: there is none, or only an outdated one."""
    kinds, whole = requirement.accepts, requirement.whole
    records = [seen for seen in resource.evidence if seen.kind in kinds and (not whole or seen.trust is Trust.DIRECT)]
    # a listing since the content was read takes nothing from what was read
    fit = [seen for seen in records if seen.hash] if requirement.content == "same" else records
    if not fit:
        what = "the content of " if records else ""
        return "missing_pre_execution_evidence", f"{what}`{resource.id}` has not been looked at in this session"
    newest = max(fit, key=lambda seen: seen.seq)
    if requirement.content != "any" and newest.hash and newest.hash != resource.hash:
        return "stale_evidence", f"`{resource.id}` has changed since it was last looked at"
    return None
