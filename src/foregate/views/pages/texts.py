"""Text of models, tools, files and people on a page: visible, cut to what a browser bears, and never markup."""

from __future__ import annotations

from markupsafe import Markup
from msgspec import Struct

from foregate.schemas.visible import make_visible

SHORT = 400
"""Characters of a text that stands within a line."""
SHOWN, SHOWN_LINES = 600, 12
"""Characters and lines of a longer text that are shown unfolded."""
MOST = 20_000
"""Characters of one text a page holds; the log has all of it."""


class TextPassage(str):
    """A text that `fold_text` has cut: a page shows all of it."""


class VisibleText(str):
    """Rows of the terminal's own: each hidden character is an escape already, and is not escaped again."""


class Quote(Struct, frozen=True):
    """A text of somebody else's in the parts a page has: what stands there at once, what unfolds, and how many
    characters neither shows. `size` counts all, `at` names its place in the log as `SEQ/field/field`, "" where it is
    put together of several.
    """

    begin: str
    rest: str = ""
    left_out: int = 0
    size: int = 0
    lines: int = 0
    at: str = ""

    @property
    def folded(self) -> int:
        """How many characters are not shown at once."""
        return self.size - len(self.begin)


NOTHING = Quote("")


def fold_text(text: str, at: str = "", *, shown: int = SHOWN, lines: int = SHOWN_LINES, most: int = MOST) -> Quote:
    """Return a text cut for a page: `shown` characters or `lines` lines at once, `most` in all."""
    begin = text[:shown]
    if begin.count("\n") >= lines:
        begin = "\n".join(begin.split("\n", lines)[:lines]) + "\n"
    elif len(text) > shown and (end := begin.rfind("\n")) > shown // 2:
        begin = begin[: end + 1]
    rest = text[len(begin) : most]
    left_out, count = max(0, len(text) - most), text.count("\n") + 1
    return Quote(begin, rest, left_out, len(text), count, at)


def cut_text(text: str, most: int = SHORT) -> str:
    """Return a text that stands within a line, with a count of what is left out of it."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} characters more)"


def show_value(value: object) -> object:
    """Return what a template prints of a value: the one way every text of a page goes.

    A text is cut and made visible, and is escaped after that; only what a macro of ours has built is markup.
    """
    if isinstance(value, (Markup, VisibleText)) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, TextPassage):
        return make_visible(value, lines=True)
    if isinstance(value, str):
        return make_visible(cut_text(value), lines=True)
    raise TypeError(f"a page prints texts and whole numbers, and this is a {type(value).__name__}")
