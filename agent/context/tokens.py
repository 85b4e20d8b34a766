"""How many tokens a message takes: an estimate that needs no endpoint and is the same everywhere."""

from __future__ import annotations

from foregate.schemas.message import Message

_ASCII = 4
"""Characters of plain English or code per token, rounded down: an estimate should rather be too high."""
_OTHER = 3
"""Bytes of any other text per token; one character of most scripts beyond the Latin one."""
_FRAME = 4
"""Tokens around a message and around a call, whatever is in them."""


def tokens_of(text: str) -> int:
    """Return about how many tokens a text takes; never fewer for a longer beginning of the same text."""
    if text.isascii():
        return -(-len(text) // _ASCII)
    return -(-len(text.encode("utf-8", "replace")) // _OTHER)


def weight(message: Message) -> int:
    """Return about how many tokens a message takes, its calls included."""
    calls = sum(_FRAME + tokens_of(call.name) + tokens_of(call.raw) for call in message.calls)
    return _FRAME + tokens_of(message.text) + calls
