"""Text that arrives in pieces, broken at spaces as it is shown."""

from __future__ import annotations

import re

from rich.cells import cell_len

BAR = "|"
"""Stands before a line of foreign text that begins with a space, as only rows of our own do."""
_WORDS = re.compile(r"\n| +|[^ \n]+")


class Flow:
    """Breaks lines at `width` columns, 0 for never. A word is held back until what follows it is known.

    An indented line gets a bar, so that it cannot pose as a row of ours.
    """

    def __init__(self, width: int) -> None:
        self._width, self._column = width, 0
        self._gap, self._word = "", ""

    def feed(self, piece: str) -> str:
        """Take in a piece and return what can be shown of it now."""
        return "".join(self._take(part) for part in _WORDS.findall(piece))

    def end(self) -> str:
        """Return what was held back; the flow may be used again for a new text."""
        rest, self._column = self._flush(), 0
        self._gap = ""
        return rest

    def _take(self, part: str) -> str:
        if part == "\n":
            shown = f"{self._flush()}\n"
            self._column, self._gap = 0, ""
            return shown
        if part.startswith(" "):
            shown = self._flush()
            self._gap += part
            return shown
        self._word += part
        return ""

    def _flush(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        gap, self._gap = self._gap, ""
        if not self._column and (gap or word[0].isspace()):
            gap = f"{BAR}{gap}"
        length = cell_len(gap) + cell_len(word)
        if self._width and self._column and self._column + length > self._width:
            self._column = cell_len(word)
            return f"\n{word}"
        self._column += length
        return gap + word
