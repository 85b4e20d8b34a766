"""Whether arguments fit the JSON Schema of a tool, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema
import re2
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry

from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json

_REMEMBERED, _REMEMBERED_SIZE = 32, 2048
"""Arguments of a tool whose check is remembered, since a turn is judged under many policies; and their characters."""
REFERENCES = 10_000
"""References followed for one call where no policy says how many."""
_REFERRING = ("$ref", "$dynamicRef")
"""Keywords that refer to another part of a schema."""


class SchemaCheck:
    """A tool's JSON Schema, compiled once; patterns run on RE2, no reference leaves the schema, and at most
    `references` are followed for one call. Raises jsonschema.SchemaError for a schema that is none; one that is `sound`
    is not checked."""

    def __init__(
        self, schema: Mapping[str, Json], *, closed: bool, references: int = REFERENCES, sound: bool = False
    ) -> None:
        own = remove_dialects(schema)
        self._references = references
        if closed and "properties" in own:
            own.setdefault("additionalProperties", False)
        if not sound:
            _check_schema(strict_json.canonical(own).decode())
        self._validator = _Validator(own, registry=Registry())
        self._known: dict[str, str] = {}

    def find_first_defect(self, arguments: Mapping[str, Json]) -> str:
        """Return one sentence naming the argument and what is wrong, "" when nothing is."""
        # Unlike JSON it tells 1 from 1.0 and a list from a tuple.
        said = repr(arguments)
        if (known := self._known.get(said)) is not None:
            return known
        found = next(iter(self.find_defects(arguments, 1)), "")
        if len(said) <= _REMEMBERED_SIZE:
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[said] = found
        return found

    def find_defects(self, arguments: Mapping[str, Json], most: int | None = None) -> list[str]:
        """Return a sentence for each thing that is wrong, `most` at the most."""
        before = _LEFT.set([self._references])
        try:
            return [_describe_error(error) for error in islice(self._validator.iter_errors(arguments), most)]
        except (TooManyReferences, RecursionError):
            return [f"the tool's schema follows more than {self._references} references here; send simpler arguments"]
        finally:
            _LEFT.reset(before)


def has_references(schema: str) -> bool:
    """Whether a JSON Schema, as text such as `{"$ref": "#/$defs/a"}`, may hold a reference that is followed."""
    return any(f'"{keyword}"' in schema for keyword in _REFERRING)


@lru_cache(maxsize=1024)
def build_check(schema: str, closed: bool, references: int, sound: bool) -> SchemaCheck:
    """Return the check of a schema by its text: the same for every policy over a catalogue."""
    own = strict_json.as_object(strict_json.decode_record(schema))
    return SchemaCheck(own, closed=closed, references=references, sound=sound)


def _describe_error(error: ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    return f"the argument `{where}` does not fit: {error.message[:300]}" if where else error.message[:300]


class TooManyReferences(Exception):
    """Checking one call follows more references than the policy lets it: a small schema can mean an endless one."""


_LEFT: ContextVar[list[int]] = ContextVar("references left")
"""How many references may still be followed for the arguments in hand."""


def remove_dialects(schema: Json) -> Any:
    """Return a schema without the `$schema` of its parts: the library would check those by that dialect's own rules,
    with patterns on Python's engine and references uncounted."""
    if isinstance(schema, list):
        return [remove_dialects(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: remove_dialects(value) for key, value in schema.items() if key != "$schema" or not isinstance(value, str)
    }


@lru_cache(maxsize=256)
def _check_schema(schema: str) -> None:
    """Raise SchemaError for what is no JSON Schema; every session of a process has much the same ones."""
    _Validator.check_schema(json.loads(schema))


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not re2.search(pattern, instance):
        yield ValidationError(f"`{instance[:60]}` does not match the pattern `{pattern[:60]}`")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for key in (key for key in instance if re2.search(pattern, key)):
                yield from validator.descend(instance[key], subschema, path=key, schema_path=pattern)


def _check_additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
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


def _counting(keyword: str) -> Callable[..., Iterator[ValidationError]]:
    """Return the library's own check of a keyword that refers, which counts how often it is followed."""
    follow: Callable[..., Iterator[ValidationError]] = Draft202012Validator.VALIDATORS[keyword]

    def check(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        left = _LEFT.get()
        left[0] -= 1
        if left[0] < 0:
            raise TooManyReferences
        yield from follow(validator, reference, instance, schema)

    return check


def _check_required(validator: Any, required: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for key in required:
            if key not in instance:
                yield ValidationError(f"the argument `{key}` is missing")


def _check_unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """The library compares each item that cannot be sorted with every other, which a long list makes endless."""
    is_checked = wanted and validator.is_type(instance, "array")
    if is_checked and len({strict_json.canonical(item) for item in instance}) < len(instance):
        yield ValidationError("two of its items are the same")


_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "required": _check_required,
        "uniqueItems": _check_unique,
        **{keyword: _counting(keyword) for keyword in _REFERRING},
    },
)
