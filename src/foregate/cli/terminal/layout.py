"""Rows of a label and a text that stays behind its label when it wraps, so that no text can pose as a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from foregate.cli.terminal.columns import chop_text, count_columns
from foregate.schemas.visible import make_visible as make_visible

LABEL = 9
_HANGING = 10
"""Columns further lines of a sentence are indented by, so that none begins where a row or a sentence does."""


def format_labelled(
    label: str, value: str, width: int, style: str = "", *, label_style: str = "dim", room: int = LABEL
) -> Iterator[Text]:
    """Yield `  label     value` in `width` columns, made visible; further lines are indented past the label.

    A label longer than its room that leaves too little of the first line stands on a line of its own.
    """
    pieces = fold_text(make_visible(value), max(8, width - room - 3))
    if len(label) > room and len(label) + 3 + count_columns(pieces[0]) > width:
        yield Text(f"  {label}", style=label_style)
        label = ""
    for number, piece in enumerate(pieces):
        text = Text("  ")
        text.append(f"{label if number == 0 else '':<{room}} ", style=label_style)
        text.append(piece, style=style)
        yield text


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
    if line:
        yield Text(line, style)


def fold_text(content: str, room: int) -> list[str]:
    """Return `content` in pieces of at most `room` columns, broken at spaces where there are any."""
    pieces: list[str] = []
    for word in content.split(" "):
        if pieces and count_columns(pieces[-1]) + 1 + count_columns(word) <= room:
            pieces[-1] += f" {word}"
        else:
            pieces += chop_text(word, room)
    return pieces
