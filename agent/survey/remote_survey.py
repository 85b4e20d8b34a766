"""What a runtime found for a call, with what this session knows of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from foregate.agent.survey.self_running import mark_remote_resource
from foregate.evidence.ledger import AtomTable
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection
from foregate.policy.risk.http import find_cargo
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind, ToolSpec, worse_of

OPERANDS = 16
"""Words of a command that are looked up: a sheet that names more is read by nobody."""


def survey_remote_call(
    tools: ToolSource, spec: ToolSpec, call: ToolCall, state: SessionState, policy: Policy
) -> Survey:
    """Return what a runtime found for a call that touches things there, with what this session knows of them.

    A runtime can only make it worse. This side's protected names count too, and its word on an effect only raises it,
    unless the policy believes the runtime.
    """
    found = tools.survey(call)
    if found is None:
        return Survey(call.id, problem="nobody has looked at this where it would run; send it again")
    declared = found.declared_effect
    if policy.runtime.declarations == "raise" and spec.effect is not Effect.UNKNOWN:
        declared = spec.effect if declared is None else worse_of(spec.effect, declared)
    resources = tuple(add_session_knowledge(resource, state, policy) for resource in found.resources)
    words = found.command.argv[:OPERANDS] if found.command is not None else ()
    atoms = state.atoms.find_argument_atoms(call.arguments or {}, [*(r.id for r in resources), *words])
    return replace(found, call=call.id, declared_effect=declared, resources=resources, atoms=atoms)


def add_session_knowledge(resource: SurveyedResource, state: SessionState, policy: Policy) -> SurveyedResource:
    """Return a runtime's resource with what this session has seen and changed of it."""
    protected = resource.protected
    if not protected and resource.kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
        protected = find_protection(resource.id, policy)
    before = state.task is not None and resource.resource in state.task.changed
    evidence = state.ledger.newest_records(resource.resource)
    known = replace(resource, protected=protected, changed_before=before, evidence=evidence)
    return mark_remote_resource(known, policy)


def carries_something(arguments: Mapping[str, Json], atoms: AtomTable, policy: Policy) -> bool:
    """Whether the address and headers of a request hold more that the user did not say than the policy allows."""
    is_known = atoms.is_known_whole(str(arguments.get("url", "")))
    return bool(find_cargo(arguments, policy, lambda word: atoms.find_atom(word).origin, is_known=is_known))
