"""Text that arrives in pieces and is read from the front: what was read is let go, what was not is copied rarely."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Waits = Generator[None, None, T]
"""What reads: it stops wherever it needs more text than has arrived, and returns a T in the end."""
_SHORT = 256
"""Characters that may be looked at again for each piece; of more than these, only when they have grown by half."""


class Window:
    """What is left to read begins at `at`.

    Once `wait_for_more` is asked, distances from `at` still hold, places do not.
    """

    def __init__(self) -> None:
        self.text, self.at, self.ended = "", 0, False
        self.record: list[str] | None = None
        self.opens_line = True
        """Whether nothing but blanks was read since the last line break."""
        self._last = ""
        self._before = 0
        self._waiting: list[str] = []
        self._size = 0

    @property
    def position(self) -> int:
        """How many characters were read."""
        return self._before + self.at

    @property
    def is_at_line_start(self) -> bool:
        """Whether the next character is the first one of a line."""
        return self._last in ("", "\n")

    @property
    def remaining(self) -> str:
        """What arrived and is not read yet."""
        return self.text[self.at :]

    def push(self, piece: str) -> None:
        """Take in what arrives."""
        if piece:
            self._waiting.append(piece)
            self._size += len(piece)

    def wait_for_more(self) -> Waits[bool]:
        """Wait until there is more text than there was; False where there is none to come."""
        while True:
            kept = len(self.text) - self.at
            if self._waiting and (self.ended or kept < _SHORT or self._size * 2 >= kept):
                self._before += self.at
                self.text = "".join((self.remaining, *self._waiting))
                self.at = self._size = 0
                self._waiting.clear()
                return True
            if self.ended:
                return False
            yield

    def take(self, end: int) -> str:
        """Read up to a position in `text`; what is read is also written down while there is a `record`."""
        piece = self.text[self.at : end]
        if piece:
            self.at, self._last = end, piece[-1]
            line = piece.rfind("\n")
            blank = not piece[line + 1 :].strip()
            self.opens_line = blank if line >= 0 else blank and self.opens_line
            if self.record is not None:
                self.record.append(piece)
        return piece

    def skip(self, size: int) -> str:
        """Read so many characters."""
        return self.take(self.at + size)

    def read_rest(self) -> Waits[str]:
        """Read everything to the end."""
        pieces = [self.take(len(self.text))]
        while (yield from self.wait_for_more()):
            pieces.append(self.take(len(self.text)))
        return "".join(pieces)
