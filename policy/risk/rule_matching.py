"""What the operator's rules say of a call. Pure.

Whatever is not certain counts against the call: deny and ask rules match when any resource of the call fits, ignore
case, and reach what lies beneath; allow rules match only when every resource fits exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.globs import matches, matches_beneath, matches_text, may_hold
from foregate.policy.risk.handed_text import runs_unread
from foregate.policy.risk.http import is_host_match, read_host
from foregate.policy.risk.mandate import list_outside_values
from foregate.policy.risk.permitted import explain_open_words, has_further_words
from foregate.policy.risk.reading import read_command_line
from foregate.policy.risk.running import can_run
from foregate.policy.risk.self_running import RUNS_BY_ITSELF, explain_running
from foregate.schemas.errors import PolicyError
from foregate.schemas.host import normalise_host
from foregate.schemas.tool_call import CallFacts, Command, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind, list_meant_tools


class RulesVerdict(NamedTuple):
    """What the rules say of a call (`deny`, `ask` or `allow`), which rules decided, and the first one's message."""

    then: str
    rules: tuple[str, ...]
    message: str


def apply_rules(facts: CallFacts, policy: Policy) -> RulesVerdict:
    """Return what the rules say of one call.

    Raises PolicyError when a deny or ask rule cannot be evaluated and no other rule denies: the call must not run.
    """
    hits: list[Rule] = []
    unclear: PolicyError | None = None
    survey = facts.survey
    protections = {resource.protected for resource in survey.resources}
    for rule, guards, wants_secret in policy.rules.guarded:
        if not survey.problem and (
            (guards is not None and protections.isdisjoint(guards)) or (wants_secret and not survey.secrets)
        ):
            continue
        try:
            if is_match(rule, facts, policy):
                hits.append(rule)
        except (PolicyError, ValueError) as error:
            if rule.then != "allow":
                unclear = unclear or PolicyError(f"the rule `{rule.id}` cannot be applied to this call: {error}")
    for then in ("deny", "ask", "allow") if hits or unclear else ():
        if then == "ask" and unclear is not None:
            raise unclear
        if deciding := [rule for rule in hits if rule.then == then]:
            ids = tuple(rule.id for rule in deciding)
            message = next((rule.message for rule in deciding if rule.message), f"the rule `{ids[0]}` says {then}")
            why = explain_protected(deciding, facts, policy) or explain_unread(deciding, facts, policy)
            return RulesVerdict(then, ids, message + why)
    return RulesVerdict(policy.rules.unmatched, (), "no rule names this call (`rules.unmatched`)")


def explain_protected(deciding: Sequence[Rule], facts: CallFacts, policy: Policy) -> str:
    """Return what runs the first file that runs by itself, and when, as more of a message; "" where none decided."""
    if not any(RUNS_BY_ITSELF in (rule.protected or ()) for rule in deciding):
        return ""
    path = next((one.id for one in facts.resources if one.protected == RUNS_BY_ITSELF), None)
    return f" (`{path[:80]}`: {explain_running(path, policy)})" if path is not None else ""


def explain_unread(deciding: Sequence[Rule], facts: CallFacts, policy: Policy) -> str:
    """Return why rules are about a command that none of them names, as more of a message; "" where one does."""
    command, wanted = facts.survey.command, [rule.command or () for rule in deciding]
    if command is None or not all(wanted) or any(can_run(words, command, policy) for words in wanted):
        return ""
    return " (nobody can read beforehand what this runs, so it may be that; write out the command you mean)"


def is_match(rule: Rule, facts: CallFacts, policy: Policy) -> bool:
    """Whether every matcher the rule gives matches; cheap ones first, so that few calls need the unclear ones."""
    survey = facts.survey
    if not (
        (rule.tool is None or is_tool_match(rule, rule.tool, facts))
        and (rule.capability is None or all(getattr(facts.capabilities, flag) for flag in rule.capability))
        and (rule.risk_at_least is None or facts.risk.value >= rule.risk_at_least)
        and (rule.effect is None or is_effect_match(rule, rule.effect, facts))
    ):
        return False
    looked = (rule.kind, rule.resource, rule.protected, rule.command, rule.host, rule.origin, rule.secrets)
    if survey.problem and any(matcher is not None for matcher in looked):
        raise PolicyError(survey.problem)
    return (
        (rule.secrets is None or rule.secrets == bool(survey.secrets))
        and (rule.origin is None or any(atom.origin is rule.origin for atom in survey.atoms))
        and (rule.command is None or is_command_match(rule, rule.command, survey.command, policy))
        and has_matching_resources(rule, facts)
    )


