"""What is said of a tool by the policy or a person, and of each argument of its calls by the tool. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from foregate.policy.mandate_section import SourceEntry
from foregate.policy.policy import Policy, TargetEntry, ToolEntry
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, get_object
from foregate.schemas.tool_spec import Declaration, Effect, Nature, OwnFields, ToolSpec

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


def find_own_fields(spec: ToolSpec | None, policy: Policy) -> OwnFields:
    """Return which fields of a tool's results its own system assigns: as the operator says, else its author where the
    operator's program declares it, else the person. What a server says of itself counts for nothing."""
    if spec is None:
        return ()
    if (entry := find_source_entry(spec, policy)) is not None:
        return entry.own
    return spec.own if is_believed(spec, policy) and spec.own else find_personal_fields(spec, policy)


def find_personal_fields(spec: ToolSpec | None, policy: Policy) -> OwnFields:
    """Return which fields of a tool's results the person says that its own system assigns, where their word counts."""
    return spec.declared.own if spec is not None and spec.declared is not None and may_own(spec, policy) else ()


def may_own(spec: ToolSpec, policy: Policy) -> bool:
    """Whether a person may say at a sheet which fields of a tool are own: neither the policy nor its author has."""
    authored = is_believed(spec, policy) and spec.capabilities is not None
    free = spec.may_be_declared and not authored and find_source_entry(spec, policy) is None
    return free and policy.mandate.mode != "off"


def has_own_destination(spec: ToolSpec | None, policy: Policy) -> bool:
    """Whether what a tool sends stays with the operator, as a ticket to their staff does; nothing without mandate."""
    if spec is None or policy.mandate.mode == "off":
        return False
    entry = find_source_entry(spec, policy)
    return entry.destination == "own" if entry is not None else is_believed(spec, policy) and spec.destination == "own"


def find_declarer(spec: ToolSpec, policy: Policy) -> str:
    """Return who says which fields of a tool's results are its own system's: `policy`, `author`, `person`, or "" for
    nobody who is believed."""
    if find_source_entry(spec, policy) is not None:
        return "policy"
    if is_believed(spec, policy) and (spec.own or spec.destination or spec.provenance == "builtin"):
        return "author"
    return "person" if find_personal_fields(spec, policy) else ""


def find_source_entry(spec: ToolSpec, policy: Policy) -> SourceEntry | None:
    """Return what `sources` says of a tool, by its name or else by where it comes from, as in `mcp:crm`."""
    # An entry for a tool that is called `python` says nothing of all tools in Python.
    server = policy.sources.get(spec.provenance) if spec.provenance.startswith("mcp:") else None
    return policy.sources.get(spec.name, server)


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
    if spec.declared is not None and spec.declared.nature not in ("void", "unsaid"):
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
        # A look has no way back where its server owns to a change.
        "reversible": declared.nature == "undoable",
    }
    targets = {target.parameter: TargetEntry(kind=target.kind, access=effect) for target in declared.targets}
    return ToolEntry(effect=effect, targets=targets, amounts=declared.amounts, texts=declared.texts, **flags)


LONGEST = 160
"""Characters of a path that are kept."""
_MOST_SCHEMAS = 64
"""Schemas within that of a parameter that are looked at."""
# "first-name".
_WORD = compile_late(r"[^\W\d]+(?:-[^\W\d]+)*")
"""A key that is a plain word, as the names of fields are."""


class Leaf(NamedTuple):
    """One value among the arguments of a call: its path, the parameter it stands in, and what is given."""

    path: str
    parameter: str
    given: Json


def write_leaf(given: Json) -> str:
    """Return one value as a text."""
    return str(given).lower() if isinstance(given, bool) else str(given)


def list_roles(spec: ToolSpec, policy: Policy) -> tuple[Collection[str], Collection[str]]:
    """Return the parameters that are free text and those that are amounts; of a tool nobody declared none are."""
    entry = find_tool_entry(spec, policy)
    if entry is not None and (entry.texts is not None or entry.amounts is not None):
        return entry.texts or (), entry.amounts or ()
    if not is_believed(spec, policy) or spec.capabilities is None:
        return (), ()
    if spec.texts or spec.amounts or not spec.targets:
        return spec.texts, spec.amounts
    return policy.mandate.texts, ()


