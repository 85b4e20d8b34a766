"""The Markdown a model writes, laid out for a terminal as it arrives, block by block; every line but code has a bar.

Lines of code have none, so that they can be copied: they stand between two fences that have one. A line of code that
begins as one of ours does is given a bar all the same, also where the terminal would break it. What cannot be laid out
without losing a letter is shown as it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text

from foregate.schemas.late_pattern import compile_late
from foregate.views.terminal.layout import BAR, NAME, chop_text, count_columns, fold_text, is_hidden, make_visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console

_LONGEST = 20_000
"""Characters of a block that are laid out; a longer one is shown as it was written."""
_KEPT = "\u00a0"
"""Stands for a space at the beginning of a line while that is laid out; in the text itself it is always escaped."""
# "```python", "  ~~~".
_FENCE = compile_late(r"([ ]*)(`{3,}|~{3,})[ ]*([^`]*)\Z")
# "- one", "2. two".
_ITEM = compile_late(r"[ ]*(?:[-*+]|\d{1,9}[.)])(?:[ ]|\Z)")
# "## Prices".
_HEADING = compile_late(r"[ ]{0,3}#{1,6}(?:[ ]|\Z)")
# "approve?", "you>", "| a row of Foregate's": text of a model must not pass for Foregate's own.
_POSES = compile_late(
    r"\||\[?foregate\b|you(?: \([^)]*\))?>|(?:approve|undo this|run this plan|offer them|go on)\?|say:"
    r"|  (?:[a-z0-9]+(?: [a-z]+)? {2,}\S"
    r"|(?:context|settled|not run|unknown|because|covered|changes|target|completed|cancelled|budget exhausted) \S)",
    re.IGNORECASE,
)
"""How lines of Foregate begin: with a bar, its name, a prompt, or the word of a row."""
_STYLES = {
    "markdown.code": f"bold {NAME}",
    "markdown.code_block": "none",
    "markdown.block_quote": "italic",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "bold",
    "markdown.h5": "bold",
    "markdown.h6": "bold",
    "markdown.hr": "dim",
    "markdown.item.bullet": "dim",
    "markdown.item.number": "dim",
    "markdown.link": NAME,
    "markdown.link_url": NAME,
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}


class MarkdownText:
    """Lays text out as it arrives; a block is held back until it is whole, a line of code until its end."""

    def __init__(self, width: int) -> None:
        self.set_width(width)
        self._reset()

    def set_width(self, width: int) -> None:
        """Lay what follows out in `width` columns, as a terminal may be made narrower at any time."""
        self._width = max(8, width)

    def _reset(self) -> None:
        self._rest, self._fence, self._indent = "", "", 0
        self._block: list[str] = []
        self._blank = self._begun = False

    def feed(self, piece: str) -> Text:
        """Take in a piece and return what can be shown of it now."""
        self._shown = Text()
        *lines, self._rest = (self._rest + piece).split("\n")
        for line in lines:
            self._take_line(line.removesuffix("\r"))
        return self._shown

    def end(self) -> Text:
        """Return what was held back, nothing for a text without words; then begin anew."""
        self._shown = Text()
        if self._rest:
            self._take_line(self._rest)
        self._flush_block()
        if self._fence:
            self._put(Text(f"{BAR} {self._fence}", style="dim"))
        shown = self._shown
        self._reset()
        return shown

    def _take_line(self, written: str) -> None:
        line = make_visible(written, lines=True).expandtabs(4).rstrip(" ")
        fence = _FENCE.match(line)
        if self._fence:
            if fence and not fence[3] and fence[2].startswith(self._fence):
                self._put(Text(f"{BAR} {self._fence}", style="dim"))
                self._fence = ""
            else:
                self._put_code(line)
        elif fence:
            self._flush_block()
            self._put_blank()
            self._fence, self._indent = fence[2], len(fence[1])
            for part in chop_text(line.strip(" "), self._width - 2):
                self._put(Text(f"{BAR} {part}", style="dim"))
        elif not line:
            self._blank = True
        else:
            self._take_words(line)

    def _take_words(self, line: str) -> None:
        """Add a line to the block it belongs to; a heading, and an item of a list, is a block of its own."""
        is_item = _ITEM.match(line) is not None
        goes_on = bool(self._block) and _ITEM.match(self._block[0]) is not None and line.startswith("  ")
        is_heading = _HEADING.match(line) is not None
        if is_heading or (self._blank and not goes_on) or (is_item and not line.startswith(" ")):
            self._flush_block()
        if self._blank and self._block:
            self._block.append("")
        else:
            self._put_blank()
        self._blank = False
        self._block.append(line)
        if is_heading:
            self._flush_block()

    def _put_blank(self) -> None:
        if self._blank and self._begun:
            self._put(Text(BAR, style="dim"))
        self._blank = False

    def _flush_block(self) -> None:
        if self._block:
            text, self._block = "\n".join(self._block), []
            for line in lay_out(text, self._width - 2):
                self._put(Text().append(f"{BAR} ", "dim").append_text(line) if line.plain else Text(BAR, style="dim"))

    def _put_code(self, line: str) -> None:
        indent = min(self._indent, len(line) - len(line.lstrip(" ")))
        code = line[indent:]
        if any(_POSES.match(part) for part in chop_text(code, self._width)):
            for part in chop_text(code, self._width - 2):
                self._put(Text().append(f"{BAR} ", "dim").append(part))
        else:
            self._put(Text(code))

    def _put(self, line: Text) -> None:
        self._shown.append_text(line).append("\n")
        self._begun = True


def lay_out(text: str, width: int) -> list[Text]:
    """Return a block of Markdown, which holds nothing hidden, in lines of at most `width` columns."""
    try:
        lines = _render(text, width) if len(text) <= _LONGEST else []
    except Exception:
        # Whatever a text makes a library do, it is shown.
        lines = []
    shown = "".join(line.plain for line in lines)
    if any(map(is_hidden, shown)) or _count_letters(shown) != _count_letters(text):
        return [Text(piece.rstrip(" ")) for line in text.split("\n") for piece in fold_text(line, width)]
    return lines


def _count_letters(text: str) -> Counter[str]:
    return Counter(character for character in text if character.isalpha())


def _render(text: str, width: int) -> list[Text]:
    from rich.markdown import Heading, Markdown

    class LeftHeading(Heading):
        LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")

    class Plain(Markdown):
        """Our own parser in the place of rich's, and nothing that a terminal would obey."""

        elements: ClassVar = {**Markdown.elements, "heading_open": LeftHeading}

        def __init__(self) -> None:
            super().__init__("", hyperlinks=False)
            self.parsed = _parse(text)

    console = _build_console()
    found = []
    for segments in console.render_lines(Plain(), console.options.update(width=width), pad=False):
        line = Text()
        for segment in segments:
            line.append(segment.text.replace(_KEPT, " "), segment.style)
        line.rstrip()
        begin = 0
        for part in chop_text(line.plain, width) if count_columns(line.plain) > width else (line.plain,):
            found.append(line[begin : begin + len(part)] if part else Text())
            begin += len(part)
    while found and not found[0].plain:
        del found[0]
    while found and not found[-1].plain:
        found.pop()
    return found


def _parse(text: str) -> list[Token]:
    """Return the tokens of a text: lines end where they end, and underscores are no emphasis, for names have them."""
    lines = text.split("\n")
    if not _ITEM.match(lines[0]) and not lines[0].startswith("    "):
        lines[1:] = [
            line if _ITEM.match(line) else _KEPT * (len(line) - len(line.lstrip(" "))) + line.lstrip(" ")
            for line in lines[1:]
        ]
    tokens = _build_parser().parse("\n".join(lines))
    for child in (child for token in tokens for child in token.children or ()):
        if child.type == "softbreak":
            child.type = "hardbreak"
        elif child.markup.startswith("_") and child.type.startswith(("em_", "strong_")):
            child.type, child.nesting, child.content, child.tag = "text", 0, child.markup, ""
    return tokens


@cache
def _build_parser() -> MarkdownIt:
    """Return the parser; off is what would hide a part of the text or bring in a character that is not in it."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable(["entity", "reference", "lheading", "image", "html_block", "html_inline"])


@cache
def _build_console() -> Console:
    from rich.console import Console
    from rich.theme import Theme

    return Console(file=StringIO(), theme=Theme(_STYLES), highlight=False, emoji=False, markup=False, width=80)
