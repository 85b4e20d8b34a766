"""What the mandate says of a call, in the words that rows, sheets and models read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from foregate.evidence.reads import OpenedRead
from foregate.evidence.records import Field
from foregate.policy.policy import Policy
from foregate.policy.risk.declared import find_personal_fields
from foregate.policy.risk.mandate import is_proposed, list_outside_values, list_values_to_name
from foregate.schemas import strict_json
from foregate.schemas.judgement import Answer, Backing
from foregate.schemas.protocols import SoFar
from foregate.schemas.sources import explain_outside_value, explain_source
from foregate.schemas.strict_json import Json, as_object, get_int, get_list, get_text
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import SECOND_MANDATE, Turn
from foregate.schemas.value import ArgumentValue, format_key, read_forms

_SHOWN, _NAME, _RESTS = 80, 40, 8
_ADDRESSES = ("address", "url", "host")
_OTHERS = 4
"""Further candidates that a sheet shows for a value that a person must name."""


def describe_words(facts: CallFacts) -> str:
    """Return where the values of a call come from, as one clause each: `to`, you said so in "mail it to Ben"."""
    return "; ".join(dict.fromkeys(filter(None, map(describe_source, facts.survey.values or ()))))[:400]


def describe_source(value: ArgumentValue) -> str:
    """Return one clause that says who a value comes from, "" where nothing is known of it."""
    name, words = f"`{value.path[:_SHOWN]}`", value.words[:_SHOWN]
    if value.role == "carried":
        return f"{name} takes along {_describe_carried(value)}"
    match value.source:
        case "said" | "mentioned" | "unclear":
            return f'{name} is said in "{words}"'
        case "found":
            return f"{name} was found: {words}"
        case "own":
            return f"{name} is one of several: {words}"
        case "configured":
            return f"{name} is configured ({words})"
        case "outside":
            return f"{name} comes from {words or 'text from outside'}"
    return ""


def _describe_carried(value: ArgumentValue) -> str:
    text = f"`{value.text[:_SHOWN]}`"
    return f"{text} out of {value.words[:_SHOWN]}" if value.words else f"{text}, encoded text that nobody said"


def find_mandate(facts: CallFacts, turn: Turn, so_far: SoFar, policy: Policy) -> Backing | None:
    """Return who asked for a call as it stands now, None where it wants nobody, and in turns of earlier versions."""
    if not facts.authority or turn.edition < SECOND_MANDATE:
        return None
    values, call = facts.survey.values or (), facts.call.id
    if facts.has_leave:
        return Backing("sheet" if facts.permission is not None else "rule", (cite_leave(facts),))
    if facts.authority == "said":
        agreed = is_proposed(facts, turn, policy)
        told = dict.fromkeys(filter(None, map(describe_source, values)))
        return Backing("proposal" if agreed else "words", tuple(told)[:_RESTS])
    outside = {value.path: tell_first(value) for value in list_outside_values(facts, turn.depth)[:_RESTS]}
    granted = (one for row in so_far.decisions if row.gate == "approval" for one in row.rulings if one.call == call)
    if any(one.code == "approval_granted" for one in granted):
        typed = (text for answer in turn.find_answers("approval") for text in read_named(answer, call))
        return Backing("sheet", tuple(f"you typed `{text[:_SHOWN]}`" for text in typed), outside)
    plan = so_far.plan or turn.plan
    step = plan.find_step(so_far.uses.get(call, ())) if plan is not None else None
    return Backing("plan", (step.pattern[:_SHOWN],), outside) if step is not None else Backing("none", (), outside)


def tell_first(value: ArgumentValue) -> str:
    """Return who said a value first that is not certainly the person's."""
    told = strict_json.dump(value)
    if value.role == "carried":
        return f"it takes along {_describe_carried(value)}"
    return explain_outside_value(told) if value.source == "outside" else explain_source(told)


def cite_leave(facts: CallFacts) -> str:
    """Return how a decision names what stands behind a call, "" for nothing: the operator's rule, or the permission
    with who gave it when and what it covers."""
    given = facts.permission
    if given is None:
        return f"the rule `{facts.standing_rule}` of the policy stands for a yes" if facts.standing_rule else ""
    return f"permission {given.id} of {given.by or 'nobody'}, {given.at[:10]}: {given.words}"[:400]


def describe_values(facts: CallFacts) -> list[Json]:
    """Return the values of a call as a sheet shows them."""
    shown = ("path", "role", "text", "key", "source", "words")
    return [
        {name: getattr(value, name) for name in shown}
        | ({"name": value.name} if value.name else {})
        | _find_read(value)
        for value in (*((facts.survey.values or ()) if facts.authority else ()), *facts.unspoken)
    ]


def _find_read(value: ArgumentValue) -> dict[str, Json]:
    """Return in which field of what tool a value stands, and the event that brought it, where it is from outside."""
    where: dict[str, Json] = {"tool": value.record[0], "field": value.record[1]} if value.record[:2] else {}
    return where | {"seq": value.seq} if value.source == "outside" and value.seq else where


