"""What a sheet asks of a tool that nobody declared, proposed from the values of the call, and what an answer says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from foregate.policy.policy import Policy
from foregate.policy.risk.declared import NATURES, is_undeclared
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, as_object, as_texts, get_list, get_object, get_text
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Declaration, Nature, ResourceKind, TargetParameter, hash_definition
from foregate.schemas.value import Value, read_value

ROLES = ("target", "amount", "text")
ANSWERS: tuple[Nature, ...] = (*NATURES, "each")
"""What a person may answer."""
_KINDS = {"address": ResourceKind.MESSAGE, "url": ResourceKind.URL, "host": ResourceKind.HOST}
# "Please send the report tomorrow": five words or more.
_PROSE = compile_late(r"(?:\S+\s+){4}\S")
_SHOWN, _SAYS, _PARAMETERS = 80, 2000, 32


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
            "tool": spec.name,
            "hash": hash_definition(spec),
            "server": spec.provenance.removeprefix("mcp:") if spec.provenance.startswith("mcp:") else "",
            "says": spec.description[:_SAYS],
            "nature": propose_nature(list(roles.values())),
            "roles": [
                {"parameter": name, "role": role, "kind": kind, "value": _shorten(arguments[name])}
                for name, (role, kind) in roles.items()
            ],
            "unseen": [name for name in get_object(spec.parameters, "properties") if name not in roles][:_PARAMETERS],
            "void": spec.declared is not None,
        }
    }


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
        unknown = set(given) - {"nature", "targets", "amounts", "texts", "all"}
        if unknown:
            raise UsageError(f"a declaration has no `{min(unknown)[:40]}`")
        server = get_text(about, "server") if given.get("all") is True else ""
        found[tool] = (_read_one(given, about, at), server)
    return found


def list_asked(request: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    """Return what a sheet asks of tools, by their names: from the first call of each."""
    asked: dict[str, Mapping[str, Json]] = {}
    for call in map(as_object, get_list(request, "calls")):
        if about := get_object(call, "undeclared") if "undeclared" in call else {}:
            asked.setdefault(get_text(about, "tool"), about)
    return asked


def _read_one(given: Mapping[str, Json], about: Mapping[str, Json], at: str) -> Declaration:
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
    return Declaration(nature, get_text(about, "hash"), tuple(targets), named["amount"], named["text"], bound, at)
