"""From nouns to JSON and back, for what is recorded; fields at their default are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, lru_cache
from operator import attrgetter
from threading import Lock
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from pydantic import BaseModel

from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

T = TypeVar("T")
Writer = Callable[[Any], Json]

_KEPT = 8
_WRITTEN: dict[int, tuple[Json, Any]] = {}
"""The last nouns written, by the identity of their form: a session folds its own events right after writing them."""
_WRITING = Lock()


def dump(value: Struct, *, exclude: frozenset[str] = frozenset()) -> Json:
    """Return `value` as plain JSON values, without the fields named in `exclude`."""
    return _writer_of(type(value), exclude)(value)


def remember(value: Any, data: Json) -> Json:
    """Return `data`, the recorded form of `value`, so that reading this very object again gives `value` itself."""
    with _WRITING:
        _WRITTEN[id(data)] = (data, value)
        while len(_WRITTEN) > _KEPT:
            del _WRITTEN[next(iter(_WRITTEN))]
    return data


def written(noun: type[T], data: Json) -> T | None:
    """Return the noun whose recorded form is this very object, None when it is not among the last ones written."""
    known = _WRITTEN.get(id(data))
    return known[1] if known is not None and known[0] is data and type(known[1]) is noun else None


def load(noun: type[T], data: Json) -> T:
    """Return the noun `data` describes; raise InvalidJson naming the first defect."""
    known = written(noun, data)
    if known is not None:
        return known
    try:
        return msgspec.convert(data, noun, dec_hook=_model)
    except msgspec.ValidationError as error:
        raise InvalidJson(f"not a {noun.__name__}: {error}") from None


@lru_cache(maxsize=256)
def _writer_of(noun: type[Struct], exclude: frozenset[str] = frozenset()) -> Writer:
    """Return what writes a noun: field by field, what equals its default left out whoever made it.

    (The library's own way to leave defaults out compares identity, so that equal nouns could differ in bytes.) It is
    made as one function without a loop, as `dataclasses` makes its own: a loop over the fields takes nearly three times
    as long, and everything recorded goes through here.
    """
    known: dict[str, Any] = {}
    lines = ["def write(value):", "    found = {}"]
    for at, field in enumerate(msgspec.structs.fields(noun)):
        if field.name in exclude:
            continue
        known[f"default{at}"], known[f"inner{at}"] = _default(field), _writer(field.type)
        item = "item" if known[f"inner{at}"] is None else f"inner{at}(item)"
        lines += [
            f"    if (item := value.{field.name}) is not default{at} and item != default{at}:",
            f"        found[{field.encode_name!r}] = {item}",
        ]
    exec("\n".join([*lines, "    return found"]), known)  # noqa: S102 - of the names of our own fields only
    writer: Writer = known["write"]
    return writer


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


@cache
def _writer(kind: Any) -> Writer | None:
    """Return what writes a value of a field's type, None where the value is JSON already."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _writer_of(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return attrgetter("_value_")  # `value` would be looked up by Python code
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return lambda item: item.model_dump(mode="json", exclude_defaults=True)
    if kind in (str, int, bool, type(None)) or origin is Literal:
        return None
    if origin is tuple and inner[1:] == (...,):
        return _each(_writer(inner[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _every(_writer(inner[1]))
    options = [option for option in inner if option is not type(None)]
    return _optional(_writer(options[0])) if len(options) == 1 else msgspec.to_builtins


def _each(inner: Writer | None) -> Writer:
    return list if inner is None else lambda items: list(map(inner, items))


def _every(inner: Writer | None) -> Writer:
    return dict if inner is None else lambda items: {name: inner(item) for name, item in items.items()}


def _optional(inner: Writer | None) -> Writer | None:
    return None if inner is None else lambda item: None if item is None else inner(item)


def _model(kind: type, data: Json) -> Any:
    """Read what a planner writes, which pydantic checks."""
    if not issubclass(kind, BaseModel):
        raise NotImplementedError(f"`{kind.__name__}` is no noun")
    return kind.model_validate(data)
