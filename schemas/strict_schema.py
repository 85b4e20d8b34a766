"""What a critic answers in JSON, and the JSON Schema of such an answer as strict endpoints take it: every key required,
no other key allowed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from foregate.schemas.strict_json import Json


@cache
def strict_schema(noun: type[BaseModel]) -> Mapping[str, Json]:
    """Return the schema of `noun` with titles and defaults dropped, all keys required and objects closed."""
    return _build_strict_object(noun.model_json_schema())


def _build_strict(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_build_strict(item) for item in schema]
    return _build_strict_object(schema) if isinstance(schema, dict) else schema


def _build_strict_object(schema: Mapping[str, Json]) -> dict[str, Json]:
    names = schema.get("properties")
    result: dict[str, Json] = {
        key: {name: _build_strict(inner) for name, inner in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else _build_strict(value)
        for key, value in schema.items()
        if key in ("properties", "$defs") or key not in ("title", "default", "description")
    }
    if isinstance(names, dict):
        result["required"] = list(names)
        result["additionalProperties"] = False
    return result


class Critique(BaseModel):
    """`pre_execution_critique_v1`. A critique can tighten, never loosen."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    verdict: Literal["accept", "replan"]
    issues: list[str]
    summary: str
