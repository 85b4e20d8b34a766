"""What a call is, computed from the call, its survey and the policy: effect, capabilities, and the scores of risk and
uncertainty, in thousandths with reasons, exact integers that are the same on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from msgspec.structs import replace

from foregate.policy.policy import Policy, ToolEntry
from foregate.policy.risk.answers import list_answered_slots
from foregate.policy.risk.declared import find_tool_entry, is_believed
from foregate.policy.risk.losses import explain_losses, list_unspoken
from foregate.policy.risk.mandate import find_authority, is_meant, list_used_keys
from foregate.policy.risk.permitted import find_permission
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
_UNDOABLE = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE, Effect.COMMIT, Effect.ADMINISTER)


def compute_turn_facts(turn: Turn, policy: Policy, catalogue: Catalogue) -> Mapping[str, CallFacts]:
    """Return the facts of each call of the turn, by call id; a call whose facts cannot be had counts as the worst."""
    surveys = {survey.call: survey for survey in turn.surveys}
    facts: dict[str, CallFacts] = {}
    spent: Counter[str] = Counter()
    for call in turn.calls:
        survey = surveys.get(call.id) or Survey(call.id, problem="nobody looked at this call")
        try:
            bare = compute_facts(call, survey, turn, policy, catalogue)
            if survey.changes or survey.secrets:
                bare = replace(bare, unspoken=list_unspoken(bare, turn, read_user_request(turn, policy), policy))
            authority = find_authority(bare, turn, policy, spent) if survey.values is not None else ""
            if turn.permissions and (permission := find_permission(bare, turn, policy)) is not None:
                bare = replace(bare, permission=permission)
            elif authority != "outside" and (rule := find_standing_rule(bare, turn.depth, policy)):
                bare = replace(bare, standing_rule=rule)
            if bare.has_leave:
                authority = "said" if policy.mandate.mode != "off" else ""
            facts[call.id] = replace(bare, authority=authority) if authority else bare
            spent.update(list_used_keys(bare) if authority else ())
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
    external = changes and (capabilities.external_side_effect or effect is Effect.SEND)
    way_back = capabilities.reversible and (contained or effect in _UNDOABLE)
    irreversible = changes and not (way_back and all(r.restorable for r in survey.resources if r.access.changes))
    touched = sum(max(1, resource.entries) for resource in survey.resources)
    broad = changes and not contained and touched > policy.scope.max_resources
    high_impact = changes and not contained and capabilities.high_impact_write
    bare = CallFacts(
        call=call,
        survey=survey,
        spec=spec,
        effect=effect,
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
        return Effect.UNKNOWN
    if survey.changes:
        return reduce(worse_of, (one.effect for one in survey.resources), Effect.CREATE)
    effect = effect_of_tool(spec, entry, policy)
    if survey.command is not None:
        reads = is_read(survey.command, policy, survey.confinement)
        classified = Effect.OBSERVATION if reads else Effect.EXECUTE
        trusted = is_believed(spec, policy) and (entry is None or entry.effect is None)
        effect = classified if trusted else worse_of(effect, classified)
    elif effect is not Effect.UNKNOWN:
        for resource in survey.resources:
            effect = worse_of(effect, resource.effect)
    if survey.declared_effect is not None:
        effect = worse_of(effect, survey.declared_effect)
    return effect


def effect_of_tool(spec: ToolSpec, entry: ToolEntry | None, policy: Policy) -> Effect:
    """Return the effect of a tool before a call is looked at: as the operator's entry says, else as believed of it."""
    if entry is not None and entry.effect is not None:
        return entry.effect
    return spec.effect if is_believed(spec, policy) else Effect.UNKNOWN


NONE = Score(0)

_WILD = "*?["
_DESTRUCTIVE = (Effect.DELETE, Effect.EXECUTE, Effect.ADMINISTER, Effect.UNKNOWN)


