"""Whether the input schema of a tool nobody here has written can be used at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import re2
from jsonschema import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from foregate.gates.validity import SchemaCheck
from foregate.schemas.strict_json import Json
from foregate.schemas.visible import is_hidden, make_visible

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
WORDS = ("description", "title", "$comment")
"""Where a schema speaks to the reader; such text is cleaned, all other text must be fit to be shown as it is."""
_QUIET = re2.Options()
_QUIET.log_errors = False


def find_problem(schema: Json) -> str:
    """Return why arguments cannot be checked against `schema`, "" where they can; its depth has been bounded before.

    References stay within it and lead somewhere, patterns are RE2's, and nothing in it is invisible. What it costs to
    follow references is bounded where arguments are checked.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return "its input schema is not one of an object"
    refers = unevaluated = False
    for key, value in iterate_pairs(schema):
        if any(is_hidden(char) for char in key):
            return f"its input schema has the key `{make_visible(key[:64])}`, which cannot be shown as it is"
        if isinstance(value, str) and key not in WORDS and any(is_hidden(c) and c not in "\n\t" for c in value):
            return f"its input schema holds `{make_visible(value[:64])}`, which cannot be shown as it is"
        if key in _REFERENCES and isinstance(value, str):
            refers = True
            if not value.startswith("#"):
                return f"its input schema refers to `{make_visible(value[:80])}` outside itself"
        unevaluated = unevaluated or key in _UNEVALUATED
        patterns: Iterable[Json] = [value] if key == "pattern" else ()
        if key == "patternProperties" and isinstance(value, Iterable):
            patterns = value
        for pattern in patterns:
            if isinstance(pattern, str) and not can_compile(pattern):
                return f"its input schema has the pattern `{make_visible(pattern[:80])}`, which RE2 does not take"
    if refers and unevaluated:
        return "its input schema has references beside `unevaluated...`, which cannot be checked within bounds"
    try:
        SchemaCheck(schema, closed=False)
    except SchemaError as error:
        return f"its input schema is no JSON Schema: {make_visible(error.message[:120])}"
    except Exception as error:
        return f"its input schema cannot be read ({type(error).__name__})"
    return find_unresolved(schema)


def iterate_pairs(schema: Json) -> Iterator[tuple[str, Json]]:
    """Yield every key with its value, and every text of a list with an empty key, without recursion."""
    stack = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            for key, value in item.items():
                yield key, value
                if not isinstance(value, str):
                    stack.append(value)
        elif isinstance(item, list):
            for value in item:
                if isinstance(value, str):
                    yield "", value
                else:
                    stack.append(value)


def can_compile(pattern: str) -> bool:
    """Whether RE2 takes a pattern; it refuses those that would grow without bounds."""
    try:
        re2.compile(pattern, _QUIET)
    except re2.error:
        return False
    return True


def find_unresolved(schema: Mapping[str, Json]) -> str:
    """Return which reference leads nowhere, "" where each leads somewhere."""
    wanted = {value for key, value in iterate_pairs(schema) if key in _REFERENCES and isinstance(value, str)}
    if not wanted:
        return ""
    registry: Registry[Json] = Registry()
    resolver = registry.resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in sorted(wanted):
        try:
            resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError, KeyError):
            return f"its input schema refers to `{make_visible(reference[:80])}`, which is not there"
    return ""
