"""What a sheet asks of a tool that nobody declared, and what an answer says: what it does, proposed from the values of
the call, and which fields of what it returned others cannot write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from foregate.evidence.reads import OpenedRead
from foregate.evidence.records import is_prose
from foregate.policy.policy import Policy
from foregate.policy.risk.declared import NATURES, is_undeclared, may_own
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, as_object, as_texts, get_list, get_object, get_text
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import (
    Catalogue,
    Declaration,
    Nature,
    OwnFields,
    ResourceKind,
    TargetParameter,
    ToolSpec,
    hash_definition,
)
from foregate.schemas.value import Value, read_value

ROLES = ("target", "amount", "text")
ANSWERS: tuple[Nature, ...] = (*NATURES, "each")
"""What a person may answer."""
_KINDS = {"address": ResourceKind.MESSAGE, "url": ResourceKind.URL, "host": ResourceKind.HOST}
# "Please send the report tomorrow": five words or more.
_PROSE = compile_late(r"(?:\S+\s+){4}\S")
_SHOWN, _SAYS, _PARAMETERS = 80, 2000, 32
_FIELDS, _LONGEST_FIELD = 16, 60
"""Fields of a tool's results that a sheet shows, and the characters of the longest name among them."""


def describe_undeclared(facts: CallFacts, policy: Policy) -> dict[str, Json]:
    """Return what a sheet asks of the tool of a call, nothing where somebody has said what it does.

    The proposal comes from the values of the call and from nothing that the tool or its server says. It never makes a
    call freer than an undeclared one but by the roles, which hold as the values look.
    """
    spec, arguments = facts.spec, facts.call.arguments or {}
    if spec is None or not is_undeclared(spec, policy) or len(arguments) > _PARAMETERS:
        return {}
    roles = {name: propose_role(given) for name, given in arguments.items()}
    return {
        "undeclared": {
            **_describe_tool(spec),
            "says": spec.description[:_SAYS],
            "nature": propose_nature(list(roles.values())),
            "roles": [
                {"parameter": name, "role": role, "kind": kind, "value": _shorten(arguments[name])}
                for name, (role, kind) in roles.items()
            ],
            "unseen": [name for name in get_object(spec.parameters, "properties") if name not in roles][:_PARAMETERS],
            "void": spec.declared is not None and spec.declared.nature == "void",
        }
    }


def _describe_tool(spec: ToolSpec) -> dict[str, Json]:
    server = spec.provenance.removeprefix("mcp:") if spec.provenance.startswith("mcp:") else ""
    return {"tool": spec.name, "hash": hash_definition(spec), "server": server}


def add_fields(
    call: Mapping[str, Json],
    reads: Sequence[OpenedRead],
    times: Mapping[int, str],
    catalogue: Catalogue,
    policy: Policy,
) -> dict[str, Json]:
    """Return a call of an approval request that also asks which fields of what was read only its own system writes.

    Asked about are its own tool, where nobody has declared that, and the tools whose fields its values stand in.
    `times` say when the call of an event returned.
    """
    about = get_object(call, "undeclared") if "undeclared" in call else {}
    named = [get_text(about, "tool")] if about else []
    for value in map(as_object, get_list(call, "values")):
        named += [get_text(value, "tool")] if "tool" in value and get_text(value, "source") == "outside" else []
    found: dict[str, list[Json]] = {}
    for tool in dict.fromkeys(named):
        spec = catalogue.get(tool)
        if spec is not None and may_own(spec, policy):
            known = spec.declared.own if spec.declared is not None else ()
            mine = [read for read in reads if read.tool == tool and known != "all"]
            fields = list(_list_fields(mine, times, known))
            found |= {tool: fields} if any(not as_object(one)["prose"] for one in fields) else {}
    more: dict[str, Json] = {}
    if about and (fields := found.pop(get_text(about, "tool"), [])):
        more["undeclared"] = {**about, "fields": fields}
    if found:
        more["unowned"] = [{**_describe_tool(catalogue[tool]), "fields": fields} for tool, fields in found.items()]
    return {**call, **more}


def _list_fields(reads: Iterable[OpenedRead], times: Mapping[int, str], own: Sequence[str]) -> Iterator[Json]:
    """Yield the fields of what a tool returned, each with its newest value: those first that hold no free text."""
    fields: dict[str, tuple[str, int]] = {}
    for read in reads:
        for one in (one for record in read.records for one in record.fields):
            if one.name and len(one.name) <= _LONGEST_FIELD and one.name not in own and one.text.strip():
                fields.setdefault(one.name, (one.text, read.seq))
                # A field that is free text once is one that people write.
                if is_prose(one.text):
                    fields[one.name] = one.text, read.seq
    ordered = sorted(fields.items(), key=lambda item: is_prose(item[1][0]))
    for name, (text, seq) in ordered[:_FIELDS]:
        yield {"field": name, "value": _shorten(text), "at": times.get(seq, ""), "prose": is_prose(text)}


def propose_role(given: Json) -> tuple[str, str]:
    """Return what a value looks like, with the kind of a target: an address, a number, prose, or any other value."""
    values = list(_list_values(given))
    kinds = [value.kind for value in values]
    for kind, resource in _KINDS.items():
        if kind in kinds:
            return "target", resource.value
    if kinds and all(kind == "number" for kind in kinds):
        return "amount", ""
    if kinds and all(kind == "words" for kind in kinds) and any(_PROSE.match(value.normal) for value in values):
        return "text", ""
    return "value", ""


def propose_nature(roles: Sequence[tuple[str, str]]) -> Nature:
    """Return the worst that the values of a call may stand for; what a tool does, only the person can say."""
    named = {role for role, _ in roles}
    return "grave" if "amount" in named else "sends" if "target" in named else "final"


