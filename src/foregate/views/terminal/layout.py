"""How text looks at a terminal: in few colours, made visible, as wide as it is at most, behind labels or bars.

The colours are of the fixed part of the palette, and legible on light and dark backgrounds alike: the sixteen named
ones are whatever a theme makes of them. None carries a meaning alone, for a row has a word, a sign or a label too:
NO_COLOR and dumb terminals lose none. Terminals disagree on widths, and none may break a line before we do. A text
stays behind its label or bar when it wraps: whatever a model, a tool or a file says can pose as no row of ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.console import Console, ConsoleDimensions
from rich.text import Text
from rich.theme import Theme

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.visible import is_hidden as is_hidden
from foregate.schemas.visible import make_visible as make_visible

GOOD = "color(28)"
"""What ran, was granted, brought back or would be added."""
CARE = "color(130)"
"""What is held, asks, was changed or left open."""
BAD = "color(160)"
"""What was denied, failed, is unknown or would be taken away."""
NAME = "color(31)"
"""A name a person can use: a command, a speaker, what a key would allow."""


class PlainConsole(Console):
    """A console that knows how wide a dumb terminal is: a line the terminal broke would begin without its bar."""

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        return ConsoleDimensions(*shutil.get_terminal_size()) if self.is_dumb_terminal else super().size


def build_console(*, stderr: bool = False) -> Console:
    """Return the console of a command: nothing printed on it is read as markup, an emoji or a number to colour."""
    theme = Theme({"progress.spinner": NAME, "progress.elapsed": "dim"})
    return PlainConsole(highlight=False, emoji=False, markup=False, stderr=stderr, theme=theme)


def pluralise(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


_PICTURES = 0x1F000
"""From here on are pictures, parts of flags and their modifiers, whose width depends on what they are joined to."""


def count_columns(text: str) -> int:
    """Return how many columns `text` takes at most. It must hold no control characters; see visible."""
    return len(text) if text.isascii() else sum(map(_measure_widest, text))


@lru_cache(maxsize=4096)
def _measure_widest(character: str) -> int:
    # What joins the character before it in one terminal has a column of its own in another.
    return 2 if ord(character) >= _PICTURES else max(1, get_character_cell_size(character))


def chop_text(text: str, room: int) -> list[str]:
    """Return `text` in pieces of at most `room` columns and at least one character; one empty piece for no text."""
    pieces, begin, taken = [], 0, 0
    for place, character in enumerate(text):
        wide = _measure_widest(character)
        if taken + wide > room and place > begin:
            pieces.append(text[begin:place])
            begin, taken = place, 0
        taken += wide
    return [*pieces, text[begin:]]


_ARROW = "\u2192   "


def expand_tabs(text: str) -> str:
    """Return `text` visible, with an arrow and three spaces for each tab; an arrow of the text itself is escaped."""
    arrow = f"\\u{{{ord(_ARROW[0]):X}}}"
    return _ARROW.join(make_visible(part).replace(_ARROW[0], arrow) for part in text.split("\t"))


def shorten_text(text: str, width: int) -> str:
    """Return `text` on one line, visible, cut to `width` columns with an ellipsis where it was cut; 0 cuts nothing."""
    line = text.replace("\n", " ").strip()
    line = make_visible(line[: width + 1] if width else line)
    if not width or count_columns(line) <= width:
        return line
    begin = chop_text(line, width - 1)[0]
    return (begin if count_columns(begin) < width else "") + "…"


BAR = "|"
"""Stands before every line that is not Foregate's own, and before no other."""
_TAB = 4
# "one", " " and "two" in "one two".
_PARTS = compile_late(r"\n|[ \t]+|[^ \t\n]+")
# "\" and "\u" at the end of a piece: the rest arrives with the next.
_HALF_AN_ESCAPE = compile_late(r"\\u?\Z")


