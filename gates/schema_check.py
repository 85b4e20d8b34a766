"""A tool's JSON Schema, compiled once; patterns run on RE2 and no reference leaves the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import jsonschema
import re2
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry

from foregate.gates.plain_schema import plain_check
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json


class SchemaCheck:
    """Finds the defects of arguments. Raises jsonschema.SchemaError for a schema that is none."""

    def __init__(self, schema: Mapping[str, Json], *, closed: bool) -> None:
        schema = dict(schema)
        if closed and "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
        _sound(strict_json.canonical(schema).decode())
        self._validator = _Validator(schema, registry=Registry())
        self._plain = plain_check(schema)

    def defect(self, arguments: Mapping[str, Json]) -> str:
        """Return one sentence naming the argument and what is wrong, "" when nothing is."""
        return next(self.defects(arguments), "")

    def defects(self, arguments: Mapping[str, Json]) -> Iterator[str]:
        """Yield a sentence for each thing that is wrong."""
        if self._plain is not None and self._plain(arguments):
            return
        for error in self._validator.iter_errors(arguments):
            where = ".".join(str(part) for part in error.absolute_path)
            yield f"the argument `{where}` does not fit: {error.message[:300]}" if where else error.message[:300]


@lru_cache(maxsize=256)
def _sound(schema: str) -> None:
    """Raise SchemaError for what is no JSON Schema; every session of a process has much the same ones."""
    _Validator.check_schema(json.loads(schema))


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not re2.search(pattern, instance):
        yield ValidationError(f"`{instance[:60]}` does not match the pattern `{pattern[:60]}`")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if re2.search(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    patterns = list(schema.get("patternProperties", ()))
    known = schema.get("properties", {})
    for key, value in instance.items():
        if key in known or any(re2.search(pattern, key) for pattern in patterns):
            continue
        if validator.is_type(allowed, "object"):
            yield from validator.descend(value, allowed, path=key)
        elif not allowed:
            names = ", ".join(f"`{name}`" for name in known) or "none"
            yield ValidationError(f"there is no argument `{key[:60]}`; the arguments are {names}")


def _required(validator: Any, required: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for key in required:
        if key not in instance:
            yield ValidationError(f"the argument `{key}` is missing")


_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "required": _required,
    },
)
