"""What people, models and tools said, for export: only where it is asked for, masked first, and bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import ModelResponded
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import RecordedCall
from foregate.telemetry.log.masking import Hidden, mask_text, mask_value

SHOWN = 4096
"""Characters of one text that are exported."""
KEPT = 32
"""Messages that are kept for one request; older ones are left out."""


def mask_and_cut(value: Json, patterns: Hidden) -> str:
    """Return a text, or JSON as text, masked and then cut: a cut could leave half a secret that no pattern knows.

    JSON is masked inside its texts, where no escape hides anything, and once more as a whole, for its keys.
    """
    hidden = mask_value(value, patterns)
    whole = hidden if isinstance(hidden, str) else mask_text(json.dumps(hidden, ensure_ascii=False), patterns)
    text = strict_json.scrub(whole)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} [cut]"


def format_arguments(raw: str, patterns: Hidden) -> str:
    """Return a call's arguments as JSON text. They are read first, for an escape could hide a secret from a pattern."""
    try:
        return mask_and_cut(strict_json.parse(raw), patterns)
    except InvalidJson:
        return mask_and_cut(raw, patterns)


def format_words(role: str, text: str, patterns: Hidden) -> Json:
    """Return a message of words, in the form of the conventions."""
    return {"role": role, "parts": [{"type": "text", "content": mask_and_cut(text, patterns)}]}


def format_tool_response(call: str, text: str, patterns: Hidden) -> Json:
    """Return the message that answers a call."""
    return {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": call, "response": mask_and_cut(text, patterns)}],
    }


def format_response(body: ModelResponded, patterns: Hidden) -> Json:
    """Return the message a model gave, its calls with it."""
    calls = [
        {
            "type": "tool_call",
            "id": call.id,
            "name": mask_and_cut(call.name[:128], patterns),
            "arguments": format_arguments(call.arguments, patterns),
        }
        for call in (body.program or body).calls
    ]
    words = {"type": "text", "content": mask_and_cut(body.text, patterns)}
    return {"role": "assistant", "parts": [words, *calls], "finish_reason": body.finish_reason}


def index_arguments(calls: Iterable[RecordedCall]) -> dict[str, str]:
    """Return the arguments of calls as they were sent, by call."""
    return {call.id: call.arguments for call in calls}


def encode_messages(found: list[Json]) -> str:
    """Return messages as the JSON text an attribute holds."""
    return json.dumps(found[-KEPT:], ensure_ascii=False)
