"""The messages a model was sent, as the bytes that are kept of them."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.schemas import strict_json
from foregate.schemas.message import Message
from foregate.schemas.tool_call import ToolCall


def write_messages(messages: Sequence[Message]) -> bytes:
    """Return messages as they are kept."""
    return strict_json.canonical(
        [
            {
                "role": message.role,
                "text": message.text,
                "call": message.call,
                "calls": [{"id": call.id, "name": call.name, "arguments": call.raw} for call in message.calls],
            }
            for message in messages
        ]
    )


def read_messages(data: bytes) -> list[Message]:
    """Return the messages that were kept, so that what is sent is what is in the log."""
    kept = strict_json.parse(data.decode(), max_bytes=len(data) + 1)
    return [
        Message(
            one["role"],
            one["text"],
            tuple(ToolCall.parse(call["name"], call["arguments"], id=call["id"]) for call in one["calls"]),
            one["call"],
        )
        for one in kept
    ]
