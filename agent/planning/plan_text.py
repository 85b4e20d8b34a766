"""From the text of a plan to its plain values: JSON or YAML, bare or in one code fence."""

from __future__ import annotations

from foregate.policy import strict_yaml
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.strict_json import Json

_FENCE = "```"
_JSON = "{["
_DEEPEST = 56
_DEEPEST_INSIDE = 32
"""Less than strict JSON allows by itself, so that a plan that was read can be written and read again."""


def values_of(text: str) -> tuple[Json, tuple[str, ...]]:
    """Return the values in `text` and notes about what was left out; raise InvalidJson where there are none."""
    text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.startswith(_FENCE)]
    if not fences or text.lstrip()[0] in _JSON:
        return _document(text), ()
    if len(fences) != 2:
        raise InvalidJson(f"the text holds {len(fences)} marks of code blocks; put the plan into one block")
    first, last = fences
    around = [line for line in (*lines[:first], *lines[last + 1 :]) if line.strip()]
    notes = ("the text around the code block was left out",) if around else ()
    return _document("\n".join((*lines[first + 1 : last], ""))), notes


def mapping_of(value: Json) -> dict[str, Json]:
    """Return what should be a mapping and may be null, or JSON text of one; raise InvalidJson for anything else."""
    if isinstance(value, str):
        value = strict_json.parse(value, max_depth=_DEEPEST_INSIDE) if value.strip() else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidJson("it is not a mapping")
    return value


def _document(text: str) -> Json:
    """Return what one JSON text or YAML document holds; a YAML text counts to its last line break."""
    bare = text.strip()
    if not bare:
        raise InvalidJson("the text is empty; write a plan")
    if bare[0] in _JSON:
        return strict_json.parse(bare, max_depth=_DEEPEST)
    try:
        return strict_yaml.read(text, "the plan", decimals=True)[0]
    except PolicyError as error:
        raise InvalidJson(str(error)) from None
