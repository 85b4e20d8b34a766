"""Masking what a policy calls sensitive, wherever it stands in an event that is exported."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.masking import Hidden, mask_value

N = TypeVar("N", bound=Struct)


def mask_event(event: Event, patterns: Hidden) -> Event:
    """Return the event with what `patterns` match masked everywhere in its body; the same event where nothing matches.

    Raises PolicyError for a pattern RE2 cannot read.
    """
    body = mask_noun(event.body, patterns) if patterns else event.body
    return event if body is event.body else replace(event, body=body)


def mask_noun(noun: N, patterns: Hidden) -> N:
    """Return a noun with its texts masked, at any depth; the same object where nothing matches.

    A field that takes only words of a closed list stays as it is: none of them is a secret, and no other is readable.
    """
    changed = _mask_fields(noun, patterns)
    return replace(noun, **changed) if changed else noun


def mask_json(value: Json, patterns: Hidden) -> Json:
    """Return `value` with its texts and keys masked; the same object where nothing matches."""
    if isinstance(value, str):
        return _mask_words(value, patterns)
    if isinstance(value, Mapping):
        inner = {_mask_words(key, patterns): _mask_under_key(key, item, patterns) for key, item in value.items()}
        same = all(inner.get(key, inner) is item for key, item in value.items())
        return value if same else inner
    if isinstance(value, (list, tuple)):
        items = [mask_json(item, patterns) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def mask_json_text(raw: str, patterns: Hidden) -> str:
    """Return JSON as text, masked. It is read first, for an escape could hide a secret from a pattern."""
    masked_raw = _mask_words(raw, patterns)
    if masked_raw is raw and "\\" not in raw:
        return raw
    try:
        value = strict_json.parse(raw)
        inner = mask_json(value, patterns)
        if inner is value and masked_raw is raw:
            return raw
        return _mask_words(strict_json.canonical(inner).decode(), patterns)
    except InvalidJson:
        return masked_raw


def _mask_fields(noun: Struct | BaseModel, patterns: Hidden) -> dict[str, object]:
    """Return the fields of a noun that are others when they are masked."""
    old = {name: getattr(noun, name) for name in _list_open_fields(type(noun))}
    new = {name: _mask_field(name, value, patterns) for name, value in old.items()}
    return {name: value for name, value in new.items() if value is not old[name]}


@cache
def _list_open_fields(noun: type[Struct | BaseModel]) -> tuple[str, ...]:
    """Return the names of the fields that hold more than words of a closed list."""
    if issubclass(noun, BaseModel):
        kinds: dict[str, object] = {name: field.annotation for name, field in noun.model_fields.items()}
    else:
        kinds = {field.name: field.type for field in msgspec.structs.fields(noun)}
    return tuple(name for name, kind in kinds.items() if not _is_closed(kind))


def _is_closed(kind: object) -> bool:
    return any(
        get_origin(option) is Literal or (isinstance(option, type) and issubclass(option, Enum))
        for option in (kind, *get_args(kind))
    )


def _mask_field(name: str, value: object, patterns: Hidden) -> object:
    """Return what stands in a field of a noun, masked."""
    if isinstance(value, Struct):
        return mask_noun(value, patterns)
    if isinstance(value, BaseModel):
        changed = _mask_fields(value, patterns)
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, tuple):
        items = tuple(_mask_field(name, item, patterns) for item in value)
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if name == "policy" and isinstance(value, Mapping):
        return _mask_policy(value, patterns)
    return _mask_under_key(name, value, patterns) if isinstance(value, (str, Mapping, list)) else value


def _mask_policy(policy: Mapping[str, Json], patterns: Hidden) -> Mapping[str, Json]:
    """Return a policy, masked but for the patterns themselves: they name no secret, and a turn is judged by them."""
    rest = {name: value for name, value in policy.items() if name != "sensitive"}
    inner = mask_json(rest, patterns)
    if inner is rest or not isinstance(inner, Mapping):
        return policy
    return {name: policy[name] if name == "sensitive" else inner[name] for name in sorted({*inner, "sensitive"})}


def _mask_under_key(key: str, value: Json, patterns: Hidden) -> Json:
    """Return what stands under a key, masked; the arguments of a call are JSON in a text."""
    if key == "arguments" and isinstance(value, str):
        return mask_json_text(value, patterns)
    return mask_json(value, patterns)


def _mask_words(text: str, patterns: Hidden) -> str:
    found = mask_value(text, patterns)
    return found if isinstance(found, str) else text