def is_tool_match(rule: Rule, tool: str, facts: CallFacts) -> bool:
    """Whether a rule's tool is the call's.

    A strict rule also holds for the name the model sent the call under, and for a tool of Foregate's own by what other
    agents call it: `deny` for `Bash` denies `run_shell`, whoever sends that, a plan too.
    """
    call = facts.call
    if rule.then == "allow":
        return matches_text(tool, call.name)
    own = facts.spec is not None and facts.spec.provenance == "builtin"
    return is_tool_named(tool, call.name, call.sent.name if call.sent is not None else call.name, is_own=own)


def is_tool_named(tool: str, name: str, sent: str, *, is_own: bool) -> bool:
    """Whether a strict rule's tool is one of a name, also as the model `sent` it, or what others call our own."""
    return matches_text(tool, name) or (is_own and name in list_meant_tools(tool)) or matches_text(tool, sent)


def is_effect_match(rule: Rule, effects: Sequence[Effect], facts: CallFacts) -> bool:
    """Whether a rule's effects are the call's: one of them for a strict rule, all of them for an allow rule."""
    accesses = [resource.effect for resource in facts.resources]
    if rule.then != "allow":
        return facts.effect in effects or any(access in effects for access in accesses)
    return facts.effect in effects and all(access in effects or not access.changes for access in accesses)


def has_matching_resources(rule: Rule, facts: CallFacts) -> bool:
    """Whether the call's resources fit kind, protection, glob and host: any for a strict rule, all for allow."""
    if rule.kind is None and rule.protected is None and rule.resource is None and rule.host is None:
        return True
    fits = [is_resource_match(rule, resource) for resource in facts.resources]
    return bool(fits) and all(fits) if rule.then == "allow" else any(fits)


def is_resource_match(rule: Rule, resource: SurveyedResource) -> bool:
    """Whether one resource fits every matcher about resources the rule gives."""
    if rule.kind not in (None, resource.kind) and not may_match_inside(rule, resource):
        return False
    if rule.protected is not None and resource.protected not in rule.protected:
        return False
    if rule.host is not None and not is_rule_host(rule.host, resource):
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


def is_rule_host(wanted: str, resource: SurveyedResource) -> bool:
    """Whether a URL or host is the rule's; raise PolicyError when nobody can say which host it is."""
    if resource.kind is ResourceKind.URL:
        host = read_host(resource.id)
    elif resource.kind is ResourceKind.HOST:
        host = normalise_host(resource.id)
    else:
        return False
    if not host:
        raise PolicyError(f"`{resource.id[:120]}` names no host that all readers agree on")
    return is_host_match(wanted, host)


def is_command_match(rule: Rule, wanted: Sequence[str], command: Command | None, policy: Policy) -> bool:
    """Whether a command is the rule's program with its leading arguments.

    An allow rule wants exactly these words in front of an argument vector. A strict rule knows the program by its last
    path component, passes over options, and searches all words of a shell line or of a program that runs others. What
    runs a text that nobody can read beforehand may run the rule's program.
    """
    if command is None:
        return False
    if rule.then == "allow" and not command.problem:
        leading = command.argv[: len(wanted)]
        return not command.shell and len(leading) == len(wanted) and all(map(matches_text, wanted, leading))
    return can_run(wanted, command, policy) or runs_unread(command, policy)


def find_standing_rule(facts: CallFacts, depth: int, policy: Policy) -> str:
    """Return the id of the operator's allow rule that stands for a person's yes to a call, "" for none.

    It does where no other rule asks or denies, and never for a value that only text from outside said, for what a
    person has to name, for what was lost, or for a call that is not known whole.
    """
    standing = policy.rules.standing
    if not standing or policy.rules.mode != "enforce" or facts.survey.problem or facts.unspoken:
        return ""
    if facts.effect is Effect.UNKNOWN or list_outside_values(facts, depth) or any(one.loses for one in facts.resources):
        return ""
    try:
        said = apply_rules(facts, policy)
    except PolicyError:
        return ""
    if said.then != "allow":
        return ""
    found = (rule for rule in standing if rule.id in said.rules and is_command_bounded(rule, facts, policy))
    return next((rule.id for rule in found), "")


def is_command_bounded(rule: Rule, facts: CallFacts, policy: Policy) -> bool:
    """Whether the command of a call is no more than a rule that stands for a yes can have meant.

    Behind the rule's words further ones are plain, and none where they could run anything; what the call requests of
    the world outside beyond what its words want, no rule speaks of.
    """
    command = facts.survey.command
    if command is None:
        return True
    if not {*command.access} <= {*read_command_line(replace(command, access=()), policy).access}:
        return False
    size = len(rule.command or ())
    leading, further = command.argv[:size], command.argv[size:]
    if rule.command is None or not further:
        return True
    return has_further_words(command, leading, policy) and not explain_open_words(leading, policy)
