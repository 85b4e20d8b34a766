"""Gate `evidence`: the session has observed what a call would change, and it has not changed since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import get_args

from msgspec import Struct

from foregate.policy.policy import Policy, Requirement
from foregate.schemas.codes import EvidenceCode, GateName
from foregate.schemas.judgement import Mode, Opinion, Remedy, Ruling, Standing, build_pass
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, SurveyedResource, ToolCall, Trust
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import HoldCount, Turn
from foregate.schemas.value import ArgumentValue

_DIRECT = Trust.DIRECT
_SHOWN = ", and it would be gone; look at what would change, and send the same call again if that is what you want"


class EvidenceGate(Struct, frozen=True, dict=True):
    """Holds a change of something unseen or changed since, and names the call that looks."""

    policy: Policy
    catalogue: Catalogue
    name: GateName = "evidence"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.evidence.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        rulings = {call.id: self.rule_on_call(so_far.facts[call.id], turn) for call in live}
        held = [call.id for call in live if rulings[call.id].standing.stops]
        if (
            not held or turn.done_steps is None
            # Rows of earlier versions name no kind, and are judged again as they were.
        ):
            return Opinion(rulings)
        return Opinion(rulings, detail=self.describe_gap(so_far.facts[held[0]], rulings[held[0]]))

    def describe_gap(self, facts: CallFacts, held: Ruling) -> dict[str, Json]:
        """Return the kinds of evidence the first held call lacks, of what, and why what there is does not do."""
        gaps = (
            gap[0].accepts
            for of in facts.survey.resources
            if of.id == held.reason and (gap := find_first_gap(of, self.policy.evidence.requirements))
        )
        kinds = next(gaps, ())
        return {"kinds": [kind.value for kind in kinds], "target": held.reason, "reason": held.message[:300]}

    def rule_on_call(self, facts: CallFacts, turn: Turn) -> Ruling:
        """Return the first unmet requirement's ruling on one call.

        What a sandbox changed it has read; what it took away is to be seen, unless that was shown and confirmed.
        """
        if facts.survey.changes and any(hold.digest == facts.call.digest for hold in find_shown(turn)):
            return build_pass(self.name)
        if unread := find_unread_value(facts, turn):
            where = f"`{unread.path}` is `{unread.text}`, which nobody said and nothing that was read holds"
            message = f"{where}; look it up, and send the call with what you find"
            return Ruling(Standing.HOLD, "unread_value", message, reason=unread.text)
        for resource in facts.survey.resources:
            if facts.survey.changes and resource.loses in ("", "moved"):
                continue
            if found := find_first_gap(resource, self.policy.evidence.requirements):
                requirement, (code, why) = found
                if facts.survey.changes:
                    return Ruling(Standing.HOLD, code, f"{why}{_SHOWN}", reason=resource.id)
                return self.build_hold(code, why, requirement, resource)
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


def find_unread_value(facts: CallFacts, turn: Turn) -> ArgumentValue | None:
    """Return the first value of a call in need of leave that its model is to look up, None for no such. It is told so
    once: a person may still know what nobody here could read."""
    if facts.authority in ("", "said") or (facts.call.digest, "unread_value") in {
        (h.digest, h.code) for h in turn.holds
    }:
        return None
    return next((value for value in facts.survey.values or () if value.is_unread), None)


def find_first_gap(
    resource: SurveyedResource, requirements: Iterable[Requirement]
) -> tuple[Requirement, tuple[EvidenceCode, str]] | None:
    """Return the first requirement about what the call would do to a resource that it does not meet, and its gap; None
    where it meets all of them, or is not there."""
    if not resource.exists:
        return None
    kind, effect = resource.kind, resource.effect
    for wanted in requirements:
        if kind is wanted.kind and effect in wanted.effects and (gap := find_gap(wanted, resource)):
            return wanted, gap
    return None


def find_gap(requirement: Requirement, resource: SurveyedResource) -> tuple[EvidenceCode, str] | None:
    """Return why no accepted record of the resource will do: it is missing, or outdated."""
    kinds, whole = requirement.accepts, requirement.whole
    newest, records = None, 0
    for seen in resource.evidence:
        if seen.kind in kinds and (not whole or seen.trust is _DIRECT):
            records += 1
            # a listing since the content was read takes nothing from what was read
            if (seen.hash or requirement.content != "same") and (newest is None or seen.seq > newest.seq):
                newest = seen
    if newest is None:
        what = "the content of " if records else ""
        return "missing_pre_execution_evidence", f"{what}`{resource.id}` has not been looked at in this session"
    if requirement.content != "any" and newest.hash and newest.hash != resource.hash:
        return "stale_evidence", f"`{resource.id}` has changed since it was last looked at"
    return None
