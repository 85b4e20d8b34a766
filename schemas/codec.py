"""From nouns to JSON and back, for what is recorded; fields at their default are left out."""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

T = TypeVar("T")


_KEPT = 8
_WRITTEN: dict[int, tuple[Json, Any]] = {}
"""The last nouns written, by the identity of their form: a session folds its own events right after writing them."""
_WRITING = Lock()

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(noun: Any) -> TypeAdapter[Any]:
    adapter = _ADAPTERS.get(noun)
    if adapter is None:
        adapter = _ADAPTERS[noun] = TypeAdapter(noun)
    return adapter


def dump(value: Any, *, exclude: set[str] | None = None) -> Json:
    """Return `value` (a frozen dataclass of this package) as plain JSON values."""
    return _adapter(type(value)).dump_python(value, mode="json", exclude_defaults=True, exclude=exclude)


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
        value: T = _adapter(noun).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise InvalidJson(f"not a {noun.__name__}: {where}: {first['msg']}") from None
    return value
