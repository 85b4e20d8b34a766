"""What a person said of a tool that says nothing reliable of itself, as an entry of the policy. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from foregate.policy.policy import Policy, TargetEntry, ToolEntry
from foregate.schemas.strict_json import get_object
from foregate.schemas.tool_spec import Declaration, Effect, Nature, ToolSpec

NATURES: dict[Nature, Effect] = {
    "reads": Effect.OBSERVATION,
    "undoable": Effect.EDIT,
    "final": Effect.EDIT,
    "sends": Effect.SEND,
    "grave": Effect.SEND,
}
"""What a person may say that a tool does, and the effect this is."""


def find_tool_entry(spec: ToolSpec | None, policy: Policy, given: Iterable[str] = ()) -> ToolEntry | None:
    """Return what holds of a tool whatever it says: the operator's entry, else what the person declared.

    Of a call with an argument of a name (`given`) that the person was not shown, the declaration says nothing; nor does
    it anything where no mandate looks at what leaves with a call.
    """
    if spec is None:
        return None
    if (entry := policy.tools.get(spec.name)) is not None or spec.declared is None or policy.mandate.mode == "off":
        return entry
    unknown = set(given).difference(get_object(spec.parameters, "properties"), list_shown(spec.declared))
    return None if unknown else build_entry(spec.declared)


def is_believed(spec: ToolSpec | None, policy: Policy) -> bool:
    """Whether what a tool declares counts as the operator's word: their own, and a runtime's where the policy says."""
    return spec is not None and (spec.is_own or (spec.is_elsewhere and policy.runtime.declarations == "believe"))


def list_shown(declared: Declaration) -> list[str]:
    """Return the parameters of the call that the person saw."""
    targets = [target.parameter for target in declared.targets]
    return [*targets, *declared.amounts, *declared.texts, *declared.values]


def is_declared_by_person(spec: ToolSpec, policy: Policy) -> bool:
    """Whether it is the person's declaration by which a tool is judged."""
    return spec.name not in policy.tools and find_tool_entry(spec, policy) is not None


def is_undeclared(spec: ToolSpec | None, policy: Policy) -> bool:
    """Whether nobody who is believed says what a tool does, so that a person may: not in a policy without mandate."""
    if spec is None or not spec.may_be_declared or spec.name in policy.tools or policy.mandate.mode == "off":
        return False
    if spec.declared is not None and spec.declared.nature != "void":
        return False
    return not spec.is_own or spec.capabilities is None


@lru_cache(maxsize=256)
def build_entry(declared: Declaration) -> ToolEntry | None:
    """Return a declaration as an entry, None for one that says nothing of the tool."""
    effect = NATURES.get(declared.nature)
    if effect is None:
        return None
    reads = declared.nature == "reads"
    flags: dict[str, Any] = {
        "read_only": reads,
        "external_side_effect": effect is Effect.SEND,
        "needs_approval": False,
        "idempotent": reads,
        "high_impact_write": declared.nature == "grave",
        "reversible": declared.nature == "undoable",  # a look has no way back where its server owns to a change
    }
    targets = {target.parameter: TargetEntry(kind=target.kind, access=effect) for target in declared.targets}
    return ToolEntry(effect=effect, targets=targets, amounts=declared.amounts, texts=declared.texts, **flags)
