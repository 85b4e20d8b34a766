"""Text that arrives in pieces and is read from the front: what was read is let go, what was not is copied rarely."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import Literal, TypeVar

from msgspec import Struct

from foregate.schemas.model_response import BlockKind

T = TypeVar("T")
Waits = Generator[None, None, T]
"""What reads: it stops wherever it needs more text than has arrived, and returns a T in the end."""
_SHORT = 256
"""Characters that may be looked at again for each piece; of more than these, only when they have grown by half."""


class Window:
    """What is left to read begins at `at`.

    Once `wait_for_more` is asked, distances from `at` still hold, places do not.
    """

    def __init__(self) -> None:
        self.text, self.at, self.ended = "", 0, False
        self.record: list[str] | None = None
        self.opens_line = True
        """Whether nothing but blanks was read since the last line break."""
        self._last = ""
        self._before = 0
        self._waiting: list[str] = []
        self._size = 0

    @property
    def position(self) -> int:
        """How many characters were read."""
        return self._before + self.at

    @property
    def is_at_line_start(self) -> bool:
        """Whether the next character is the first one of a line."""
        return self._last in ("", "\n")

    @property
    def remaining(self) -> str:
        """What arrived and is not read yet."""
        return self.text[self.at :]

    def push(self, piece: str) -> None:
        """Take in what arrives."""
        if piece:
            self._waiting.append(piece)
            self._size += len(piece)

    def wait_for_more(self) -> Waits[bool]:
        """Wait until there is more text than there was; False where there is none to come."""
        while True:
            kept = len(self.text) - self.at
            if self._waiting and (self.ended or kept < _SHORT or self._size * 2 >= kept):
                self._before += self.at
                self.text = "".join((self.remaining, *self._waiting))
                self.at = self._size = 0
                self._waiting.clear()
                return True
            if self.ended:
                return False
            yield

    def take(self, end: int) -> str:
        """Read up to a position in `text`; what is read is also written down while there is a `record`."""
        piece = self.text[self.at : end]
        if piece:
            self.at, self._last = end, piece[-1]
            line = piece.rfind("\n")
            blank = not piece[line + 1 :].strip()
            self.opens_line = blank if line >= 0 else blank and self.opens_line
            if self.record is not None:
                self.record.append(piece)
        return piece

    def skip(self, size: int) -> str:
        """Read so many characters."""
        return self.take(self.at + size)

    def read_rest(self) -> Waits[str]:
        """Read everything to the end."""
        pieces = [self.take(len(self.text))]
        while (yield from self.wait_for_more()):
            pieces.append(self.take(len(self.text)))
        return "".join(pieces)


THOUGHTS = ("think", "thinking", "thought")
BLOCKS: Mapping[str, BlockKind] = {"parallel": "parallel", "sequential": "sequential"}
RESULT, GENERIC = "result", "call_tool"
RESERVED = frozenset((*THOUGHTS, *BLOCKS, RESULT, GENERIC))
"""Names with a meaning of their own; a tool of such a name is called by `call_tool`."""
_MARKUP = """
    a abbr article aside b blockquote body br button code dd del details div dl dt em footer form h1 h2 h3 h4 h5 h6
    head header hr html i img input ins kbd label li link main mark meta nav ol option p pre q s samp script section
    select small span strong style sub summary sup svg table tbody td textarea th thead title tr u ul var video
    caption center cite figcaption figure font iframe picture source tfoot
"""
MARKUP = frozenset(_MARKUP.split())
"""Tags of HTML that stand in words; they call nothing unless a tool or a service has the name."""


CDATA, CDATA_END = "<![CDATA[", "]]>"
COMMENT, COMMENT_END = "<!--", "-->"
_NAME = r"[A-Za-z_][A-Za-z0-9_.:-]*+"
_VALUE = r"""(?:"[^"]*+"|'[^']*+')"""
_TAG = re.compile(rf"<(/?+)({_NAME})((?:\s++{_NAME}\s*+=\s*+{_VALUE})*+)\s*+(/?+)>")
_BEGUN = re.compile(
    rf"</?+(?:{_NAME}(?:\s++{_NAME}\s*+=\s*+{_VALUE})*+"
    rf"""(?:\s++(?:{_NAME}(?:\s*+(?:=\s*+(?:"[^"]*+|'[^']*+)?+)?+)?+)?+)?+\s*+/?+)?+\Z"""
)
_OPENED = re.compile(rf"<({_NAME})")
_ATTRIBUTE = re.compile(rf"({_NAME})\s*+=\s*+({_VALUE})")
_BLANKS = re.compile(r"\s*+")
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_NAMED = re.compile(rf"{_NAME}\Z")


class Tag(Struct, frozen=True):
    """A tag: `whole` is `<a/>`. Attributes are decoded and in written order, `text` is the tag as written."""

    kind: Literal["open", "close", "whole"]
    name: str
    attributes: tuple[tuple[str, str], ...]
    text: str


def decode_entities(text: str) -> str:
    """Return the text with the five entities of XML as the characters they name; every other `&` stays."""
    return _ENTITY.sub(lambda match: _CHARACTERS[match[1]], text) if "&" in text else text