def _list_values(given: Json) -> Iterator[Value]:
    stack = [given]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        elif (value := read_value(item)) is not None:
            yield value


def _shorten(given: Json) -> str:
    text = given if isinstance(given, str) else strict_json.canonical(given).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_declared(
    value: Mapping[str, Json], request: Mapping[str, Json], at: str
) -> dict[str, tuple[Declaration, str]]:
    """Return what an answer declares of the tools its sheet asked about, by name, each with the server whose other
    undeclared tools are meant as well, "" for none.

    Raises UsageError, one sentence, for what the sheet did not ask.
    """
    declared = as_object(value.get("declared") or {}, "declared")
    asked = list_asked(request) if declared else {}
    found = {}
    for tool, said in declared.items():
        if tool not in asked:
            raise UsageError(f"`{tool[:64]}` is no tool that this sheet asks about")
        about = asked[tool]
        given = {"nature": said} if isinstance(said, str) else as_object(said, "declared")
        unknown = set(given) - {"nature", "targets", "amounts", "texts", "own", "all"}
        if unknown:
            raise UsageError(f"a declaration has no `{min(unknown)[:40]}`")
        server = get_text(about, "server") if given.get("all") is True else ""
        found[tool] = (_read_one(given, about, at), server)
    return found


def collect_declared(
    value: Mapping[str, Json], request: Mapping[str, Json], at: str, by: str, catalogue: Catalogue, policy: Policy
) -> dict[str, Declaration]:
    """Return what is to be kept of what an answer declares, by tool; `by` gave it at a UTC time.

    What was said before of a tool that is as it was then stays beside what is said now. Raises UsageError for what the
    sheet did not ask.
    """
    kept: dict[str, Declaration] = {}
    for tool, (said, server) in read_declared(value, request, at).items():
        declared = replace(said, by=by)
        bare = Declaration(declared.nature, "", at=declared.at, by=by)
        for spec in catalogue.values() if server else ():
            if spec.provenance == f"mcp:{server}" and is_undeclared(spec, policy):
                kept.setdefault(spec.name, replace(bare, hash=hash_definition(spec)))
        spec = catalogue[tool]
        before = spec.declared if spec.declared is not None and spec.declared.hash == said.hash else None
        if before is not None and said.nature == "unsaid":
            declared = replace(before, own=said.own, at=at, by=by)
        if before is not None:
            declared = replace(declared, own=join_own(before.own, said.own))
        kept[tool] = declared
    return kept


def list_asked(request: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    """Return what a sheet asks of tools, by their names: from the first call of each."""
    asked: dict[str, Mapping[str, Json]] = {}
    for call in map(as_object, get_list(request, "calls")):
        undeclared = get_object(call, "undeclared") if "undeclared" in call else {}
        for about in map(as_object, [*([undeclared] if undeclared else []), *get_list(call, "unowned")]):
            asked.setdefault(get_text(about, "tool"), about)
    return asked


def join_own(one: OwnFields, other: OwnFields) -> OwnFields:
    """Return the fields that are in one of two sets of own fields."""
    return "all" if "all" in (one, other) else tuple(dict.fromkeys((*one, *other)))


def _read_own(given: Mapping[str, Json], about: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the fields an answer calls own; raise UsageError for one that was not shown, or that is free text."""
    fields = {get_text(one, "field"): one for one in map(as_object, get_list(about, "fields"))}
    for name in (named := as_texts(get_list(given, "own"), "own")):
        if name not in fields:
            raise UsageError(
                f"the sheet shows no field `{name[:40]}` of what `{get_text(about, 'tool')[:64]}` returned"
            )
        if fields[name].get("prose"):
            raise UsageError(f"`{name[:40]}` holds free text, so somebody writes it; name the fields that hold ids")
    return tuple(dict.fromkeys(named))


def _read_one(given: Mapping[str, Json], about: Mapping[str, Json], at: str) -> Declaration:
    own = _read_own(given, about)
    if "roles" not in about or (own and not {*given} - {"own"}):
        if not own or {*given} - {"own"}:
            raise UsageError(f"of `{get_text(about, 'tool')[:64]}` the sheet asks only for its `own` fields")
        return Declaration("unsaid", get_text(about, "hash"), at=at, own=own)
    word = get_text(given, "nature", "proposed")
    nature = get_text(about, "nature") if word == "proposed" else word
    if nature not in ANSWERS:
        raise UsageError(f"`{nature[:40]}` is nothing a tool does; say one of proposed, {', '.join(ANSWERS)}")
    rows = {get_text(row, "parameter"): as_object(row) for row in get_list(about, "roles")}
    given_roles = [role for role in ROLES if f"{role}s" in given]
    roles = {name: "" if row["role"] in given_roles else get_text(row, "role") for name, row in rows.items()}
    for role in given_roles:
        for name in as_texts(get_list(given, f"{role}s"), f"{role}s"):
            if name not in rows:
                raise UsageError(f"the call that was shown has no argument `{name[:40]}`")
            if roles[name] in given_roles:
                raise UsageError(f"`{name[:40]}` is named twice; give it one role")
            roles[name] = role
    named = {role: tuple(name for name, its in roles.items() if its == role) for role in ROLES}
    effect = NATURES.get(nature)
    kinds = {name: ResourceKind(get_text(row, "kind", "") or "other") for name, row in rows.items()}
    targets = [TargetParameter(name, kinds[name], effect) for name in named["target"] if effect is not None]
    bound = tuple(name for name, its in roles.items() if its not in ROLES)
    # Of a tool that asks each time no role counts.
    if effect is None:
        bound, named = tuple(roles), dict.fromkeys(ROLES, ())
    roles_said = tuple(targets), named["amount"], named["text"], bound
    return Declaration(nature, get_text(about, "hash"), *roles_said, at, own=own)
