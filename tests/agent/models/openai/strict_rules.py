"""What an endpoint refuses of a schema under `strict`, by the narrowest limits that were ever documented for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs"),
    *("description", "title", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum"),
    *("exclusiveMaximum", "minItems", "maxItems"),
}
DEEPEST, MOST_PROPERTIES, MOST_NAMED, MOST_ENUM = 5, 100, 15_000, 500


def strict_refusals(schema: Any) -> Iterator[str]:
    """Yield what is wrong with a schema: at its root, in every part of it, and by its size."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or "anyOf" in schema:
        yield "schema must be a JSON Schema of 'type: \"object\"', and not 'anyOf' at its root"
        return
    parts = list(_parts(schema))
    for part in parts:
        yield from _refusals(part, schema.get("$defs", {}))
    names = [name for part in parts for name in part.get("properties", {})]
    values = [
        value for part in parts for value in (*part.get("enum", ()), *([part["const"]] if "const" in part else ()))
    ]
    if len(names) > MOST_PROPERTIES:
        yield f"{len(names)} object properties exceed the limit of {MOST_PROPERTIES}"
    if sum(len(str(one)) for one in (*names, *values, *schema.get("$defs", {}))) > MOST_NAMED:
        yield f"the names and values have more than {MOST_NAMED} characters"
    if len(values) > MOST_ENUM:
        yield f"{len(values)} enum values exceed the limit of {MOST_ENUM}"
    if (depth := _depth(schema, schema.get("$defs", {}), ())) > DEEPEST:
        yield f"{depth} levels of nesting exceed the limit of {DEEPEST}"


def _inner(part: Mapping[str, Any]) -> list[Any]:
    items = [part["items"]] if "items" in part else []
    return [*part.get("properties", {}).values(), *items, *part.get("anyOf", ())]


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for inner in (*_inner(schema), *schema.get("$defs", {}).values()):
        yield from _parts(inner)


def _refusals(part: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"'{key}' is not permitted" for key in sorted(part.keys() - KEYWORDS))
    if "$ref" in part:
        if len(part) > 1:
            yield "$ref cannot have keywords beside it"
        if part["$ref"].removeprefix("#/$defs/") not in known and part["$ref"] != "#":
            yield f"reference can only point to definitions defined at the top level: {part['$ref']}"
    elif not part.keys() & {"type", "anyOf", "enum", "const"}:
        yield "schema must have a 'type' key"
    if part.get("type") == "array" and "items" not in part:
        yield "array schema missing items"
    if part.get("type") == "object" or "properties" in part:
        if part.get("additionalProperties") is not False:
            yield "'additionalProperties' is required to be supplied and to be false"
        if set(part.get("required", [])) != set(part.get("properties", {})):
            yield "'required' is required to be supplied and to be an array including every key in properties"


def _depth(part: Mapping[str, Any], known: Mapping[str, Any], above: tuple[str, ...]) -> int:
    """Return how many objects and lists lie within each other; a definition within itself counts once."""
    name = part.get("$ref", "").removeprefix("#/$defs/")
    if name in above or (name and name not in known):
        return 0
    if name:
        return _depth(known[name], known, (*above, name))
    own = 1 if part.get("type") in ("object", "array") or "properties" in part else 0
    return own + max((_depth(inner, known, above) for inner in _inner(part)), default=0)
