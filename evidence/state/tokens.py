"""How many tokens a message takes: an estimate that needs no library and is the same everywhere, or another measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foregate.schemas.message import Message

_ASCII = 4
"""Characters of plain English or code per token, rounded down: an estimate should rather be too high."""
_OTHER = 3
"""Bytes of any other text per token; one character of most scripts beyond the Latin one."""
_FRAME = 4
"""Tokens around a message and around a call, whatever is in them."""
_DENSEST = 4
"""Times a real count may exceed the estimate: no token is less than a byte."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A way to count: its name for the log, and the tokens `of` a text."""

    name: str
    of: Callable[[str], int]

    def count_tokens(self, message: Message) -> int:
        """Return how many tokens a message takes, its calls included."""
        calls = sum(_FRAME + self.of(call.name) + self.of(call.raw) for call in message.calls)
        return _FRAME + self.of(message.text) + calls


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text takes; never fewer for a longer beginning of the same text."""
    if text.isascii():
        return -(-len(text) // _ASCII)
    return -(-len(text.encode("utf-8", "replace")) // _OTHER)


ESTIMATE = Measure("estimate", estimate_tokens)
"""The measure where there is no better one."""
weight = ESTIMATE.count_tokens


def is_surely_within(estimate: int, limit: int) -> bool:
    """Whether no way to count could find more than `limit` tokens in what the estimate says takes so many."""
    return estimate * _DENSEST <= limit
