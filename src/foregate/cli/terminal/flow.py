"""Foreign text behind bars: whatever a model, a tool or a file says, no line of it stands without one."""

from __future__ import annotations

import re

from rich.text import Text

from foregate.cli.terminal.columns import chop_text, count_columns
from foregate.schemas.visible import make_visible as make_visible

BAR = "|"
"""Stands before every line that is not Foregate's own, and before no other."""
_TAB = 4
_PARTS = re.compile(r"\n|[ \t]+|[^ \t\n]+")
_HALF_AN_ESCAPE = re.compile(r"\\u?\Z")


class BarredText:
    """Lays text out in `width` columns as it arrives. A word is held back until what follows it is known.

    What does not fit goes on behind a further bar. Empty lines before and after the text and spaces at the end of lines
    are left out; nothing else is.
    """

    def __init__(self, width: int) -> None:
        self.set_width(width)
        self._reset()

    def set_width(self, width: int) -> None:
        """Lay what follows out in `width` columns, as a terminal may be made narrower at any time."""
        self._room = max(2, width - len(BAR) - 1)

    def _reset(self) -> None:
        self._shown = Text()
        self._begun, self._column, self._breaks = False, 0, 0
        self._gap, self._word, self._half = "", "", ""

    def feed(self, piece: str) -> Text:
        """Take in a piece and return what can be shown of it now."""
        self._shown = Text()
        piece = self._half + piece
        half = _HALF_AN_ESCAPE.search(piece)
        self._half = half[0] if half else ""
        for part in _PARTS.findall(make_visible(piece.removesuffix(self._half), lines=True)):
            self._take_part(part)
        return self._shown

    def end(self) -> Text:
        """Return what was held back and the end of the line, nothing for a text without words; then begin anew."""
        self._shown = Text()
        self._word += self._half
        self._flush_word()
        shown = self._shown.append("\n") if self._begun else self._shown
        self._reset()
        return shown

    def _take_part(self, part: str) -> None:
        if part == "\n":
            self._flush_word()
            self._gap = ""
            self._breaks += 1
        elif part[0] in " \t":
            self._flush_word()
            for space in part:
                at = (0 if self._breaks else self._column) + len(self._gap)
                self._gap += " " * (_TAB - at % _TAB if space == "\t" else 1)
        else:
            self._word += part
            if count_columns(self._word) > self._room:
                *full, self._word = self._break_word()
                self._put_lines(full)
                self._breaks = 1

    def _flush_word(self) -> None:
        if self._word:
            self._put_lines(self._break_word())
            self._word = ""

    def _break_word(self) -> list[str]:
        """Return the word in the lines it takes: what goes on this one first, and its gap with it."""
        if self._begun and not self._breaks:
            if self._column + len(self._gap) + count_columns(self._word) <= self._room:
                return [self._gap + self._word]
            self._breaks, self._gap = 1, ""
        return chop_text(self._gap + self._word, self._room)

    def _put_lines(self, lines: list[str]) -> None:
        """Show lines; the first goes on where the text stands, or after the breaks that are due."""
        for line in lines:
            if self._breaks and self._begun:
                self._shown.append("\n")
                self._shown.append(f"{BAR}\n" * (self._breaks - 1), style="dim")
            if self._breaks or not self._begun:
                self._shown.append(f"{BAR} ", style="dim")
                self._column = 0
            self._shown.append(line)
            self._begun, self._column, self._breaks, self._gap = True, self._column + count_columns(line), 1, ""
        self._breaks = 0


def format_barred(content: str, width: int) -> Text:
    """Return a whole text behind bars, in `width` columns, without the end of its last line."""
    flow = BarredText(width)
    text = flow.feed(content)
    text.append_text(flow.end())
    text.right_crop(1)
    return text
