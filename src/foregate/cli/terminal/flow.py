"""Foreign text behind bars: whatever a model, a tool or a file says, no line of it stands without one."""

from __future__ import annotations

import re

from rich.text import Text

from foregate.cli.terminal.columns import chopped, columns
from foregate.cli.terminal.visible import visible

BAR = "|"
"""Stands before every line that is not Foregate's own, and before no other."""
_TAB = 4
_PARTS = re.compile(r"\n|[ \t]+|[^ \t\n]+")
_HALF_AN_ESCAPE = re.compile(r"\\u?\Z")


class Flow:
    """Lays text out in `width` columns as it arrives. A word is held back until what follows it is known.

    What does not fit goes on behind a further bar. Empty lines before and after the text and spaces at the end of lines
    are left out; nothing else is.
    """

    def __init__(self, width: int) -> None:
        self.fit(width)
        self._clear()

    def fit(self, width: int) -> None:
        """Lay what follows out in `width` columns, as a terminal may be made narrower at any time."""
        self._room = max(2, width - len(BAR) - 1)

    def _clear(self) -> None:
        self._shown = Text()
        self._begun, self._column, self._breaks = False, 0, 0
        self._gap, self._word, self._half = "", "", ""

    def feed(self, piece: str) -> Text:
        """Take in a piece and return what can be shown of it now."""
        self._shown = Text()
        piece = self._half + piece
        half = _HALF_AN_ESCAPE.search(piece)
        self._half = half[0] if half else ""
        for part in _PARTS.findall(visible(piece.removesuffix(self._half), lines=True)):
            self._take(part)
        return self._shown

    def end(self) -> Text:
        """Return what was held back and the end of the line, nothing for a text without words; then begin anew."""
        self._shown = Text()
        self._word += self._half
        self._flush()
        shown = self._shown.append("\n") if self._begun else self._shown
        self._clear()
        return shown

    def _take(self, part: str) -> None:
        if part == "\n":
            self._flush()
            self._gap = ""
            self._breaks += 1
        elif part[0] in " \t":
            self._flush()
            for space in part:
                at = (0 if self._breaks else self._column) + len(self._gap)
                self._gap += " " * (_TAB - at % _TAB if space == "\t" else 1)
        else:
            self._word += part
            if columns(self._word) > self._room:
                *full, self._word = self._lines()
                self._put(full)
                self._breaks = 1

    def _flush(self) -> None:
        if self._word:
            self._put(self._lines())
            self._word = ""

    def _lines(self) -> list[str]:
        """Return the word in the lines it takes: what goes on this one first, and its gap with it."""
        if self._begun and not self._breaks:
            if self._column + len(self._gap) + columns(self._word) <= self._room:
                return [self._gap + self._word]
            self._breaks, self._gap = 1, ""
        return chopped(self._gap + self._word, self._room)

    def _put(self, lines: list[str]) -> None:
        """Show lines; the first goes on where the text stands, or after the breaks that are due."""
        for line in lines:
            if self._breaks and self._begun:
                self._shown.append("\n")
                self._shown.append(f"{BAR}\n" * (self._breaks - 1), style="dim")
            if self._breaks or not self._begun:
                self._shown.append(f"{BAR} ", style="dim")
                self._column = 0
            self._shown.append(line)
            self._begun, self._column, self._breaks, self._gap = True, self._column + columns(line), 1, ""
        self._breaks = 0


def barred(content: str, width: int) -> Text:
    """Return a whole text behind bars, in `width` columns, without the end of its last line."""
    flow = Flow(width)
    text = flow.feed(content)
    text.append_text(flow.end())
    text.right_crop(1)
    return text
