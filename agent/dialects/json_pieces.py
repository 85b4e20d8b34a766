"""A text in pieces, as it arrives: words, thoughts, and what may be JSON with calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from foregate.agent.dialects.brackets import Brackets
from foregate.agent.dialects.tag_scanner import Scanner
from foregate.agent.dialects.vocabulary import THOUGHTS
from foregate.agent.dialects.window import Waits, Window

FENCE = "```"
_THOUGHT = rf"<(?i:{'|'.join(THOUGHTS)})>"
_BEGUN_THOUGHT = "|".join(sorted({name[:size] for name in THOUGHTS for size in range(len(name) + 1)}))
_SPECIAL = re.compile(
    rf"""(?P<json>\{{\s*+"|\[\s*+\{{)|(?P<thought>{_THOUGHT})|(?P<line>\n(?=[ ]{{0,3}}(?:`|\Z)))|"""
    rf"""(?P<code>`{{3}}|~{{3}})|(?:[{{\[]\s*+|<(?i:{_BEGUN_THOUGHT})|`{{1,2}}|~{{1,2}})\Z"""
)
"""What is to be looked at: a mark that begins a piece, a line that may be a fence, at the end what may become one."""
_FENCE = re.compile(r"[ ]{0,3}```")
_MAYBE_FENCE = re.compile(r"[ ]{0,3}`{0,2}\Z")
_FENCE_END = re.compile(r"^[ ]{0,3}```[ \t]*$", re.MULTILINE)
_RUN = r"(`{3,}+|~{3,}+)[ \t]*+"
_CODE = re.compile(rf"{_RUN}([A-Za-z0-9_+#.-]{{1,40}}+)[ \t]*+\r?\n")
_MAYBE_CODE = re.compile(rf"{_RUN}[A-Za-z0-9_+#.-]{{0,40}}+[ \t]*+\r?\Z")
_LANGUAGES = ("", "json", "tool_call", "tool_calls")


class Piece(Struct, frozen=True):
    """A piece of a text, `whole` as written: `json` is what may hold calls, and `inner` it, or a thought, unmarked."""

    kind: Literal["words", "thought", "json"]
    whole: str
    inner: str = ""


class Pieces:
    """Hands on a text in pieces, in order and without gaps: words as they come, the others when they are whole."""

    def __init__(self, window: Window, take: Callable[[Piece], None]) -> None:
        self._window, self._take = window, take
        self._scanner = Scanner(window)

    def read(self) -> Waits[None]:
        """Read the text to its end."""
        window = self._window
        while True:
            if window.at_line and (yield from self._at_fence()):
                yield from self._fence()
                continue
            special = _SPECIAL.search(window.text, window.at)
            self._words(window.take(special.start() if special else len(window.text)))
            match special and special.lastgroup:
                case "json":
                    yield from self._json()
                case "thought":
                    yield from self._thought()
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
        """Read a fence of another language that opens behind something: words, a quotation, an item of a list."""
        window = self._window
        while True:
            code = _CODE.match(window.text, window.at)
            if code or not _MAYBE_CODE.match(window.text, window.at) or not (yield from window.more()):
                break
        if code is None or code[2].lower() in _LANGUAGES:
            run = re.compile(_RUN).match(window.text, window.at)
            assert run is not None
            self._words(window.take(run.end()))
            return
        self._words(window.take(code.end()))
        closing = re.compile(rf"^[ \t>]*+{code[1]}{code[1][0]}*+[ \t]*\r?$", re.MULTILINE)
        self._words((yield from self._to_closing(self._words, closing)))

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
        """Read an object or a list to its last bracket; one that has none, to the end of the text."""
        window, brackets, pieces = self._window, Brackets(), []
        while True:
            end, closed = brackets.past(window.text, window.at)
            pieces.append(window.take(end))
            if closed or not (yield from window.more()):
                break
        if not closed:
            pieces.append(window.take(len(window.text)))
        whole = "".join(pieces)
        self._take(Piece("json", whole, whole))

    def _thought(self) -> Waits[None]:
        window = self._window
        opening = window.take(window.text.index(">", window.at) + 1)
        closing = f"</{opening[1:]}"
        inner, closed = yield from self._scanner.until(closing)
        self._take(Piece("thought", opening + inner + closing * closed, inner))
