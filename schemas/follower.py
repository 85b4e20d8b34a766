"""Whoever follows a response while it arrives: its words, its calls, and that all of it begins again."""

from __future__ import annotations

from collections.abc import Callable

from foregate.schemas.tool_call import ToolCall


class Follower:
    """Follows a response, and hands on what it is told to whoever follows it; `to` may be a mere taker of words.

    It is passed as `on_text`. A model that knows only words calls it with each piece of them; one that knows more
    tells it of calls, and of a new beginning.
    """

    def __init__(self, to: Callable[[str], None] | None = None) -> None:
        self._to = to

    def __call__(self, piece: str) -> None:
        """A piece of the text has come."""
        if self._to is not None:
            self._to(piece)

    def call(self, call: ToolCall) -> None:
        """A call is complete, though the response goes on; calls come in written order."""
        if isinstance(self._to, Follower):
            self._to.call(call)

    def restart(self, why: str) -> None:
        """All that came is void: the response begins again. One who takes only words is told in a line of them."""
        if isinstance(self._to, Follower):
            self._to.restart(why)
        elif self._to is not None:
            self._to(f"\n[{why}]\n")
