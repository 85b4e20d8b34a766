"""What a model is told of arguments that do not fit a tool: what is wanted, and a call that would fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json, get_list, get_object, get_text

Defects = Callable[[Mapping[str, Json]], str]
"""Returns the first defect of arguments, "" for none."""
_DEEPEST, _LISTED, _CHOICES = 6, 20, 6
_PLAIN: Mapping[str, Json] = {"integer": 1, "number": 1, "boolean": False, "null": None}


def wrap_lists(schema: Mapping[str, Json], arguments: Mapping[str, Json], defects: Defects) -> dict[str, Json] | None:
    """Return the arguments with each text that stands for a list made one, None where they do not fit even so."""
    wrapped = dict(arguments)
    for name, given in arguments.items():
        if isinstance(given, str) and "array" in list_types(get_part(schema, name)):
            wrapped[name] = read_list(given)
    return wrapped if wrapped != arguments and not defects(wrapped) else None


def read_list(given: str) -> Json:
    """Return the list a text holds as JSON, else one of the text alone."""
    try:
        read = strict_json.parse(given) if given.lstrip().startswith("[") else None
    except InvalidJson:
        read = None
    return read if isinstance(read, list) else [given]


def describe_wanted(schema: Mapping[str, Json]) -> str:
    """Return the arguments of a schema with their types, those that are needed first."""
    needed = [name for name in get_list(schema, "required") if isinstance(name, str)]
    names = [*needed, *(name for name in get_object(schema, "properties") if name not in needed)]
    told = [f"`{name[:40]}` ({describe_part(schema, name)}{', needed' * (name in needed)})" for name in names[:_LISTED]]
    return ", ".join(told) or "no arguments"


def describe_part(schema: Mapping[str, Json], name: str) -> str:
    """Return what one argument may be, in a few words."""
    part = get_part(schema, name)
    if choices := get_list(part, "enum"):
        return "one of " + ", ".join(strict_json.canonical(one).decode()[:40] for one in islice(choices, _CHOICES))
    kinds = " or ".join(list_types(part)) or "anything"
    inner = list_types(get_items(part, schema)) if "array" in kinds else []
    return f"{kinds} of {' or '.join(inner)}" if inner else kinds


def build_example(
    schema: Mapping[str, Json], arguments: Mapping[str, Json], defects: Defects
) -> dict[str, Json] | None:
    """Return arguments that fit, with what was given where its type is right; None where none are found."""
    properties, needed = get_object(schema, "properties"), get_list(schema, "required")
    kept: dict[str, Json] = {}
    for name in properties:
        part = get_part(schema, name)
        if name in arguments and has_type(arguments[name], list_types(part)):
            kept[name] = arguments[name]
        elif name in needed or name in arguments:
            kept[name] = build_value(part, name, schema)
    plain = {name: build_value(get_part(schema, name), name, schema) for name in needed if isinstance(name, str)}
    return next((made for made in (kept, plain) if not defects(made)), None)


def build_value(part: Mapping[str, Json], name: str, schema: Mapping[str, Json], depth: int = 0) -> Json:
    """Return a value that a part of a schema may well take; a text says in angle brackets what it stands for."""
    for key in ("const", "default"):
        if key in part:
            return part[key]
    for key in ("enum", "examples"):
        if listed := get_list(part, key):
            return listed[0]
    kind = next(iter(list_types(part)), "string")
    if kind == "object" and depth < _DEEPEST:
        needed = [one for one in get_list(part, "required") if isinstance(one, str)]
        inner = {one: resolve(get_part(part, one), schema) for one in needed}
        return {one: build_value(found, one, schema, depth + 1) for one, found in inner.items()}
    if kind == "array" and depth < _DEEPEST:
        return [build_value(get_items(part, schema), name, schema, depth + 1)]
    if kind in ("integer", "number") and isinstance(part.get("minimum"), int):
        return part["minimum"]
    return _PLAIN.get(kind, f"<{name[:40]}>")


def get_part(schema: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """Return what a schema says of one property, nothing where that is no object."""
    part = get_object(schema, "properties").get(name)
    return resolve(part, schema) if isinstance(part, dict) else {}


def get_items(part: Mapping[str, Json], schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return what a part says of the items of a list, nothing where that is no object."""
    items = part.get("items")
    return resolve(items, schema) if isinstance(items, dict) else {}


def resolve(part: Mapping[str, Json], schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return what a part refers to within its schema, and of several ways to be right the first."""
    for _ in range(_DEEPEST):
        name = get_text(part, "$ref", "") if isinstance(part.get("$ref"), str) else ""
        choices = [one for key in ("anyOf", "oneOf", "allOf") for one in get_list(part, key) if isinstance(one, dict)]
        if name.startswith("#/$defs/"):
            found = get_object(schema, "$defs").get(name.removeprefix("#/$defs/"))
            part = found if isinstance(found, dict) else {}
        elif "type" not in part and choices:
            part = choices[0]
        else:
            break
    return part


def list_types(part: Mapping[str, Json]) -> list[str]:
    """Return the types a part of a schema names."""
    named = part.get("type")
    listed = named if isinstance(named, list) else [named]
    return [kind for kind in listed if isinstance(kind, str)]


def has_type(given: Json, kinds: list[str]) -> bool:
    """Whether a value is of one of these types of JSON Schema; any is where none is named."""
    own = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    kind = own.get(type(given), "null")
    return not kinds or kind in kinds or (kind == "integer" and "number" in kinds)
