"""Text on one line of a terminal, visible and cut to its width."""

from __future__ import annotations

from foregate.cli.terminal.columns import chop_text, count_columns
from foregate.schemas.visible import is_hidden as is_hidden
from foregate.schemas.visible import make_visible as make_visible

_ARROW = "\u2192   "


def expand_tabs(text: str) -> str:
    """Return `text` visible, with an arrow and three spaces for each tab; an arrow of the text itself is escaped."""
    arrow = f"\\u{{{ord(_ARROW[0]):X}}}"
    return _ARROW.join(make_visible(part).replace(_ARROW[0], arrow) for part in text.split("\t"))


def shorten_text(text: str, width: int) -> str:
    """Return `text` on one line, visible, cut to `width` columns with an ellipsis where it was cut; 0 cuts nothing."""
    line = text.replace("\n", " ").strip()
    if not width:
        return make_visible(line)
    line = make_visible(line[: width + 1])
    if count_columns(line) <= width:
        return line
    begin = chop_text(line, width - 1)[0]
    return (begin if count_columns(begin) < width else "") + "…"
