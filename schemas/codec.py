"""From nouns to JSON and back, for what is recorded; fields at their default are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from pydantic import BaseModel, ValidationError

from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

T = TypeVar("T")
Writer = Callable[[Any], Json]


def dump(value: Struct, *, exclude: frozenset[str] = frozenset()) -> dict[str, Json]:
    """Return `value` as plain JSON values, without the fields named in `exclude`.

    What equals its default is left out, whoever made it. (The library's own way compares identity, so that equal nouns
    could differ in bytes.)
    """
    found: dict[str, Json] = {}
    for name, key, default, write in _describe_fields(type(value)):
        item = getattr(value, name)
        if item is default or item == default or name in exclude:
            continue
        found[key] = item if write is None else write(item)
    return found


def load(noun: type[T], data: Json) -> T:
    """Return the noun `data` describes; raise InvalidJson naming the first defect."""
    try:
        return msgspec.convert(data, noun, dec_hook=read_model)
    except msgspec.ValidationError as error:
        raise InvalidJson(f"not a {noun.__name__}: {error}") from None


def read_model(kind: type, data: Json) -> Any:
    """Read what a planner writes, which pydantic checks."""
    if not issubclass(kind, BaseModel):
        raise NotImplementedError(f"`{kind.__name__}` is no noun")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@cache
def _describe_fields(noun: type[Struct]) -> tuple[tuple[str, str, Any, Writer | None], ...]:
    """Return of each field its name, its key, its default (one that equals nothing where it has none), its writer."""
    return tuple(
        (field.name, field.encode_name, _find_default(field), _find_writer(field.type))
        for field in msgspec.structs.fields(noun)
    )


def _find_default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


@cache
def _find_writer(kind: Any) -> Writer | None:
    """Return what writes a value of a field's type, None where the value is JSON already."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return dump
    if isinstance(kind, type) and issubclass(kind, Enum):
        return attrgetter("_value_")  # `value` would be looked up by Python code
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return lambda item: item.model_dump(mode="json", exclude_defaults=True)
    if kind in (str, int, bool, type(None)) or origin is Literal:
        return None
    if origin is tuple and inner[1:] == (...,):
        return _write_each(_find_writer(inner[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _write_every(_find_writer(inner[1]))
    options = [option for option in inner if option is not type(None)]
    return _write_optional(_find_writer(options[0])) if len(options) == 1 else msgspec.to_builtins


def _write_each(inner: Writer | None) -> Writer:
    return list if inner is None else lambda items: list(map(inner, items))


def _write_every(inner: Writer | None) -> Writer:
    return dict if inner is None else lambda items: {name: inner(item) for name, item in items.items()}


def _write_optional(inner: Writer | None) -> Writer | None:
    return None if inner is None else lambda item: None if item is None else inner(item)
