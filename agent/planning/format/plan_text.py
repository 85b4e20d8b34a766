"""From the text of a plan to its plain values: JSON or YAML, bare or in one code fence."""

from __future__ import annotations

from foregate.policy.source import strict_yaml
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.strict_json import Json

_FENCE = "```"
_JSON = "{["
_OPENING, _CLOSING = ("{", "["), ("}", "]")
_LEFT_OUT = "the text around the plan was left out"
_MOST_YAML = 96 * 1024
"""Bytes of YAML that are read: its parser is some hundred times slower than that of JSON."""
_DEEPEST = 56
_DEEPEST_INSIDE = 32
"""Less than strict JSON allows by itself, so that a plan that was read can be written and read again."""


def parse_plan_text(text: str) -> tuple[Json, tuple[str, ...]]:
    """Return the values in `text` and notes about what was left out; raise InvalidJson where there are none."""
    text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.startswith(_FENCE)]
    if not fences or text.lstrip()[0] in _JSON:
        return _parse_unfenced(text, lines)
    if len(fences) != 2:
        raise InvalidJson(f"the text holds {len(fences)} marks of code blocks; put the plan into one block")
    first, last = fences
    around = [line for line in (*lines[:first], *lines[last + 1 :]) if line.strip()]
    notes = (_LEFT_OUT,) if around else ()
    return _parse_document("\n".join((*lines[first + 1 : last], ""))), notes


def _parse_unfenced(text: str, lines: list[str]) -> tuple[Json, tuple[str, ...]]:
    """Return what a text without a code block holds, or the one JSON value among lines that are none."""
    try:
        value = _parse_document(text)
        if isinstance(value, (dict, list)):
            return value, ()
    except InvalidJson:
        if (inner := _find_json_among(lines)) is None:
            raise
        return inner, (_LEFT_OUT,)
    inner = _find_json_among(lines)
    return (value, ()) if inner is None else (inner, (_LEFT_OUT,))


def _find_json_among(lines: list[str]) -> Json:
    """Return the JSON from the first line that opens a bracket to the last that closes one, None where that is none."""
    first = next((at for at, line in enumerate(lines) if line.strip()[:1] in _OPENING), None)
    last = next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip()[-1:] in _CLOSING), 0)
    if first is None or any(line.strip()[:1] in _OPENING for line in lines[last:]):
        return None
    try:
        return strict_json.parse("\n".join(lines[first:last]).strip(), max_depth=_DEEPEST)
    except InvalidJson:
        return None


def read_mapping(value: Json) -> dict[str, Json]:
    """Return what should be a mapping and may be null, or JSON text of one; raise InvalidJson for anything else."""
    if isinstance(value, str):
        value = strict_json.parse(value, max_depth=_DEEPEST_INSIDE) if value.strip() else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidJson("it is not a mapping")
    return value


def _parse_document(text: str) -> Json:
    """Return what one JSON text or YAML document holds; a YAML text counts to its last line break."""
    bare = text.strip()
    if not bare:
        raise InvalidJson("the text is empty; write a plan")
    if bare[0] in _JSON:
        return strict_json.parse(bare, max_depth=_DEEPEST)
    if len(text) > _MOST_YAML:
        raise InvalidJson(f"a plan in YAML has at most {_MOST_YAML} characters; write it as JSON")
    try:
        value: Json = strict_yaml.parse_yaml(text, "the plan", decimals=True)[0]
    except PolicyError as error:
        raise InvalidJson(str(error)) from None
    return value
