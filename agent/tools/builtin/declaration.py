"""Reading arguments that passed the check of their tool's schema, where the JSON readers alone are too strict."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.schemas.strict_json import Json, get_int


def get_count(arguments: Mapping[str, Json], key: str, default: int | None = None) -> int:
    """Return an integer argument, `default` where there is none; raise InvalidJson for what is no integer.

    To JSON Schema 5.0 is an integer as well, so a call with it has passed the check.
    """
    value = arguments.get(key)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return get_int(arguments, key, default)
