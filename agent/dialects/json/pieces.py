"""A text in pieces, as it arrives: words, thoughts, and what may be JSON with calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from foregate.agent.dialects.json.brackets import Brackets
from foregate.agent.dialects.text import notes
from foregate.agent.dialects.text.inline_code import InlineCode
from foregate.agent.dialects.text.tag_scanner import CDATA, CDATA_END, COMMENT, COMMENT_END, Scanner, Tag
from foregate.agent.dialects.text.vocabulary import RESULT, THOUGHTS
from foregate.agent.dialects.text.window import Waits, Window

FENCE = "```"
_INERT = ((COMMENT, COMMENT_END), (CDATA, CDATA_END))
_MARKS = (COMMENT, CDATA, f"<{RESULT}", *(f"{begin}{name}" for begin in ("<", "</") for name in THOUGHTS))
_MARK = "|".join(map(re.escape, _MARKS))
_BEGUN = "|".join(sorted({re.escape(mark[:size]) for mark in _MARKS for size in range(1, len(mark))}))
_SPECIAL = re.compile(
    rf"""(?P<json>\{{\s*+"|\[\s*+\{{)|(?P<mark>{_MARK})|(?P<line>\n(?=[ ]{{0,3}}(?:`|\Z)))|"""
    rf"""(?P<code>`|~{{3}})|(?:[{{\[]\s*+|{_BEGUN}|~{{1,2}})\Z""",
    re.IGNORECASE,
)
"""What is to be looked at: a mark that begins a piece, a line that may be a fence, at the end what may become one."""
_FENCE = re.compile(r"[ ]{0,3}```")
_MAYBE_FENCE = re.compile(r"[ ]{0,3}`{0,2}\Z")
_FENCE_END = re.compile(r"^[ ]{0,3}```[ \t]*$", re.MULTILINE)
_RUN = r"(`{3,}+|~{3,}+)[ \t]*+"
_CODE = re.compile(rf"{_RUN}([A-Za-z0-9_+#.-]{{1,40}}+)[ \t]*+\r?\n")
_MAYBE_CODE = re.compile(rf"{_RUN}[A-Za-z0-9_+#.-]{{0,40}}+[ \t]*+\r?\Z")
_LANGUAGES = ("", "json", "tool_call", "tool_calls")
_IN_LINE = re.compile(r"(`{3,})(?:json|tool_calls?)[ \t]+([{\[].*[}\]])[ \t]*\1", re.IGNORECASE)
"""A fence within one line, which by the book is inline code: its language says that it is meant as a call."""


class Piece(Struct, frozen=True):
    """A piece of a text, `whole` as written: `json` is what may hold calls, and `inner` it, or a thought, unmarked.

    An `end` is that of a thought which did not begin here, `cut` the result a model made up and all that follows.
    """

    kind: Literal["words", "thought", "end", "json", "cut"]
    whole: str
    inner: str = ""


class Pieces:
    """Hands on a text in pieces, in order and without gaps: words as they come, the others when they are whole."""

    def __init__(self, window: Window, take: Callable[[Piece], None]) -> None:
        self._window, self._take = window, take
        self._scanner = Scanner(window)
        self._inline = InlineCode(window)
        self._ticks = (-1, "")
        """Backticks that opened no code within their line, and where they ended."""
        self.notes: list[str] = []

    def read(self) -> Waits[None]:
        """Read the text to its end."""
        window = self._window
        while True:
            if window.at_line and (yield from self._at_fence()):
                if not (yield from self._in_line()):
                    yield from self._fence()
                continue
            special = _SPECIAL.search(window.text, window.at)
            self._words(window.take(special.start() if special else len(window.text)))
            match special and special.lastgroup:
                case "json":
                    yield from self._json()
                case "mark":
                    yield from self._mark()
                case "code":
                    yield from self._code()
                case "line":
                    self._words(window.skip(1))
                case _:
                    if not (yield from window.more()):
                        self._words(window.take(len(window.text)))
                        return

    def _words(self, text: str) -> None:
        if text:
            self._take(Piece("words", text))

    def _at_fence(self) -> Waits[bool]:
        """Whether a fence opens in the line that begins here."""
        window = self._window
        while not _FENCE.match(window.text, window.at):
            if not _MAYBE_FENCE.match(window.text, window.at) or not (yield from window.more()):
                return False
        return True

    def _fence(self) -> Waits[None]:
        """Read a fence to its closing line; what stands in one of another language is words."""
        opening, opened = yield from self._scanner.until("\n")
        if not opened:
            self._words(opening)
            return
        opening += "\n"
        if opening.partition(FENCE)[2].strip().lower() in _LANGUAGES:
            lines: list[str] = []
            closing = yield from self._to_closing(lines.append)
            inner = "".join(lines)
            self._take(Piece("json", opening + inner + closing, inner))
        else:
            self._words(opening)
            self._words((yield from self._to_closing(self._words)))

    def _code(self) -> Waits[None]:
        """Read inline code, or a fence of another language that opens behind words, in a quotation or a list."""
        window = self._window
        if window.text[window.at] == "`":
            if (yield from self._in_line()):
                return
            run = self._inline.run
            self._ticks = window.position + len(run), run
            if len(run) < len(FENCE):
                self._words(window.skip(len(run)))
                return
        while True:
            code = _CODE.match(window.text, window.at)
            if code or not _MAYBE_CODE.match(window.text, window.at) or not (yield from window.more()):
                break
        if code is None or code[2].lower() in _LANGUAGES:
            fence = re.compile(_RUN).match(window.text, window.at)
            assert fence is not None
            self._words(window.take(fence.end()))
            return
        self._words(window.take(code.end()))
        closing = re.compile(rf"^[ \t>]*+{code[1]}{code[1][0]}*+[ \t]*\r?$", re.MULTILINE)
        self._words((yield from self._to_closing(self._words, closing)))

    def _in_line(self) -> Waits[bool]:
        """Read code that begins here and ends in the same line, and return whether there is any."""
        if self._window.text[self._window.at] != "`" or not (length := (yield from self._inline.see())):
            return False
        code = self._window.skip(length)
        fenced = _IN_LINE.fullmatch(code)
        self._take(Piece("json", code, fenced[2]) if fenced else Piece("words", code))
        return True

    def _to_closing(self, keep: Callable[[str], None], closing: re.Pattern[str] = _FENCE_END) -> Waits[str]:
        """Read the lines of a fence, and return the one that closes it, "" where none does."""
        window = self._window
        while True:
            end = closing.search(window.text, window.at)
            keep(window.take(end.start() if end else max(window.at, window.text.rfind("\n", window.at) + 1)))
            if (end and end.end() < len(window.text)) or not (yield from window.more()):
                break
        if end is None:
            keep(window.take(len(window.text)))
        return window.take(end.end()) if end else ""

    def _json(self) -> Waits[None]:
        """Read an object or a list to its last bracket; one that has none, to the end of the text.

        Between backticks it is an example, also over several lines.
        """
        window, brackets, pieces = self._window, Brackets(), []
        ticks = self._ticks[1] if self._ticks[0] == window.position else ""
        while True:
            end, closed = brackets.past(window.text, window.at)
            pieces.append(window.take(end))
            if closed or not (yield from window.more()):
                break
        if not closed:
            pieces.append(window.take(len(window.text)))
        whole = "".join(pieces)
        if ticks and closed and (yield from self._scanner.see(ticks)):
            self._words(whole + window.skip(len(ticks)))
        else:
            self._take(Piece("json", whole, whole))

    def _mark(self) -> Waits[None]:
        """Read a comment, CDATA, a thought, the end of one or a result; what only begins like one is words."""
        for begin, end in _INERT:
            if (yield from self._scanner.see(begin)):
                text, closed = yield from self._scanner.until(end)
                self._words(text + end * closed)
                if not closed:
                    self.notes.append(notes.never_came(end))
                return
        tag = yield from self._scanner.see_tag()
        name = tag.name.lower() if tag is not None else ""
        if tag is not None and tag.kind == "open" and name in THOUGHTS:
            yield from self._thought(tag)
        elif tag is not None and tag.kind == "close" and name in THOUGHTS:
            self._take(Piece("end", self._window.skip(len(tag.text))))
        elif tag is not None and name == RESULT:
            self._window.skip(len(tag.text))
            rest = yield from self._window.rest()
            self.notes += notes.cut(f"`<{tag.name}>`", rest, notes.NO_RESULTS)
            self._take(Piece("cut", tag.text + rest))
        else:
            self._words(self._window.skip(1))

    def _thought(self, tag: Tag) -> Waits[None]:
        """Read a thought to its end; thoughts in it belong to it."""
        self._window.record = []
        self._window.skip(len(tag.text))
        inner, closed = yield from self._scanner.inside(tag.name)
        whole, self._window.record = "".join(self._window.record), None
        if not closed:
            self.notes.append(notes.open_thought(tag.name))
        self._take(Piece("thought", whole, inner))