class BarredText:
    """Lays text out in `width` columns as it arrives; a word is held back until what follows it is known. What does not
    fit goes on behind a further bar. Only empty lines around the text and spaces at the end of lines are left out."""

    def __init__(self, width: int) -> None:
        self.set_width(width)
        self._reset()

    def set_width(self, width: int) -> None:
        """Lay what follows out in `width` columns, as a terminal may be made narrower at any time."""
        self._room = max(2, width - len(BAR) - 1)

    def _reset(self) -> None:
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
                self._shown.append("\n").append(f"{BAR}\n" * (self._breaks - 1), style="dim")
            if self._breaks or not self._begun:
                self._shown.append(f"{BAR} ", style="dim")
                self._column = 0
            self._shown.append(line)
            self._begun, self._column, self._breaks, self._gap = True, self._column + count_columns(line), 1, ""
        self._breaks = 0


def format_barred(content: str, width: int) -> Text:
    """Return a whole text behind bars, in `width` columns, without the end of its last line."""
    flow = BarredText(width)
    text = flow.feed(content).append_text(flow.end())
    text.right_crop(1)
    return text


_HANGING = 10
"""Columns further lines of a sentence are indented by, so that none begins where a row or a sentence does."""


def format_labelled(
    label: str, value: str, width: int, style: str = "", *, label_style: str = "dim", room: int = 9
) -> Iterator[Text]:
    """Yield `  label     value` in `width` columns, made visible; further lines are indented past the label.

    A label longer than its room that leaves too little of the first line stands on a line of its own.
    """
    pieces = fold_text(make_visible(value), max(8, width - room - 3))
    if len(label) > room and len(label) + 3 + count_columns(pieces[0]) > width:
        yield Text(f"  {label}", style=label_style)
        label = ""
    for number, piece in enumerate(pieces):
        begin = f"{'' if number else label:<{room}} "
        yield Text("  ").append(begin, style=label_style).append(piece, style=style)


def format_pieces(content: str, width: int, begin: str, more: str, style: str) -> Iterator[Text]:
    """Yield a line that is not ours behind bars: `begin` stands before it, and `more` before what did not fit."""
    for number, piece in enumerate(chop_text(expand_tabs(content), max(8, width - 6))):
        yield Text("  | ", style="dim").append(f"{more if number else begin}{piece}", style=style)


def format_hanging(content: str, width: int, style: str = "") -> Iterator[Text]:
    """Yield a sentence of ours in `width` columns, made visible, its further lines indented."""
    first, *_ = fold_text(make_visible(content), width)
    yield Text(first, style)
    for piece in fold_text(make_visible(content)[len(first) :].lstrip(" "), max(8, width - _HANGING)):
        if piece:
            yield Text(" " * _HANGING + piece, style)


def pack_parts(parts: Iterable[str], width: int, style: str = "") -> Iterator[Text]:
    """Yield parts of ours that belong together, such as the keys of a question, as many to a line as fit."""
    line = ""
    for part in parts:
        if line and count_columns(line) + 3 + count_columns(part) > width:
            yield Text(line, style)
            line = ""
        line = f"{line}   {part}" if line else f"  {part}"
    yield Text(line, style)


def format_table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield rows of a label and of cells, the first row their names, in `width` columns: cells right-aligned.

    A label that leaves too little room for the cells stands on a line of its own, and so does one without cells.
    """
    widths = [max(map(count_columns, column)) for column in zip(*(row for row in rows if len(row) > 1), strict=True)]
    gap = 2 if sum(widths) + 2 * len(widths) - 2 <= width else 1
    room = max(0, min(widths[0], width - sum(widths[1:]) - gap * (len(widths) - 1)))
    for label, *cells in rows:
        if not cells or count_columns(label) > room:
            yield from fold_text(label, width)
            label = ""
        if not cells:
            continue
        line = [label + " " * (room - count_columns(label))]
        line += [" " * (wide - count_columns(cell)) + cell for wide, cell in zip(widths[1:], cells, strict=True)]
        yield (" " * gap).join(line).rstrip()


def fold_text(content: str, room: int, *, whole: bool = False) -> list[str]:
    """Return `content` in pieces of at most `room` columns, broken at spaces where there are any.

    With `whole` a word that is wider stays one piece, so that it can be copied.
    """
    pieces: list[str] = []
    for word in content.split(" "):
        if pieces and count_columns(pieces[-1]) + 1 + count_columns(word) <= room:
            pieces[-1] += f" {word}"
        else:
            pieces += [word] if whole else chop_text(word, room)
    return pieces
