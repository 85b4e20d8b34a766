"""Gate `rules`: the operator's own rules; a call that was refused once stays refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.commands import can_run
from foregate.policy.risk.facts import effect_of_access
from foregate.policy.risk.globs import matches, matches_beneath, matches_text, may_hold
from foregate.policy.risk.http import is_host_match, normalise_host, read_host
from foregate.schemas.codes import GateName
from foregate.schemas.errors import PolicyError
from foregate.schemas.judgement import Mode, Opinion, Ruling, Standing
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, Command, SurveyedResource, ToolCall, fingerprint
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Refusal, Turn


class RulesVerdict(NamedTuple):
    """What the rules say of a call (`deny`, `ask` or `allow`), which rules decided, and the first one's message."""

    then: str
    rules: tuple[str, ...]
    message: str


def apply_rules(facts: CallFacts, policy: Policy, turn: Turn) -> RulesVerdict:
    """Return what the rules say of one call.

    Raises PolicyError when a deny or ask rule cannot be evaluated and no other rule denies: the call must not run.
    """
    hits: list[Rule] = []
    unclear: PolicyError | None = None
    for rule in policy.rules.list:
        try:
            if is_match(rule, facts, policy):
                hits.append(rule)
        except (PolicyError, ValueError) as error:
            if rule.then != "allow":
                unclear = unclear or PolicyError(f"the rule `{rule.id}` cannot be applied to this call: {error}")
    for then in ("deny", "ask", "allow") if hits or unclear else ():
        deciding = [rule for rule in hits if rule.then == then]
        if then == "ask" and unclear is not None:
            raise unclear
        if deciding:
            message = next((rule.message for rule in deciding if rule.message), "")
            ids = tuple(rule.id for rule in deciding)
            return RulesVerdict(then, ids, message or f"the rule `{ids[0]}` says {then}")
    return RulesVerdict(policy.rules.unmatched, (), "no rule names this call (`rules.unmatched`)")


def is_match(rule: Rule, facts: CallFacts, policy: Policy) -> bool:
    """Whether every matcher the rule gives matches; cheap ones first, so that few calls need the unclear ones."""
    if rule.tool is not None and not matches_text(rule.tool, facts.call.name):
        return False
    if rule.capability is not None and not all(getattr(facts.capabilities, flag) for flag in rule.capability):
        return False
    if rule.risk_at_least is not None and facts.risk.value < rule.risk_at_least:
        return False
    if rule.effect is not None and not is_effect_match(rule, facts):
        return False
    if facts.survey.problem and is_survey_needed(rule):
        raise PolicyError(facts.survey.problem)
    if rule.secrets is not None and rule.secrets != bool(facts.survey.secrets):
        return False
    if rule.origin is not None and not any(atom.origin is rule.origin for atom in facts.survey.atoms):
        return False
    if rule.command is not None and not is_command_match(rule, facts.survey.command, policy):
        return False
    return has_matching_resources(rule, facts)


def is_survey_needed(rule: Rule) -> bool:
    """Whether a rule needs what looking found."""
    wanted = (rule.kind, rule.resource, rule.protected, rule.command, rule.host, rule.origin, rule.secrets)
    return any(matcher is not None for matcher in wanted)


def is_effect_match(rule: Rule, facts: CallFacts) -> bool:
    """Whether a rule's effects are the call's: one of them for a strict rule, all of them for an allow rule."""
    assert rule.effect is not None
    if rule.then != "allow":
        return facts.effect in rule.effect or any(effect_of_access(r) in rule.effect for r in facts.resources)
    lesser = [effect_of_access(r) for r in facts.resources if effect_of_access(r) is not Effect.OBSERVATION]
    return facts.effect in rule.effect and all(access in rule.effect for access in lesser)


def has_matching_resources(rule: Rule, facts: CallFacts) -> bool:
    """Whether the call's resources fit kind, protection, glob and host: any for a strict rule, all for allow."""
    if rule.kind is None and rule.protected is None and rule.resource is None and rule.host is None:
        return True
    fits = [is_resource_match(rule, resource) for resource in facts.resources]
    return bool(fits) and all(fits) if rule.then == "allow" else any(fits)


def is_resource_match(rule: Rule, resource: SurveyedResource) -> bool:
    """Whether one resource fits every matcher about resources the rule gives."""
    if (
        rule.kind is not None
        and resource.kind is not rule.kind
        and not (rule.resource and may_match_inside(rule, resource))
    ):
        return False
    if rule.protected is not None and resource.protected not in rule.protected:
        return False
    if rule.host is not None and not is_rule_host(rule, resource):
        return False
    if rule.resource is None:
        return True
    if rule.then == "allow":
        return matches(rule.resource, resource.id)
    return matches_beneath(rule.resource, resource.id) or may_match_inside(rule, resource)


def may_match_inside(rule: Rule, resource: SurveyedResource) -> bool:
    """Whether a strict rule's glob could name something inside a directory that the call would change."""
    return (
        rule.then != "allow"
        and rule.resource is not None
        and resource.kind is ResourceKind.DIRECTORY
        and resource.exists
        and resource.access.changes
        and may_hold(resource.id, rule.resource)
    )


def is_rule_host(rule: Rule, resource: SurveyedResource) -> bool:
    """Whether a URL or host is the rule's; raise PolicyError when nobody can say which host it is."""
    assert rule.host is not None
    if resource.kind is ResourceKind.URL:
        host = read_host(resource.id)
    elif resource.kind is ResourceKind.HOST:
        host = normalise_host(resource.id)
    else:
        return False
    if not host:
        raise PolicyError(f"`{resource.id[:120]}` names no host that all readers agree on")
    return is_host_match(rule.host, host)


def is_command_match(rule: Rule, command: Command | None, policy: Policy) -> bool:
    """Whether a command is the rule's program with its leading arguments.

    An allow rule wants exactly these words in front of an argument vector. A strict rule knows the program by its last
    path component, passes over options, and searches all words of a shell line or of a program that runs others.
    """
    assert rule.command is not None
    if command is None:
        return False
    if rule.then == "allow" and not command.problem:
        leading = command.argv[: len(rule.command)]
        return not command.shell and len(leading) == len(rule.command) and all(map(matches_text, rule.command, leading))
    return can_run(rule.command, command, policy)


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
