"""How much a server may send before it is asked something again."""

from __future__ import annotations


class Flood(Exception):
    """A server sent more than it may."""


class Traffic:
    """A budget of bytes; `renew` fills it up, which only a call of ours does."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def renew(self) -> None:
        """Let the server send as much as it may from here on."""
        self._left = self._most

    def take(self, count: int) -> None:
        """Count bytes that came; raise Flood once they are too many."""
        self._left -= count
        if self._left < 0:
            raise Flood(f"it sent more than {self._most} bytes without being asked for anything")
