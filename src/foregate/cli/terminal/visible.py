"""Text on one line of a terminal, visible and cut to its width."""

from __future__ import annotations

from foregate.cli.terminal.columns import chopped, columns
from foregate.schemas.visible import hidden as hidden
from foregate.schemas.visible import visible as visible

_TAB = "\u2192   "


def tabbed(text: str) -> str:
    """Return `text` visible, with an arrow and three spaces for each tab; an arrow of the text itself is escaped."""
    arrow = f"\\u{{{ord(_TAB[0]):X}}}"
    return _TAB.join(visible(part).replace(_TAB[0], arrow) for part in text.split("\t"))


def shortened(text: str, width: int) -> str:
    """Return `text` on one line, visible, cut to `width` columns with an ellipsis where it was cut; 0 cuts nothing."""
    line = text.replace("\n", " ").strip()
    if not width:
        return visible(line)
    line = visible(line[: width + 1])
    if columns(line) <= width:
        return line
    begin = chopped(line, width - 1)[0]
    return (begin if columns(begin) < width else "") + "…"
