"""From nouns to JSON and back, for what is recorded; fields at their default are left out."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

T = TypeVar("T")


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(noun: Any) -> TypeAdapter[Any]:
    adapter = _ADAPTERS.get(noun)
    if adapter is None:
        adapter = _ADAPTERS[noun] = TypeAdapter(noun)
    return adapter


def dump(value: Any, *, exclude: set[str] | None = None) -> Json:
    """Return `value` (a frozen dataclass of this package) as plain JSON values."""
    return _adapter(type(value)).dump_python(value, mode="json", exclude_defaults=True, exclude=exclude)


def load(noun: type[T], data: Json) -> T:
    """Return the noun `data` describes; raise InvalidJson naming the first defect."""
    try:
        value: T = _adapter(noun).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise InvalidJson(f"not a {noun.__name__}: {where}: {first['msg']}") from None
    return value
