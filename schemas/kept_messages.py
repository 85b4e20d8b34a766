"""The messages a model was sent, as the bytes that are kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.message import Message
from foregate.schemas.tool_call import RecordedCall


class KeptMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as it is kept."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    call: str
    calls: tuple[RecordedCall, ...]


def write_messages(messages: Sequence[Message]) -> bytes:
    """Return messages as they are kept."""
    return strict_json.canonical([strict_json.dump(_build_kept(message)) for message in messages])


def read_messages(data: bytes) -> list[Message]:
    """Return the messages that were kept, so that what is sent is what is in the log; raise InvalidJson for others."""
    kept = strict_json.load(tuple[KeptMessage, ...], strict_json.parse(data.decode(), max_bytes=len(data) + 1))
    return [Message(one.role, one.text, tuple(call.call for call in one.calls), one.call) for one in kept]


def _build_kept(message: Message) -> KeptMessage:
    calls = tuple(RecordedCall(id=call.id, name=call.name, arguments=call.raw) for call in message.calls)
    return KeptMessage(role=message.role, text=message.text, call=message.call, calls=calls)
