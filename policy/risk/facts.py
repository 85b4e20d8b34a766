"""What a call is, computed from the call, its survey and the policy: effect, capabilities, and the scores of risk and
uncertainty, in thousandths with reasons, exact integers that are the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from msgspec.structs import replace

from foregate.policy.policy import Policy, ToolEntry
from foregate.policy.risk.declared import find_tool_entry, has_own_destination, is_believed
from foregate.policy.risk.losses import explain_losses, is_wanted_anyway, list_unspoken
from foregate.policy.risk.mandate import find_authority, is_meant, list_used_keys
from foregate.policy.risk.permitted import find_permission
from foregate.policy.risk.proposal import list_answered_slots
from foregate.policy.risk.reading import has_leading_words, is_held_work, is_read, read_command_line
from foregate.policy.risk.request import (
    RequestFacts,
    find_namesake,
    find_target_to_keep,
    is_named,
    is_named_by_user,
    read_own_request,
)
from foregate.policy.risk.rule_matching import find_standing_rule
from foregate.schemas.tool_call import (
    CallFacts,
    Command,
    EvidenceKind,
    Origin,
    Reason,
    Score,
    Survey,
    SurveyedResource,
    ToolCall,
)
from foregate.schemas.tool_spec import UNDECLARED, Capabilities, Catalogue, Effect, ResourceKind, ToolSpec, worse_of
from foregate.schemas.turn import Turn

_FLAGS = tuple(Capabilities.__struct_fields__)
_CREATE, _DELETE, _SEND, _UNKNOWN = Effect.CREATE, Effect.DELETE, Effect.SEND, Effect.UNKNOWN
_USER, _EXTERNAL, _NOBODY = Origin.USER, Origin.EXTERNAL, Origin.NOBODY
_PROCESS, _REPOSITORY, _FILE_READ = ResourceKind.PROCESS, ResourceKind.REPOSITORY, EvidenceKind.FILE_READ
"""Members that are compared with for every call; naming one through its class takes ten times as long."""
_UNDOABLE = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE, Effect.COMMIT, Effect.ADMINISTER)


def compute_turn_facts(turn: Turn, policy: Policy, catalogue: Catalogue) -> Mapping[str, CallFacts]:
    """Return the facts of each call of the turn, by call id; a call whose facts cannot be had counts as the worst."""
    surveys = {survey.call: survey for survey in turn.surveys}
    facts: dict[str, CallFacts] = {}
    spent: dict[str, int] = {}
    for call in turn.calls:
        survey = surveys.get(call.id) or Survey(call.id, problem="nobody looked at this call")
        try:
            bare = compute_facts(call, survey, turn, policy, catalogue)
            if survey.changes or survey.secrets or (turn.grants and is_wanted_anyway(bare, turn)):
                bare = replace(bare, unspoken=list_unspoken(bare, turn, read_user_request(turn, policy), policy))
            authority = find_authority(bare, turn, policy, spent) if survey.values is not None else ""
            if turn.permissions and (permission := find_permission(bare, turn, policy)) is not None:
                bare = replace(bare, permission=permission)
            elif authority != "outside" and (rule := find_standing_rule(bare, turn.depth, policy)):
                bare = replace(bare, standing_rule=rule)
            if bare.has_leave:
                authority = "said" if policy.mandate.mode != "off" else ""
            facts[call.id] = replace(bare, authority=authority) if authority else bare
            for key in list_used_keys(bare) if authority else ():
                spent[key] = spent.get(key, 0) + 1
        except Exception as error:
            facts[call.id] = build_worst_facts(call, survey, catalogue, f"its facts cannot be computed: {error}"[:300])
    return facts


def build_worst_facts(call: ToolCall, survey: Survey, catalogue: Catalogue, problem: str) -> CallFacts:
    """Return the facts of a call nothing is known of: an irreversible, external change, and a problem that holds it."""
    return CallFacts(
        call=call,
        survey=replace(survey, problem=survey.problem or problem),
        spec=catalogue.get(call.name),
        effect=Effect.UNKNOWN,
        changes=True,
        capabilities=UNDECLARED,
        external=True,
        irreversible=True,
        high_impact=True,
        broad=True,
        risky=True,
        risk=Score(1000),
        uncertainty=Score(1000),
    )


def compute_facts(call: ToolCall, survey: Survey, turn: Turn, policy: Policy, catalogue: Catalogue) -> CallFacts:
    """Return effect, capabilities in force, reversibility and scores of one call."""
    spec = catalogue.get(call.name)
    entry = find_tool_entry(spec, policy, call.arguments or {})
    capabilities = merge_capabilities(spec, entry, is_believed(spec, policy))
    effect = effect_of_call(spec, entry, survey, policy)
    changes = effect.changes
    contained = changes and is_contained(survey, policy)
    if contained:
        capabilities = replace(capabilities, external_side_effect=False, needs_approval=False, reversible=True)
    stays = changes and has_own_destination(spec, policy)
    external = changes and not stays and (capabilities.external_side_effect or effect is _SEND)
    way_back = capabilities.reversible and (contained or effect in _UNDOABLE)
    lasting, touched = False, 0
    for resource in survey.resources:
        lasting = lasting or (resource.access.changes and not resource.restorable)
        touched += resource.entries if resource.entries > 1 else 1
    # What stays with the operator and names nothing, as a note to their own staff, can be followed by another.
    settled = stays and not lasting and survey.values == ()
    irreversible = changes and (lasting or not way_back) and not settled
    broad = changes and not contained and touched > policy.scope.max_resources
    high_impact = changes and not contained and capabilities.high_impact_write
    bare = CallFacts(
        call=call,
        survey=survey,
        spec=spec,
        effect=effect,
        changes=changes,
        capabilities=capabilities,
        external=external,
        irreversible=irreversible,
        high_impact=high_impact,
        broad=broad,
        risky=changes and (external or irreversible or high_impact or broad),
        risk=NONE,
        uncertainty=NONE,
        contained=contained,
    )
    return replace(bare, risk=measure_risk(bare, turn, policy), uncertainty=measure_uncertainty(bare, turn, policy))


def is_contained(survey: Survey, policy: Policy) -> bool:
    """Whether the call's program works in a sandbox that the policy takes for one, or has done so.

    Then nothing gets out of it before it was judged, and what gets out can be taken back.
    """
    if survey.changes:
        return True
    if survey.command is None or survey.problem:
        return False
    return is_held_work(survey.command, policy, survey.work)


def merge_capabilities(spec: ToolSpec | None, entry: ToolEntry | None, own: bool = False) -> Capabilities:
    """Return the operator's entry over the tool's declaration.

    A tool that is not the operator's own, nor counts as `own`, is undeclared whatever it says, and what it says can
    only raise a risk.
    """
    if spec is None:
        return UNDECLARED
    own = own or spec.is_own
    base = spec.capabilities if own and spec.capabilities is not None else UNDECLARED
    if entry is not None:
        base = replace(base, **{flag: said for flag in _FLAGS if (said := getattr(entry, flag)) is not None})
    if not own and spec.capabilities is not None:
        base = base.raise_by(spec.capabilities)
    return base


def effect_of_call(spec: ToolSpec | None, entry: ToolEntry | None, survey: Survey, policy: Policy) -> Effect:
    """Return what the call would do: manifest or declaration, then what is raised by command, tool and resources."""
    if spec is None:
        return _UNKNOWN
    if survey.changes:
        return reduce(worse_of, (one.effect for one in survey.resources), _CREATE)
    effect = effect_of_tool(spec, entry, policy)
    if survey.command is not None:
        reads = is_read(survey.command, policy, survey.confinement)
        classified = Effect.OBSERVATION if reads else Effect.EXECUTE
        trusted = is_believed(spec, policy) and (entry is None or entry.effect is None)
        effect = classified if trusted else worse_of(effect, classified)
    elif effect is not _UNKNOWN:
        for resource in survey.resources:
            effect = worse_of(effect, resource.effect)
    if survey.declared_effect is not None:
        effect = worse_of(effect, survey.declared_effect)
    return effect


def effect_of_tool(spec: ToolSpec, entry: ToolEntry | None, policy: Policy) -> Effect:
    """Return the effect of a tool before a call is looked at: as the operator's entry says, else as believed of it."""
    if entry is not None and entry.effect is not None:
        return entry.effect
    return spec.effect if is_believed(spec, policy) else _UNKNOWN


