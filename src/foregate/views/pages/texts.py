"""Texts on a page, those of others made visible, cut and never markup; Foregate's own words, and where parts lead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal, Protocol
from urllib.parse import quote

from markupsafe import Markup
from msgspec import Struct

from foregate.schemas.codes import MEANINGS
from foregate.schemas.judgement import Standing
from foregate.schemas.visible import make_visible

Tone = Literal["allow", "ask", "hold", "deny", "quiet", "fail"]
"""How a mark looks; each has a shape and a word of its own beside its colour."""
SHORT = 400
"""Characters of a text that stands within a line."""
SHOWN, SHOWN_LINES = 600, 12
"""Characters and lines of a longer text that are shown unfolded."""
MOST = 20_000
"""Characters of one text a page holds; the log has all of it."""
STANDING: Mapping[Standing, tuple[Tone, str]] = {
    Standing.ALLOW: ("allow", "let pass"),
    Standing.ASK: ("ask", "asks"),
    Standing.HOLD: ("hold", "held"),
    Standing.DENY: ("deny", "denied"),
}
STATE: Mapping[str, Tone] = {
    "completed": "allow",
    "blocked": "hold",
    "budget_exhausted": "hold",
    "cancelled": "quiet",
    "failed": "fail",
    "needs_input": "ask",
    "awaiting_approval": "ask",
    "paused": "ask",
    "open": "quiet",
}
"""How the state of a task or a session looks, by its public name."""
WHO: Mapping[str, str] = {
    "user": "person",
    "parent": "parent task",
    "model": "model",
    "runner": "Foregate looked for the model",
    "postlude": "Foregate checked the answer",
    "sandbox": "what it did in its sandbox",
}
YES = ("yes", "grant", "project", "wider", "anyway", "step", "edit")


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


def describe_code(code: str) -> str:
    """Return what a code says of any call, "" for one this version does not know."""
    return MEANINGS.get(code, ("", ""))[0]


def describe_remedy(code: str) -> str:
    """Return what cures what a code stopped, "" where nothing is to be cured or this version does not know it."""
    return MEANINGS.get(code, ("", ""))[1]


def describe_state(state: str) -> str:
    """Return a public name as words."""
    return state.replace("_", " ")


def count_seconds(since: str, until: str) -> int:
    """Return the seconds between two recorded times, -1 where one of them is none."""
    try:
        took = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    except (ValueError, TypeError):
        return -1
    return max(0, round(took.total_seconds()))


def describe_duration(seconds: int) -> str:
    """Return seconds as people say them: `40 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def name_row(seq: int) -> str:
    """Return the anchor of the row an event begins."""
    return f"e{seq}"


def name_call(seq: int, place: int) -> str:
    """Return the anchor of a call: its response, and its place in it from 1."""
    return f"c{seq}.{place}"


def name_decision(seq: int, gate: str) -> str:
    """Return the anchor of a decision."""
    return f"d{seq}.{quote(gate[:40], safe='')}"


class Links(Protocol):
    """Builds the addresses templates use; every part that is not ours is percent-encoded."""

    def session(self, session: str, page: int = 0, anchor: str = "") -> str:
        """Return the address of a session, of one of its pages, or of a row of that."""

    def decision(self, session: str, seq: int, gate: str, call: str = "") -> str:
        """Return the address of a decision, "" where it has none."""

    def asset(self, name: str) -> str:
        """Return the address of a file of ours."""


class ConsoleLinks:
    """Addresses beneath the root of a console: `/sessions/NAME`, `/sessions/NAME/decisions/SEQ.GATE`, `/assets/X`."""

    def session(self, session: str, page: int = 0, anchor: str = "") -> str:
        """Return the address of a session."""
        where = f"/sessions/{quote(session, safe='')}{f'?page={page}' if page > 1 else ''}"
        return f"{where}#{anchor}" if anchor else where

    def decision(self, session: str, seq: int, gate: str, call: str = "") -> str:
        """Return the address of a decision, of the ruling on `call` where one is named."""
        where = f"/sessions/{quote(session, safe='')}/decisions/{seq}.{quote(gate[:40], safe='')}"
        return f"{where}?call={quote(call[:80], safe='')}" if call else where

    def asset(self, name: str) -> str:
        """Return the address of a file of ours."""
        return f"/assets/{name}"


class FileLinks:
    """Anchors within one file that holds all of a session, and explains the decisions named by number and gate."""

    def __init__(self, explained: Collection[tuple[int, str]] = ()) -> None:
        self._explained = explained

    def session(self, session: str, page: int = 0, anchor: str = "") -> str:
        """Return the anchor of a row."""
        return f"#{anchor or 'top'}"

    def decision(self, session: str, seq: int, gate: str, call: str = "") -> str:
        """Return the anchor of a decision, "" where it is not explained here."""
        return f"#{name_decision(seq, gate)}" if (seq, gate) in self._explained else ""

    def asset(self, name: str) -> str:
        """Return nothing: the file holds them itself."""
        return ""