def encode_entities(text: str) -> str:
    """Return the text with the four characters as entities that would be read as something else."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def is_name(text: str) -> bool:
    """Whether a text can be the name of a tag."""
    return _NAMED.match(text) is not None


class Scanner:
    """Reads tags and what they hold from a window.

    The methods that peek, and those that ask what is next, read nothing.
    """

    def __init__(self, window: Window) -> None:
        self.window = window

    def peek_tag(self, skip: int = 0) -> Waits[Tag | None]:
        """Return the tag that begins `skip` characters ahead, None where none does."""
        window = self.window
        while True:
            start = window.at + skip
            if match := _TAG.match(window.text, start):
                return _build_tag(match)
            undecided = start >= len(window.text) or _BEGUN.match(window.text, start)
            if not undecided or not (yield from window.wait_for_more()):
                return None

    def find_cut_tag(self) -> str:
        """Return the name of the opening tag that begins here and that the text, being at its end, cuts; else ""."""
        window = self.window
        name = _OPENED.match(window.text, window.at)
        return name[1] if name and window.ended and _BEGUN.match(window.text, window.at) else ""

    def is_next(self, literal: str, skip: int = 0) -> Waits[bool]:
        """Whether the text goes on with `literal`."""
        window = self.window
        while True:
            start = window.at + skip
            if window.text.startswith(literal, start):
                return True
            if not literal.startswith(window.text[start : start + len(literal)]) or not (
                yield from window.wait_for_more()
            ):
                return False

    def peek_past_blanks(self, skip: int = 0) -> Waits[int]:
        """Return how far ahead the next character is that is no blank, or the end."""
        window = self.window
        while True:
            match = _BLANKS.match(window.text, window.at + skip)
            assert match is not None
            if match.end() < len(window.text) or not (yield from window.wait_for_more()):
                return match.end() - window.at

    def peek_character(self, skip: int = 0) -> Waits[str]:
        """Return the character `skip` ahead, "" at the end."""
        window = self.window
        while len(window.text) <= window.at + skip:
            if not (yield from window.wait_for_more()):
                return ""
        return window.text[window.at + skip]

    def read_until(self, literal: str) -> Waits[tuple[str, bool]]:
        """Read up to a literal and past it; return what was before it, and whether it came at all."""
        window, pieces = self.window, []
        while (place := window.text.find(literal, window.at)) < 0:
            pieces.append(window.take(max(window.at, len(window.text) - len(literal) + 1)))
            if not (yield from window.wait_for_more()):
                pieces.append(window.take(len(window.text)))
                return "".join(pieces), False
        pieces.append(window.take(place))
        window.take(place + len(literal))
        return "".join(pieces), True

    def read_inside(self, name: str, parent: str = "") -> Waits[tuple[str, bool]]:
        """Read what a tag holds, and its closing tag; return it, and whether the closing tag came at all.

        Tags of the same name in between are counted, so what they hold belongs to the content. With a `parent` the
        closing tag must be followed by another tag or the parent's closing tag; one that is not is content as well.
        """
        window, marks, pieces = self.window, _compile_tag_pattern(name), []
        depth = ahead = 0
        while True:
            mark = marks.search(window.text, window.at + ahead)
            if mark is None:
                pieces.append(window.take(_find_safe_end(window, ahead)))
                ahead = 0
                if not (yield from window.wait_for_more()):
                    pieces.append(window.take(len(window.text)))
                    return "".join(pieces), False
                continue
            start, ahead = mark.start() - window.at, mark.end() - window.at
            if not mark[1]:
                depth += not mark[0].endswith("/>")
            elif depth:
                depth -= 1
            elif not parent or (yield from self._is_followed(ahead, parent)):
                pieces.append(window.skip(start))
                window.skip(ahead - start)
                return "".join(pieces), True

    def _is_followed(self, skip: int, parent: str) -> Waits[bool]:
        """Whether, after blanks, a tag is opened, the parent is closed, or the text is at its end."""
        skip = yield from self.peek_past_blanks(skip)
        if (yield from self.peek_character(skip)) != "<":
            return (yield from self.peek_character(skip)) == ""
        follower = yield from self.peek_character(skip + 1)
        if follower != "/":
            return follower == "" or follower == "_" or (follower.isascii() and follower.isalpha())
        if not (yield from self.is_next(f"</{parent}", skip)):
            return False
        skip = yield from self.peek_past_blanks(skip + len(parent) + 2)
        return (yield from self.peek_character(skip)) in (">", "")

    def is_cdata_next(self) -> Waits[bool]:
        """Whether the text goes on, after blanks, with a CDATA section."""
        skip = yield from self.peek_past_blanks()
        return (yield from self.is_next(CDATA, skip))

    def read_sections(self) -> Waits[tuple[str, bool]]:
        """Read CDATA sections and the blanks around them; return their text as one, and whether the last was closed."""
        pieces, closed = [], True
        while closed and (yield from self.is_cdata_next()):
            self.window.skip((yield from self.peek_past_blanks()) + len(CDATA))
            piece, closed = yield from self.read_until(CDATA_END)
            pieces.append(piece)
        self.window.skip((yield from self.peek_past_blanks()))
        return "".join(pieces), closed


def _build_tag(match: re.Match[str]) -> Tag:
    closing, name, attributes, whole = match.groups()
    kind: Literal["open", "close", "whole"] = "close" if closing else "whole" if whole else "open"
    found = tuple((one[1], decode_entities(one[2][1:-1])) for one in _ATTRIBUTE.finditer(attributes))
    return Tag(kind, name, found, match[0])


@lru_cache(maxsize=256)
def _compile_tag_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of the tags of one name, opening and closing."""
    return re.compile(rf"<(?:(/){re.escape(name)}\s*+>|{re.escape(name)}(?:\s[^<>]*+)?+>)")


def _find_safe_end(window: Window, ahead: int) -> int:
    """Return up to where nothing becomes a tag when more text comes; what is `ahead` was looked at."""
    begun = window.text.rfind("<", window.at + ahead)
    return len(window.text) if begun < 0 or window.text.find(">", begun) >= 0 else begun
