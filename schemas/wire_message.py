"""What of an assistant message only its endpoint understands, kept so that this endpoint gets it back as it came."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json


class WireMessage(Noun, frozen=True):
    """What an endpoint said beside the words and the calls that every endpoint has.

    `endpoint` names it and the model. `fields` is a JSON object with the message's other fields, or with those that say
    its words otherwise; "" for none. `calls` holds such an object for each call, "" where it has none; it is empty
    where no call has one. `thought` names the field that held exactly the reasoning, which is not stored twice. A log
    holds the objects as texts, for they may hold anything.

    >>> WireMessage("a1", thought="reasoning_content").with_reasoning("I look first.").fields
    '{"reasoning_content":"I look first."}'
    """

    endpoint: str
    fields: str = ""
    calls: tuple[str, ...] = ()
    thought: str = ""

    def with_reasoning(self, reasoning: str) -> WireMessage:
        """Return the same with the reasoning in the field that held it."""
        if not self.thought:
            return self
        fields = {**read_fields(self.fields), self.thought: reasoning}
        return replace(self, fields=write_fields(fields), thought="")

    def map_texts(self, change: Callable[[str], str]) -> WireMessage:
        """Return the same with each text in its objects changed."""
        fields, calls = _map_texts(self.fields, change), tuple(_map_texts(one, change) for one in self.calls)
        return self if (fields, calls) == (self.fields, self.calls) else replace(self, fields=fields, calls=calls)

    def read_call(self, at: int, count: int) -> dict[str, Json]:
        """Return the own fields of the call in a place, counted from 0, of a message with so many calls."""
        return read_fields(self.calls[at]) if len(self.calls) == count else {}


def write_fields(fields: Mapping[str, Json]) -> str:
    """Return fields as the text that is kept of them, "" for none."""
    return json.dumps(fields, separators=(",", ":")) if fields else ""


def read_fields(text: str) -> dict[str, Json]:
    """Return the fields a text holds; what is no JSON object counts as none."""
    if not text or strict_json.is_too_deep(text):
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _map_texts(text: str, change: Callable[[str], str]) -> str:
    fields = read_fields(text)
    if not fields:
        return change(text)
    changed = {name: _map_value(value, change) for name, value in fields.items()}
    return text if changed == fields else write_fields(changed)


def _map_value(value: Json, change: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_value(item, change) for key, item in value.items()}
    return [_map_value(item, change) for item in value] if isinstance(value, (list, tuple)) else value
