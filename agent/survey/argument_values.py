"""The values of a call that say to whom, to what and how much, and where each of them comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Literal

from msgspec.structs import replace

from foregate.agent.survey.value_source import ValueSources
from foregate.evidence.ledger import shorten_word
from foregate.evidence.passages import ADDRESS_WITHIN, LOST, fold_text, name_place
from foregate.evidence.reads import WantedField
from foregate.evidence.records import Record
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.declared import (
    LONGEST,
    Leaf,
    find_personal_fields,
    find_tool_entry,
    has_own_destination,
    is_believed,
    is_choice,
    is_declared_by_person,
    is_default,
    is_undeclared,
    list_leaves,
    list_roles,
    write_leaf,
)
from foregate.policy.risk.facts import effect_of_call, merge_capabilities
from foregate.policy.risk.flows import CarriedText, WhatWasSaid, find_carried_texts
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, ToolSpec
from foregate.schemas.value import ArgumentValue, Value, format_key, read_forms, read_value

_ADDRESSES = ("address", "url")
_REACHED = (ResourceKind.URL, ResourceKind.HOST)
# "example.org:8080/".
_HOST_FIRST = compile_late(r"(?://)?[\w-]+(?:\.[\w-]+)+(?::\d+)?/")
"""A path that begins with a host, as an address without its scheme does."""
# "[0][1]".
_IN_LISTS = compile_late(r"(?:\[\d+\])*")
"""Where a text stands in its argument: it is the argument, or an item of lists, and no part of an object."""
MOST = 64
"""Values a person could still be shown; a call with more of them is to be split."""
TOO_MANY = f"the call names more than {MOST} values, the most a person could look at; split it"
_ORDER = ("outside", "unclear", "own", "unsaid", "mentioned", "configured", "found", "said")
_SEVERAL = 2
"""Values of one record from which on a person names the record."""
Role = Literal["target", "amount", "value"]


_Counted = tuple[Leaf, Value, Role]


def find_values(
    call: ToolCall,
    spec: ToolSpec,
    found: Survey,
    state: SessionState,
    policy: Policy,
    catalogue: Catalogue = MappingProxyType({}),
) -> Survey:
    """Return a survey with the values of the call and the address it leaves for.

    More values than a person could look at are a problem, as for a call that names too much.
    """
    if policy.mandate.mode == "off" or state.task is None:
        return found
    entry = find_tool_entry(spec, policy, call.arguments or {})
    effect = effect_of_call(spec, entry, found, policy)
    changes = effect.changes
    listed = list(islice(_list_counted(call, spec, policy, changes=changes), MOST + 1))
    if len(listed) > MOST:
        return Survey(call.id, declared_effect=found.declared_effect, problem=TOO_MANY)
    grave = is_grave(spec, policy)
    made, named = call.digest in state.task.uses.made, [(leaf.path, value, role) for leaf, value, role in listed]
    sources = ValueSources(
        state, policy, spec.name, named, grave=grave, effect=effect, made=made, schema=spec.parameters
    )
    sources.owns = lambda tool: find_personal_fields(catalogue.get(tool), policy)
    values = [_describe(leaf, value, role, spec, sources) for leaf, value, role in listed]
    values = sources.reckon(values, [value for _, value, _ in listed])
    values = _keep_shared_names(values)
    leaves = "" if changes else next((write_leaf(leaf.given)[:MOST] for leaf, _, _ in listed), "")
    if leaves or (changes and _reaches_out(spec, effect, policy)):
        counted = {(leaf.path, leaf.given) for leaf, _, _ in listed if isinstance(leaf.given, str)}
        every = ((leaf.path, leaf.given) for leaf in list_leaves(call.arguments or {}, spec))
        texts = [(path, given) for path, given in every if isinstance(given, str) and (path, given) not in counted]
        targets = {value.key for value in values if value.role == "target"}
        values += list_carried_values(texts, targets, sources)
    untried = spec.name not in state.tried and is_undeclared(spec, policy)
    ordered = tuple(sorted(values, key=lambda one: _ORDER.index(one.source)))
    return replace(found, values=ordered, leaves=leaves, untried=untried)


def _describe(leaf: Leaf, value: Value, role: Role, spec: ToolSpec, sources: ValueSources) -> ArgumentValue:
    text = write_leaf(leaf.given)
    model = ArgumentValue(leaf.path[:LONGEST], role, shorten_word(text), format_key(value), "unsaid")
    if isinstance(leaf.given, bool) or is_choice(leaf, spec):
        return sources.describe_choice(model, value, leaf.given)
    return sources.describe(model, value, text)


def _keep_shared_names(found: Sequence[ArgumentValue]) -> list[ArgumentValue]:
    """Return values that carry what their record is called only where that names several of them, all of one read."""
    named = [(value.name, value.seq) for value in found if value.name]
    shared, reads = Counter(name for name, _ in named), Counter(name for name, _ in {*named})
    return [
        replace(value, name="") if shared[value.name] < _SEVERAL or reads[value.name] > 1 else value for value in found
    ]


def _reaches_out(spec: ToolSpec, effect: Effect, policy: Policy) -> bool:
    if has_own_destination(spec, policy):
        return False
    declared = merge_capabilities(spec, find_tool_entry(spec, policy), is_believed(spec, policy))
    return effect is Effect.SEND or declared.external_side_effect


def _list_counted(call: ToolCall, spec: ToolSpec, policy: Policy, *, changes: bool) -> Iterator[_Counted]:
    """Yield the values that count: all of a change, and of a look those that say where it goes."""
    by_person = is_declared_by_person(spec, policy)
    for leaf, value, role in _list_values(call, spec, policy, changes=changes):
        address = value.kind in _ADDRESSES or (by_person and value.kind == "path" and _HOST_FIRST.match(value.normal))
        if changes or address or _find_kind(spec, leaf.parameter, policy) in _REACHED:
            yield leaf, value, role
        elif value.kind == "words":
            for inner in map(read_value, ADDRESS_WITHIN.findall(str(leaf.given))):
                if inner is not None:
                    yield Leaf(leaf.path, leaf.parameter, inner.normal), inner, role


def _list_values(
    call: ToolCall, spec: ToolSpec, policy: Policy, *, changes: bool
) -> Iterator[tuple[Leaf, Value, Role]]:
    """Yield the values of a call but those its tool declares as free text or as choices.

    A person saw the values of one call only. So what they call free text is that while it reads as words and is no part
    of an object. A look has no free text: an address leaves wherever it stands.
    """
    by_person = is_declared_by_person(spec, policy)
    texts, amounts = list_roles(spec, policy)
    for leaf in list_leaves(call.arguments or {}, spec):
        named = _find_kind(spec, leaf.parameter, policy) is not None
        value = Value("words", write_leaf(leaf.given)) if isinstance(leaf.given, bool) else read_value(leaf.given)
        if value is None or is_default(leaf, spec):
            continue
        hidden = leaf.path != leaf.parameter and not spec.texts and value.kind in (*_ADDRESSES, "host")
        words = changes and value.kind == "words" and not isinstance(leaf.given, bool)
        odd = by_person and not (words and _IN_LISTS.fullmatch(leaf.path, len(leaf.parameter)))
        if named or leaf.parameter not in texts or hidden or odd:
            yield leaf, value, "target" if named else "amount" if leaf.parameter in amounts else "value"


def _find_kind(spec: ToolSpec, parameter: str, policy: Policy) -> ResourceKind | None:
    """Return the kind of target a parameter names, as the operator's policy says, else as the tool does."""
    entry = find_tool_entry(spec, policy)
    if entry is not None and entry.targets is not None:
        return entry.targets[parameter].kind if parameter in entry.targets else None
    return next((target.kind for target in spec.targets if target.parameter == parameter), None)


