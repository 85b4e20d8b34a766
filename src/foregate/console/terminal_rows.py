"""Rows of the terminal as parts of a page: the same words in the same places, and its few colours as names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO

from msgspec import Struct
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from foregate.cli.terminal.layout import BAD, CARE, GOOD, NAME
from foregate.pages.texts import VisibleText

WIDE, NARROW = 96, 40
"""Columns of rows for a screen, and for a telephone held upright."""
_COLOURS = {GOOD: "good", CARE: "care", BAD: "bad", NAME: "name"}


class Piece(Struct, frozen=True):
    """A part of a row, and what is special about it: names of classes, "" for nothing."""

    text: VisibleText
    kind: str = ""


def split_rows(rows: Iterable[Text]) -> Iterator[tuple[Piece, ...]]:
    """Yield rows of the terminal as their parts."""
    console = Console(file=StringIO(), width=WIDE, color_system="256", markup=False, emoji=False, highlight=False)
    for row in rows:
        yield tuple(Piece(VisibleText(part.text), _name_style(part)) for part in row.render(console) if part.text)


def _name_style(part: Segment) -> str:
    style = part.style
    if style is None:
        return ""
    colour = _COLOURS.get(style.color.name, "") if style.color is not None else ""
    return " ".join(filter(None, (colour, "strong" if style.bold else "", "faint" if style.dim else "")))
