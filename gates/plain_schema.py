"""Arguments that plainly fit: the common, flat kind of a tool's schema, answered without walking it.

Only ever says yes where the full check would; whatever it does not know, or does not like, is left to the full check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from foregate.schemas.json_object import texts
from foregate.schemas.strict_json import Json

Fits = Callable[[Json], bool]

_SAID = frozenset(("title", "description", "default"))
_OBJECT = _SAID | {"type", "properties", "required", "additionalProperties"}
_BOUNDS = {"string": {"minLength"}, "integer": {"minimum"}, "boolean": set(), "array": {"items", "minItems"}}


def plain_check(schema: Mapping[str, Json]) -> Fits | None:
    """Return what tells that arguments plainly fit `schema`, None where the schema is not of the flat kind.

    Raises InvalidJson where what is required is no list of names, which no sound schema says.
    """
    properties = schema.get("properties")
    closed = schema.get("additionalProperties") is False
    if not (schema.keys() <= _OBJECT and schema.get("type") == "object" and closed and isinstance(properties, dict)):
        return None
    fits = {name: check for name, inner in properties.items() if (check := _value(inner)) is not None}
    needed = frozenset(texts(schema.get("required", []), "required"))
    if len(fits) < len(properties):
        return None

    def fit(arguments: Json) -> bool:
        if type(arguments) is not dict or not needed <= arguments.keys() <= fits.keys():
            return False
        return all(fits[name](value) for name, value in arguments.items())

    return fit


def _value(schema: Json) -> Fits | None:
    """Return what tells that one argument plainly fits."""
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        return None
    kind = schema["type"]
    if kind not in _BOUNDS or not schema.keys() <= _SAID | {"type"} | _BOUNDS[kind]:
        return None
    if kind == "string":
        shortest = _bound(schema, "minLength")
        return lambda value: type(value) is str and len(value) >= shortest
    if kind == "integer":
        least = _bound(schema, "minimum")
        return lambda value: type(value) is int and value >= least
    if kind == "boolean":
        return lambda value: type(value) is bool
    each, fewest = _value(schema.get("items")), _bound(schema, "minItems")
    if each is None:
        return None
    return lambda value: type(value) is list and len(value) >= fewest and all(map(each, value))


def _bound(schema: Mapping[str, Json], key: str) -> float:
    """Return the least value, or the least length, that a schema wants; any will do where it wants none."""
    found = schema.get(key)
    return found if isinstance(found, (int, float)) else -inf
