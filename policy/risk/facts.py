"""What a call is, computed from the call, its survey and the policy."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from foregate.policy.policy import Policy, ToolEntry
from foregate.policy.risk import commands
from foregate.policy.risk.scores import NONE, measure_risk, measure_uncertainty
from foregate.schemas.tool_call import CallFacts, Score, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import UNDECLARED, Capabilities, Catalogue, Effect, ResourceKind, ToolSpec, worse_of
from foregate.schemas.turn import Turn

_FLAGS = tuple(Capabilities.__struct_fields__)
_UNDOABLE = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE, Effect.COMMIT, Effect.ADMINISTER)


def compute_turn_facts(turn: Turn, policy: Policy, catalogue: Catalogue) -> Mapping[str, CallFacts]:
    """Return the facts of each call of the turn, by call id; a call whose facts cannot be had counts as the worst."""
    surveys = {survey.call: survey for survey in turn.surveys}
    facts = {}
    for call in turn.calls:
        survey = surveys.get(call.id) or Survey(call.id, problem="nobody looked at this call")
        try:
            facts[call.id] = compute_facts(call, survey, turn, policy, catalogue)
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
    entry = policy.tools.get(call.name)
    capabilities = merge_capabilities(spec, entry, is_believed(spec, policy))
    effect = effect_of_call(call, spec, entry, survey, policy)
    changes = effect.changes
    external = changes and (capabilities.external_side_effect or effect is Effect.SEND)
    way_back = capabilities.reversible and effect in _UNDOABLE
    irreversible = changes and not (way_back and all(r.restorable for r in survey.resources if r.access.changes))
    touched = sum(max(1, resource.entries) for resource in survey.resources)
    broad = changes and touched > policy.scope.max_resources
    high_impact = changes and capabilities.high_impact_write
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
    )
    return replace(bare, risk=measure_risk(bare, turn, policy), uncertainty=measure_uncertainty(bare, turn, policy))


def is_believed(spec: ToolSpec | None, policy: Policy) -> bool:
    """Whether what a tool declares counts as the operator's word: their own, and a runtime's where the policy says."""
    return spec is not None and (spec.is_own or (spec.is_elsewhere and policy.runtime.declarations == "believe"))


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


def effect_of_call(
    call: ToolCall, spec: ToolSpec | None, entry: ToolEntry | None, survey: Survey, policy: Policy
) -> Effect:
    """Return what the call would do: manifest or declaration, then what is raised by command, tool and resources."""
    if spec is None:
        return Effect.UNKNOWN
    effect = effect_of_tool(spec, entry, policy)
    if survey.command is not None:
        classified = commands.effect_of_command(survey.command, policy)
        trusted = is_believed(spec, policy) and (entry is None or entry.effect is None)
        effect = classified if trusted else worse_of(effect, classified)
    elif effect is not Effect.UNKNOWN:
        for resource in survey.resources:
            effect = worse_of(effect, effect_of_access(resource))
    if survey.declared_effect is not None:
        effect = worse_of(effect, survey.declared_effect)
    return effect


def effect_of_tool(spec: ToolSpec, entry: ToolEntry | None, policy: Policy) -> Effect:
    """Return the effect of a tool before a call is looked at: as the operator's entry says, else as believed of it."""
    if entry is not None and entry.effect is not None:
        return entry.effect
    return spec.effect if is_believed(spec, policy) else Effect.UNKNOWN


def effect_of_access(resource: SurveyedResource) -> Effect:
    """Return what happens to a resource: creating what is there already is editing it."""
    if resource.access is Effect.CREATE and resource.exists and resource.kind is ResourceKind.FILE:
        return Effect.EDIT
    return resource.access