def list_leaves(arguments: Mapping[str, Json], spec: ToolSpec) -> Iterator[Leaf]:
    """Yield each value that is no list and no object, or an empty one, with its path and the parameter it stands in.

    So is a key that the tool does not list and that is no plain word: an address may stand there as well.
    """
    stack = [Leaf(name, name, given) for name, given in reversed(list(arguments.items()))]
    listed: Collection[str] | None = None
    while stack:
        leaf = stack.pop()
        if isinstance(leaf.given, dict) and leaf.given:
            listed = set(list_properties(spec.parameters)) if listed is None else listed
            for name, given in reversed(leaf.given.items()):
                stack.append(Leaf(f"{leaf.path}.{name}", leaf.parameter, given))
                if name not in listed and not _WORD.fullmatch(name):
                    stack.append(Leaf(f"{leaf.path}.{name} (key)", leaf.parameter, name))
        elif isinstance(leaf.given, list) and leaf.given:
            places = reversed(list(enumerate(leaf.given)))
            stack += [Leaf(f"{leaf.path}[{at}]", leaf.parameter, given) for at, given in places]
        else:
            yield leaf


def list_properties(schema: Json) -> Iterator[str]:
    """Yield the names of all properties that a schema lists, however deep."""
    stack = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            properties = item.get("properties")
            yield from properties if isinstance(properties, dict) else ()
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def list_chosen(
    arguments: Mapping[str, Json], paths: Collection[str], spec: ToolSpec, policy: Policy
) -> Iterator[tuple[str, str]]:
    """Yield path and text of what stands at none of the paths, is no free text and not what holds without it.

    Of a call whose values stand at these paths that is all else that could make it do another thing: `mode=hard`.
    """
    texts, _ = list_roles(spec, policy)
    for leaf in list_leaves(arguments, spec):
        if leaf.path[:LONGEST] not in paths and leaf.parameter not in texts and not is_default(leaf, spec):
            yield leaf.path[:LONGEST], write_leaf(leaf.given)


def is_choice(leaf: Leaf, spec: ToolSpec) -> bool:
    """Whether the operator's own tool lists a value among a few, or it is a truth value: nothing else could be put in
    its place, so it carries nothing, and yet somebody has to want it."""
    return spec.is_own and (isinstance(leaf.given, bool) or leaf.given in list_choices(leaf.parameter, spec))


def list_choices(parameter: str, spec: ToolSpec) -> list[Json]:
    """Return the values that the schema of a parameter lists, wherever it does."""
    found: list[Json] = []
    stack: list[Json] = [find_schema(spec, "properties", parameter)]
    for _ in range(_MOST_SCHEMAS):
        if not stack:
            break
        schema = stack.pop()
        if not isinstance(schema, Mapping):
            continue
        enum, among = schema.get("enum"), (schema.get(name) for name in ("anyOf", "oneOf", "allOf"))
        found += enum if isinstance(enum, list) else []
        found += [schema["const"]] if "const" in schema else []
        stack += [schema.get("items"), *(one for listed in among if isinstance(listed, list) for one in listed)]
        if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#/$defs/"):
            stack.append(find_schema(spec, "$defs", reference.removeprefix("#/$defs/")))
    return found


def is_default(leaf: Leaf, spec: ToolSpec) -> bool:
    """Whether a value holds as well where it is not given, as a tool says that is the operator's own."""
    schema = find_schema(spec, "properties", leaf.parameter)
    return spec.is_own and "default" in schema and schema["default"] == leaf.given


def find_schema(spec: ToolSpec, among: str, name: str) -> Mapping[str, Json]:
    """Return a schema that the parameters of a tool hold, an empty one for `true` and for whatever else is none."""
    schemas = spec.parameters.get(among)
    found = schemas.get(name) if isinstance(schemas, Mapping) else None
    return found if isinstance(found, Mapping) else {}