def is_grave(spec: ToolSpec, policy: Policy) -> bool:
    """Whether a tool has high impact, so that a record counts only where some word of the person's stands in it."""
    entry = find_tool_entry(spec, policy)
    said = entry.high_impact_write if entry is not None else None
    if is_declared_by_person(spec, policy) and spec.capabilities is None and said is not None:
        return said
    return bool(said) or spec.capabilities is None or spec.capabilities.high_impact_write


_SHOWN = 160
_NAME = 24
"""Characters of a text that name it, where no read does."""


def list_carried_values(
    texts: Sequence[tuple[str, str]], targets: Collection[str], sources: ValueSources
) -> Iterator[ArgumentValue]:
    """Yield what texts of a call, each with its path, take along or lead to.

    `targets` are the keys of the values the call goes to: a text may go back to whoever wrote the record it stands in.
    Encoded text that some result of the session holds is said by somebody. An address that nobody said counts like any
    other value once something from outside was read, which may want somebody to go there.
    """
    task, said, state, policy = sources.task, sources.said, sources.state, sources.policy

    def is_found(value: Value) -> bool:
        if value.kind == "url" and task.reads.find_link(value, said.names) is not None:
            return True
        found = task.reads.find(value, value.normal, WantedField(said.words, said.wholes))
        return found is not None and found.is_meant and bool(found.words)

    def goes_back(folded: str) -> bool:
        records = (record for record in task.reads.list_records() if targets and is_written_by(record, targets, policy))
        return any(folded in fold_text(field.text) for record in records for field in record.fields)

    def is_known(address: Value) -> bool:
        place = name_place(address)
        if sources.every_read.has_own_place(place) or place in map(name_place, sources.values):
            return True
        forms = (address, *read_forms(place))
        return any(sources.said_before.names(form) or sources.find_configured(form) for form in forms)

    known = WhatWasSaid(task.messages, said, state.written, is_found, goes_back, is_known)
    found = find_carried_texts([text for _, text in texts], task.texts, known, policy)
    counted = (one for one in found if (sources.outside if one.is_address else one.read or not _is_known(one, state)))
    for carried in islice(counted, MOST):
        text, read, path = carried.text, carried.read, texts[carried.argument][0][:_SHOWN]
        key = format_key(read_value(text) or Value("words", text))
        if carried.is_address:
            yield sources.describe_outside(ArgumentValue(path, "value", shorten_word(text), key, "outside"), text)
            continue
        yield ArgumentValue(
            path,
            "carried",
            shorten_word(text),
            key,
            "outside" if sources.outside else "unsaid",
            read.seq if read is not None else 0,
            read.name[:_SHOWN] if read is not None else "",
            name=read.name[:_SHOWN] if read is not None and read is not LOST else text[:_NAME],
        )


def is_written_by(record: Record, keys: Collection[str], policy: Policy) -> bool:
    """Whether a record says that it is by somebody, and by nobody but those these keys stand for."""
    senders = policy.mandate.flows.senders
    by = [field.value for field in record.fields if field.name.casefold() in senders and field.value is not None]
    return set(keys) == {format_key(value) for value in by}


def _is_known(carried: CarriedText, state: SessionState) -> bool:
    return state.atoms.is_known_whole(carried.text)
