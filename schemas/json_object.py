"""Reading fields of a JSON object whose shape nothing has checked: a wrong type is one sentence, never a crash.

Each function returns the field `key` of `value`, or `default` where the object has no such field or holds null there.
Without a default a missing field raises InvalidJson, as does a field of another type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

Scalar = TypeVar("Scalar", str, int, bool)


def get_text(value: Json, key: str, default: str | None = None) -> str:
    """Return a text."""
    return _get(value, key, str, default)


def get_int(value: Json, key: str, default: int | None = None) -> int:
    """Return an integer; true and false are none."""
    return _get(value, key, int, default)


def get_bool(value: Json, key: str, default: bool | None = None) -> bool:
    """Return true or false."""
    return _get(value, key, bool, default)


def get_list(value: Json, key: str) -> Sequence[Json]:
    """Return a list, an empty one where there is none."""
    found = as_object(value).get(key)
    if found is None:
        return ()
    if not isinstance(found, (list, tuple)):
        raise InvalidJson(f"`{key}` is not a list")
    return found


def get_object(value: Json, key: str) -> Mapping[str, Json]:
    """Return an object, an empty one where there is none."""
    found = as_object(value).get(key)
    return {} if found is None else as_object(found, key)


def as_object(value: Json, name: str = "the value") -> Mapping[str, Json]:
    """Return `value`, which must be an object; `name` is what the sentence calls it."""
    if not isinstance(value, Mapping):
        raise InvalidJson(f"`{name}` is not an object")
    return value


def as_texts(value: Json, name: str = "the value") -> tuple[str, ...]:
    """Return the items of a list of texts; `name` is what the sentence calls it."""
    if not isinstance(value, (list, tuple)):
        raise InvalidJson(f"`{name}` is not a list of texts")
    found = tuple(item for item in value if isinstance(item, str))
    if len(found) < len(value):
        raise InvalidJson(f"`{name}` is not a list of texts")
    return found


def _get(value: Json, key: str, kind: type[Scalar], default: Scalar | None) -> Scalar:
    found = as_object(value).get(key)
    if found is None and default is not None:
        return default
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise InvalidJson(f"`{key}` is missing" if found is None else f"`{key}` is not {_NAMES[kind]}")
    return found


_NAMES = {str: "a text", int: "an integer", bool: "true or false"}