NONE = Score(0)

_WILD = frozenset("*?[")
_DESTRUCTIVE = (Effect.DELETE, Effect.EXECUTE, Effect.ADMINISTER, Effect.UNKNOWN)


def combine_reasons(reasons: Iterable[Reason]) -> Score:
    """Combine independent dangers: 1 - (1-a)(1-b)..., so that a further danger never lowers the score.

    Integer arithmetic, rounded once at the end, so that every machine gets the same number.
    """
    kept, safe, scale = [], 1, 1
    for reason in reasons:
        if reason.weight > 0:
            kept.append(reason)
            safe *= 1000 - reason.weight
            scale *= 1000
    return Score(1000 - (safe * 1000 + scale // 2) // scale, tuple(kept))


def measure_risk(facts: CallFacts, turn: Turn, policy: Policy) -> Score:
    weights = policy.scores.risk
    reasons = [Reason("effect", weights.effect[facts.effect], f"the call would {facts.effect}")]
    for one in facts.survey.resources:
        if one.protected:
            why = f"`{one.id[:120]}` is protected ({one.protected})"
            reasons.append(Reason("protected", weights.protected, why))
            break
    return combine_reasons(reasons + _find_dangers(facts, turn, policy) if facts.changes else reasons)


def measure_uncertainty(facts: CallFacts, turn: Turn, policy: Policy) -> Score:
    """Return how much is unknown about what this call should do; an observation is never uncertain. `slots` name what a
    person would have to say; what was answered already is not counted again."""
    if not facts.changes:
        return NONE
    aimed = find_targets(facts)
    doubts = _find_doubts(facts, aimed, turn, policy)
    if turn.slots_answered:
        answered = list_answered_slots(facts.call.digest, aimed, turn, policy)
        doubts = [(r, slot) for r, slot in doubts if slot not in answered]
    score = combine_reasons(reason for reason, _ in doubts) if doubts else NONE
    slots = dict.fromkeys(slot for reason, slot in doubts if slot and reason.weight > 0)
    return Score(score.value, score.reasons, tuple(slots)) if slots else score


def _find_dangers(facts: CallFacts, turn: Turn, policy: Policy) -> list[Reason]:
    """Return what makes a change dangerous beside its effect and what is protected."""
    weights, found = policy.scores.risk, []
    if facts.effect is not _DELETE and is_deleting(facts.survey.command, policy):
        found.append(Reason("deletes", weights.effect[_DELETE], "it starts a program that deletes"))
    foreign = [atom.text for atom in facts.survey.atoms if atom.origin is _EXTERNAL]
    for name, applies, why in (
        ("external", facts.external, "it reaches beyond this machine"),
        ("irreversible", facts.irreversible, "it cannot be undone"),
        ("high_impact", facts.high_impact, "the tool is declared to have high impact"),
        ("broad", facts.broad, f"it touches more than {policy.scope.max_resources} things"),
        ("wide_pattern", find_wide_pattern(facts)[:120], "it names its target by the pattern `{}`"),
        ("untrusted_origin", foreign, "only outside content said `{[0]:.120}`"),
        ("destructive_words", read_user_request(turn, policy).destructive, "the request says `{}`"),
    ):
        if applies:
            found.append(Reason(name, getattr(weights, name), why.format(applies)))
    return found


def _find_doubts(
    facts: CallFacts, aimed: Sequence[SurveyedResource], turn: Turn, policy: Policy
) -> Sequence[tuple[Reason, str]]:
    """Return each reason with the slot it leaves open; an answered slot takes its reasons away."""
    weights, request = policy.scores.uncertainty, read_user_request(turn, policy)
    if facts.survey.changes:
        return [*explain_losses(facts, turn, request, policy)]
    origins = {atom.text: atom.origin for atom in facts.survey.atoms}
    # One of several records is shown before anything happens to it; what would be gone is asked about first.
    shown = "own" if facts.effect is not _DELETE else ""
    values = facts.survey.values or ()
    meant_by_words = {value.text for value in values if is_meant(value) or value.source == shown}
    known: dict[Origin, str] = {}
    meant = instead = told = kept = unspoken = ""
    for one in aimed:
        named = is_named(one.id, request.things)
        if one.id not in meant_by_words:
            known.setdefault(find_best_origin(one, origins, named=named), one.id)
            if not (one.changed_before or named or origins.get(one.id) is _USER):
                unspoken = unspoken or one.id
        if not meant and not named and (meant := find_namesake(one.id, request.things)):
            instead = one.id
        if not told and not named and is_told_by_file(one, facts):
            told = one.id
        kept = kept or find_target_to_keep(one, request)
    unscoped = facts.effect in _DESTRUCTIVE and is_unscoped(facts, turn, request, origins, policy)
    unasked = unspoken if unscoped and facts.effect is _DELETE else ""
    nobodys, outsiders = known.get(_NOBODY), known.get(_EXTERNAL)
    return [
        (Reason(name, getattr(weights, name), why.format(applies, instead)), slot)
        for name, slot, applies, why in (
            ("target_unmentioned", "target", nobodys, "nobody named or looked at `{:.120}`"),
            ("target_untrusted", "target", outsiders, "only outside content names `{:.120}`"),
            ("target_namesake", "target", meant, "the request names `{:.120}`, not `{:.120}`"),
            ("target_told", "target", told, "only a file's content names `{:.120}`"),
            ("target_kept", "scope", kept, "the request says to keep `{:.120}`"),
            ("destructive_without_scope", "scope", unscoped, "the request sets no bounds to it"),
            ("deletion_unasked", "target", unasked, "nobody spoke of `{:.120}`"),
            ("vague_request", "target", request.vague, "the request names nothing (`{}`)"),
            ("conflicting_constraints", "constraint", request.conflict, "it wants {}"),
            ("just_failed", "", facts.call.name in turn.just_failed and facts.call.name, "`{:.64}` just failed"),
        )
        if applies
    ]


def is_told_by_file(resource: SurveyedResource, facts: CallFacts) -> bool:
    """Whether nothing but what stands in files led to a resource that is there and that the request does not name: an
    instruction may hide in a file."""
    if not resource.exists or resource.changed_before:
        return False
    for seen in resource.evidence:
        if seen.kind is not _FILE_READ:
            return False
    return any(atom.told and atom.text == resource.id for atom in facts.survey.atoms)


def read_user_request(turn: Turn, policy: Policy) -> RequestFacts:
    """Return what the task's messages of its user say, and not what is pasted into them.

    A parent's words are not the user's.
    """
    return read_own_request(tuple([said.text for said in turn.user_messages if said.actor == "user"]), policy)


def find_wide_pattern(facts: CallFacts) -> str:
    """Return the pattern by which a call names a target, "" when it names things one by one."""
    for one in facts.survey.resources:
        if one.kind is not _PROCESS and not one.exists and not _WILD.isdisjoint(one.id):
            return one.id
    command = facts.survey.command
    if command is None:
        return ""
    words = (command.shell,) if command.shell else command.argv[1:]
    return next((word for word in words if "*" in word), "")


def find_targets(facts: CallFacts) -> list[SurveyedResource]:
    """Return what the call would do something to that could be mistaken: not what it newly creates, nor a command."""
    return [
        r
        for r in facts.survey.resources
        if r.access.changes
        and r.kind is not _PROCESS
        and not (r.access is _CREATE and not r.exists)
        and not (r.kind is _REPOSITORY and r.id == ".")
    ]


def find_best_origin(resource: SurveyedResource, origins: Mapping[str, Origin], *, named: bool) -> Origin:
    """Return the best source a target is known from: the request, where that names it, this workspace, only outside
    content, or nobody."""
    if named:
        return _USER
    origin = origins.get(resource.id, origins.get(resource.id.rstrip("/"), _NOBODY))
    if origin is _NOBODY and (resource.changed_before or resource.evidence):
        return Origin.WORKSPACE
    return origin


def is_deletion(facts: CallFacts, policy: Policy) -> bool:
    """Whether a command that works in a sandbox is one that deletes: there, it is asked about before it runs."""
    return facts.contained and is_deleting(facts.survey.command, policy)


def is_deleting(command: Command | None, policy: Policy) -> bool:
    """Whether a command starts a program that deletes."""
    return command is not None and has_leading_words(read_command_line(command, policy), policy.commands.deletes)


def is_unscoped(
    facts: CallFacts, turn: Turn, request: RequestFacts, origins: Mapping[str, Origin], policy: Policy
) -> bool:
    """Whether something destructive has no bounds: neither the request nor an accepted plan names what it is for."""
    if facts.effect not in _DESTRUCTIVE:
        return False
    if facts.effect is not _DELETE and not facts.irreversible and not is_deletion(facts, policy):
        return False
    if (command := facts.survey.command) is not None and read_command_line(command, policy).checks:
        return False
    if turn.has_scope or request.confirms:
        return False
    aimed = find_targets(facts)
    meant = {value.text for value in facts.survey.values or () if is_meant(value)}
    named = (r.id in meant or is_named_by_user(r, request, origins) for r in aimed)
    return not (all(named) if aimed else request.names)