def combine_reasons(reasons: Iterable[Reason]) -> Score:
    """Combine independent dangers: 1 - (1-a)(1-b)..., so that a further danger never lowers the score.

    Integer arithmetic, rounded once at the end, so that every machine gets the same number.
    """
    kept = tuple([reason for reason in reasons if reason.weight > 0])
    safe, scale = 1, 1
    for reason in kept:
        safe *= 1000 - reason.weight
        scale *= 1000
    return Score(1000 - (safe * 1000 + scale // 2) // scale, kept)


def measure_risk(facts: CallFacts, turn: Turn, policy: Policy) -> Score:
    return combine_reasons(_find_dangers(facts, turn, policy))


def measure_uncertainty(facts: CallFacts, turn: Turn, policy: Policy) -> Score:
    """Return how much is unknown about what this call should do; an observation is never uncertain. `slots` name what a
    person would have to say; what was answered already is not counted again."""
    if not facts.changes:
        return NONE
    answered = turn.slots_answered and list_answered_slots(facts.call.digest, find_targets(facts), turn, policy)
    doubts = [(r, slot) for r, slot in _find_doubts(facts, turn, policy) if slot not in answered]
    score = combine_reasons(reason for reason, _ in doubts)
    slots = dict.fromkeys(slot for reason, slot in doubts if slot and reason.weight > 0)
    return Score(score.value, score.reasons, tuple(slots))


def _find_dangers(facts: CallFacts, turn: Turn, policy: Policy) -> Iterator[Reason]:
    weights, atoms = policy.scores.risk, facts.survey.atoms
    yield Reason("effect", weights.effect[facts.effect], f"the call would {facts.effect}")
    guarded = next((r for r in facts.resources if r.protected), None)
    if guarded is not None:
        yield Reason("protected", weights.protected, f"`{guarded.id[:120]}` is protected ({guarded.protected})")
    if not facts.changes:
        return
    if facts.effect is not Effect.DELETE and is_deleting(facts.survey.command, policy):
        yield Reason("deletes", weights.effect[Effect.DELETE], "it starts a program that deletes")
    pattern, word = find_wide_pattern(facts), read_user_request(turn, policy).destructive
    foreign = next((atom.text for atom in atoms if atom.origin is Origin.EXTERNAL), None)
    for name, applies, why in (
        ("external", facts.external, "it reaches beyond this machine"),
        ("irreversible", facts.irreversible, "it cannot be undone"),
        ("high_impact", facts.high_impact, "the tool is declared to have high impact"),
        ("broad", facts.broad, f"it touches more than {policy.scope.max_resources} things"),
        ("wide_pattern", pattern, f"it names its target by the pattern `{pattern[:120]}`"),
        ("untrusted_origin", foreign is not None, f"only outside content said `{(foreign or '')[:120]}`"),
        ("destructive_words", word, f"the request says `{word}`"),
    ):
        if applies:
            yield Reason(name, getattr(weights, name), why)


def _find_doubts(facts: CallFacts, turn: Turn, policy: Policy) -> Iterator[tuple[Reason, str]]:
    """Yield each reason with the slot it leaves open; an answered slot takes its reasons away."""
    weights, request, aimed = policy.scores.uncertainty, read_user_request(turn, policy), find_targets(facts)
    origins = {atom.text: atom.origin for atom in facts.survey.atoms}
    if facts.survey.changes:
        yield from explain_losses(facts, turn, request, policy)
        return
    meant_by_words = {value.text for value in facts.survey.values or () if is_meant(value)}
    known = {find_best_origin(r, request, origins): r.id for r in reversed(aimed) if r.id not in meant_by_words}
    nobodys, outsiders = known.get(Origin.NOBODY, ""), known.get(Origin.EXTERNAL, "")
    twins = ((find_namesake(r.id, request.things), r.id) for r in aimed)
    meant, instead = next((twin for twin in twins if twin[0]), ("", ""))
    told = next((r.id for r in aimed if is_named_by_file(r, facts, request)), "")
    kept = next(filter(None, (find_target_to_keep(r, request) for r in aimed)), "")
    unscoped = is_unscoped(facts, turn, request, origins, policy)
    others = (r for r in aimed if r.id not in meant_by_words)
    unspoken = (r.id for r in others if not r.changed_before and not is_named_by_user(r, request, origins))
    unasked = next(unspoken, "") if unscoped and facts.effect is Effect.DELETE else ""
    for name, slot, applies, why in (
        ("target_unmentioned", "target", nobodys, f"nobody named or looked at `{nobodys[:120]}`"),
        ("target_untrusted", "target", outsiders, f"only outside content names `{outsiders[:120]}`"),
        ("target_namesake", "target", meant, f"the request names `{meant[:120]}`, not `{instead[:120]}`"),
        ("target_told", "target", told, f"only a file's content names `{told[:120]}`"),
        ("target_kept", "scope", kept, f"the request says to keep `{kept[:120]}`"),
        ("destructive_without_scope", "scope", unscoped, "the request sets no bounds to it"),
        ("deletion_unasked", "target", unasked, f"nobody spoke of `{unasked[:120]}`"),
        ("vague_request", "target", request.vague, f"the request names nothing (`{request.vague}`)"),
        ("conflicting_constraints", "constraint", request.conflict, f"it wants {request.conflict}"),
        ("just_failed", "", facts.call.name in turn.just_failed, f"`{facts.call.name[:64]}` just failed"),
    ):
        if applies:
            yield Reason(name, getattr(weights, name), why), slot


def is_named_by_file(resource: SurveyedResource, facts: CallFacts, request: RequestFacts) -> bool:
    """Whether nothing but what stands in files led to a resource that is there: an instruction may hide in a file."""
    if not resource.exists or resource.changed_before or is_named(resource.id, request.things):
        return False
    if any(seen.kind is not EvidenceKind.FILE_READ for seen in resource.evidence):
        return False
    return any(atom.told and atom.text == resource.id for atom in facts.survey.atoms)


def read_user_request(turn: Turn, policy: Policy) -> RequestFacts:
    """Return what the task's messages of its user say, and not what is pasted into them.

    A parent's words are not the user's.
    """
    return read_own_request(tuple(said.text for said in turn.user_messages if said.actor == "user"), policy)


def find_wide_pattern(facts: CallFacts) -> str:
    """Return the pattern by which a call names a target, "" when it names things one by one."""
    things = (r for r in facts.resources if r.kind is not ResourceKind.PROCESS and not r.exists)
    wild = next((r.id for r in things if any(char in r.id for char in _WILD)), "")
    command = facts.survey.command or Command()
    words = (command.shell,) if command.shell else command.argv[1:]
    return wild or next((word for word in words if "*" in word), "")


def find_targets(facts: CallFacts) -> list[SurveyedResource]:
    """Return what the call would do something to that could be mistaken: not what it newly creates, nor a command."""
    return [
        r
        for r in facts.resources
        if r.access.changes
        and r.kind is not ResourceKind.PROCESS
        and not (r.access is Effect.CREATE and not r.exists)
        and not (r.kind is ResourceKind.REPOSITORY and r.id == ".")
    ]


def find_best_origin(resource: SurveyedResource, request: RequestFacts, origins: Mapping[str, Origin]) -> Origin:
    """Return the best source a target is known from: the request, this workspace, only outside content, or nobody."""
    if is_named(resource.id, request.things):
        return Origin.USER
    origin = origins.get(resource.id, origins.get(resource.id.rstrip("/"), Origin.NOBODY))
    if origin is Origin.NOBODY and (resource.changed_before or resource.evidence):
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
    if facts.effect is not Effect.DELETE and not facts.irreversible and not is_deletion(facts, policy):
        return False
    if (command := facts.survey.command) is not None and read_command_line(command, policy).checks:
        return False
    if turn.has_scope or request.confirms:
        return False
    aimed = find_targets(facts)
    meant = {value.text for value in facts.survey.values or () if is_meant(value)}
    named = (r.id in meant or is_named_by_user(r, request, origins) for r in aimed)
    return not (all(named) if aimed else request.names)
