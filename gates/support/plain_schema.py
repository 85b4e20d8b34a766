"""A quick yes for the arguments of most tools: plain schemas as types that are checked in one step.

A yes means that the arguments fit. Anything else means nothing: the schema itself tells whether and what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec

_REMARKS = {"$schema", "title", "description", "default", "examples", "format"}
"""Keywords that refuse nothing."""
_BOUNDS: Mapping[str, Mapping[str, str]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "integer": {"minimum": "ge", "maximum": "le"},
    "number": {"minimum": "ge", "maximum": "le"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "boolean": {},
}
"""The bounds of a JSON type, and what they are to the library."""
_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


class NotPlain(Exception):
    """A schema says something that the types here cannot say."""


def fits_plainly(arguments: Mapping[str, Any], kind: type[msgspec.Struct] | None) -> bool:
    """Whether arguments surely fit a type that `read_plain_type` returned; a no means nothing."""
    if kind is None:
        return False
    try:
        msgspec.convert(arguments, kind)
    except msgspec.ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def read_plain_type(schema: str, closed: bool) -> type[msgspec.Struct] | None:
    """Return the type that takes what a schema takes, None where no type does; `closed` refuses further arguments.

    `schema` is JSON, such as `{"type": "object", "properties": {"path": {"type": "string"}}}`.
    """
    try:
        said = json.loads(schema)
        if closed and "properties" in said:
            said.setdefault("additionalProperties", False)
        kind = _build_object(said)
        # Bounds past 64 bits and the like are refused here, and not at the first call.
        msgspec.json.Decoder(kind)
    except (NotPlain, AttributeError, TypeError, ValueError, RecursionError):
        return None
    return kind


def _build_object(schema: Mapping[str, Any]) -> type[msgspec.Struct]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    closed = schema.get("additionalProperties", True)
    known = {"type", "properties", "required", "additionalProperties", *_REMARKS}
    if schema.get("type") != "object" or not schema.keys() <= known or not isinstance(closed, bool):
        raise NotPlain
    if not set(required) <= properties.keys():
        raise NotPlain
    names = {f"_{place}": name for place, name in enumerate(properties)}
    fields = [
        (field, kind) if name in required else (field, kind | msgspec.UnsetType, msgspec.UNSET)
        for field, name in names.items()
        for kind in (_build_type(properties[name]),)
    ]
    return msgspec.defstruct("Arguments", fields, rename=names, forbid_unknown_fields=not closed, kw_only=True)


def _build_type(schema: Mapping[str, Any]) -> Any:
    kind: Any = schema.get("type")
    if kind == "object":
        return _build_object(schema)
    if kind == "string" and "enum" in schema:
        options = schema["enum"]
        if not schema.keys() <= {"type", "enum", *_REMARKS} or not all(isinstance(one, str) for one in options):
            raise NotPlain
        return Literal[tuple(options)]
    if kind not in _BOUNDS or not schema.keys() <= {"type", "items", *_BOUNDS[kind], *_REMARKS}:
        raise NotPlain
    if ("items" in schema) is not (kind == "array"):
        raise NotPlain
    plain = list[_build_type(schema["items"])] if kind == "array" else _TYPES[kind]  # type: ignore[misc]
    bounds = {meant: schema[bound] for bound, meant in _BOUNDS[kind].items() if bound in schema}
    return Annotated[plain, msgspec.Meta(**bounds)] if bounds else plain