def add_candidates(
    call: Mapping[str, Json],
    reads: Sequence[OpenedRead],
    times: Mapping[int, str],
    catalogue: Catalogue,
    policy: Policy,
) -> dict[str, Json]:
    """Return a call of an approval request whose values from outside say when they were read, and what else a person
    may mean in their place: those first where nobody outside can write. `times` say when an event was."""
    values: list[Json] = []
    for value in map(as_object, get_list(call, "values")):
        if get_text(value, "source") not in ("outside", "unclear") or get_text(value, "role") == "carried":
            values.append(value)
            continue
        found: dict[str, tuple[bool, Json]] = {}
        for read, field in _list_others(value, reads):
            text = field.text.strip()
            owned = find_personal_fields(catalogue.get(read.tool), policy)
            own = "all" in (read.own, owned) or field.name in read.own or field.name in owned
            about: Json = {
                "text": text,
                "tool": read.tool,
                "field": field.name,
                "at": times.get(read.seq, ""),
                "own": own,
            }
            if own or text not in found:
                found[text] = not own, about
        others = [about for _, about in islice(sorted(found.values(), key=lambda one: one[0]), _OTHERS)]
        at = times.get(get_int(value, "seq", 0), "")
        values.append({**value, **({"at": at} if at else {}), **({"others": others} if others else {})})
    return {**call, **({"values": values} if values else {})}


def _list_others(value: Mapping[str, Json], reads: Iterable[OpenedRead]) -> Iterator[tuple[OpenedRead, Field]]:
    """Yield what was read and could be meant instead of a value: another address, URL or host, what another record of
    the tool has in the same field, or what another one is called."""
    key, name, kind = get_text(value, "key"), get_text(value, "name", ""), get_text(value, "key").partition(":")[0]
    where, field = get_text(value, "tool", ""), get_text(value, "field", "")
    for read in reads:
        fields = [one for record in read.records for one in record.fields if one.value is not None]
        names = {one.name for one in fields if one.text.strip() == name} if name else {field} if field else set()
        for one in fields:
            alike = one.value is not None and one.value.kind == kind and kind in _ADDRESSES and not name
            another = one.text.strip() != name and one.value is not None and format_key(one.value) != key
            if another and (alike or (read.tool == where and one.name in names)) and is_shown(one.text.strip()):
                yield read, one


def is_shown(text: str) -> bool:
    return text.isprintable() and len(text) <= _SHOWN


def list_unnamed_values(facts: CallFacts, depth: int, named: Sequence[str]) -> list[ArgumentValue]:
    """Return what a person must name of a call and none of the typed texts names.

    Text out of something that was read is named by what was read as well.
    """
    typed = {format_key(form) for text in named for form in read_forms(text)}
    left = [value for value in list_values_to_name(facts, depth) if value.key not in typed]
    return [value for value in left if typed.isdisjoint(map(format_key, read_forms(value.name or value.text)))]


def read_named(answer: Answer, call: str) -> tuple[str, ...]:
    """Return what a person typed for the values of a call, nothing for an answer without such fields."""
    named = (answer.value or {}).get("named")
    texts = named.get(call) if isinstance(named, dict) else None
    return tuple(text for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()


def explain_outside(values: Iterable[ArgumentValue]) -> str:
    """Return why a call waits for a person to name values, as a sentence for the person and the model."""
    return "; ".join(map(_explain_one, values))[:600]


def _explain_one(value: ArgumentValue) -> str:
    name, text, words = f"`{value.path[:_SHOWN]}`", value.text[:_SHOWN], value.words[:_SHOWN]
    match value.role:
        case "carried":
            return f"{name} takes along {_describe_carried(value)}; the person did not ask to send that"
        case "lost":
            return f"`{text}` would be gone, and the person did not ask for that"
        case "secret":
            return f"`{text}` holds a secret that would go along, and the person did not ask for that"
    if value.source == "unclear":
        why = "beside others like it" if value.left else "for a call that was made"
        return f"{name}: the person said `{text}` {why}"
    return f"{name}: {words or 'text from outside'} said `{text}`, the person did not"


def name_outside(values: Iterable[ArgumentValue]) -> str:
    """Return for a sheet, which shows the values by themselves, that a plain yes does not do for them."""
    values = list(values)
    if unspoken := [value for value in values if value.role in ("lost", "secret")]:
        name = f"`{unspoken[0].text[:_SHOWN]}`"
        what = f"{name} to go" if unspoken[0].role == "lost" else f"the secret in {name} to go along"
        return f"you did not ask for {what}; it takes the name, not only a yes"
    names = ", ".join(dict.fromkeys(f"`{value.path[:_NAME]}`" for value in values))[:200]
    if all(value.role == "carried" for value in values):
        return f"you did not ask to send what {names} takes along; it takes more than a yes"
    if all(value.source == "unclear" for value in values):
        return f"your words do not say that {names} goes here; it takes more than a yes"
    return f"you did not say {names}; it takes more than a yes"


def has_reference(facts: CallFacts) -> bool:
    """Whether a value that nobody said stands in a record, so that a plan that covers the call refers to it there."""
    return any(value.source == "outside" and value.record for value in facts.survey.values or ())


def explain_reference(facts: CallFacts) -> str:
    """Return the fields a plan refers to for the values of a call that nobody said, and what was read of them."""
    read = [value for value in facts.survey.values or () if value.source == "outside"]
    named = dict.fromkeys(f"`{value.path[:_NAME]}` is {value.words[:_SHOWN]}" for value in read)
    return f"{'; '.join(named)[:400]}, as the plan made from your words refers to it"


def quote_request(facts: CallFacts) -> str:
    """Return the sentence of the person a call rests on, "" for none."""
    return next((value.words for value in facts.survey.values or () if value.source == "said"), "")
