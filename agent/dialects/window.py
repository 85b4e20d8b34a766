"""Text that arrives in pieces and is read from the front, with the tags in it; it is no XML.

What was read is let go, what was not is copied rarely. What a tag holds is raw, ends at the tag's own closing tag, and
is never expanded. Every reading is linear, however the text is split: a place that may become a tag waits until it has,
or cannot.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache
from typing import Literal, TypeVar

from msgspec import Struct

from foregate.schemas.late_pattern import compile_late

T = TypeVar("T")
Waits = Generator[None, None, T]
"""What reads: it stops wherever it needs more text than has arrived, and returns a T in the end."""
_SHORT = 256
"""Characters that may be looked at again for each piece; of more than these, only when they have grown by half."""
CDATA, CDATA_END = "<![CDATA[", "]]>"
COMMENT, COMMENT_END = "<!--", "-->"
_NAME = r"[A-Za-z_][A-Za-z0-9_.:-]*+"
_VALUE = r"""(?:"[^"]*+"|'[^']*+')"""
# '<read_file path="a.py">', "</read_file>".
_TAG = compile_late(rf"<(/?+)({_NAME})((?:\s++{_NAME}\s*+=\s*+{_VALUE})*+)\s*+(/?+)>")
# "<read_file pa", '<read_file path="a'.
_BEGUN = compile_late(
    rf"(?:</?+(?:{_NAME}(?:\s++{_NAME}\s*+=\s*+{_VALUE})*+"
    rf"""(?:\s++(?:{_NAME}(?:\s*+(?:=\s*+(?:"[^"]*+|'[^']*+)?+)?+)?+)?+)?+\s*+/?+)?+)?+\Z"""
)
# "<read_file".
_OPENED = compile_late(rf"<({_NAME})")
# 'path="a.py"'.
_ATTRIBUTE = compile_late(rf"({_NAME})\s*+=\s*+({_VALUE})")
# "\n  ".
_BLANKS = compile_late(r"\s*+")
# "\n</read_fi".
_CLOSING = compile_late(r"\s*+</[^<>]*+\Z")
# "&lt;": the five that XML defines; any other stays as the model wrote it.
_ENTITY = compile_late(r"&(amp|lt|gt|quot|apos);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class Tag(Struct, frozen=True):
    """A tag: `whole` is `<a/>`. Attributes are decoded and in written order, `text` is the tag as written."""

    kind: Literal["open", "close", "whole"]
    name: str
    attributes: tuple[tuple[str, str], ...]
    text: str

    @property
    def key(self) -> str:
        """What a tag names in a list or an object: its attribute `name`, else its own name."""
        return dict(self.attributes).get("name", self.name)


def decode_entities(text: str) -> str:
    """Return the text with the five entities of XML as the characters they name; every other `&` stays."""
    return _ENTITY.sub(lambda match: _CHARACTERS[match[1]], text)


def encode_entities(text: str) -> str:
    """Return the text with the four characters as entities that would be read as something else."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def is_name(text: str) -> bool:
    """Whether a text can be the name of a tag."""
    return re.fullmatch(_NAME, text) is not None


class Window:
    """What is left to read begins at `at`. Methods that peek, and those that ask what is next, read nothing.

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

    def push(self, piece: str) -> None:
        """Take in what arrives."""
        if piece:
            self._waiting.append(piece)
            self._size += len(piece)

    def wait_for_more(self) -> Waits[bool]:
        """Wait until there is more text than there was; False where no more comes."""
        while True:
            kept = len(self.text) - self.at
            if self._waiting and (self.ended or kept < _SHORT or self._size * 2 >= kept):
                self._before += self.at
                self.text = "".join((self.text[self.at :], *self._waiting))
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
            self.at, self._last = self.at + len(piece), piece[-1]
            line = piece.rfind("\n")
            self.opens_line = not piece[line + 1 :].strip() and (line >= 0 or self.opens_line)
            if self.record is not None:
                self.record.append(piece)
        return piece

    def skip(self, size: int) -> str:
        """Read so many characters."""
        return self.take(self.at + size)

    def end_record(self) -> str:
        """Return what was read since the `record` began, and end it."""
        record, self.record = "".join(self.record or ()), None
        return record

    def read_rest(self) -> Waits[str]:
        """Read everything to the end."""
        pieces = [self.take(len(self.text))]
        while (yield from self.wait_for_more()):
            pieces.append(self.take(len(self.text)))
        return "".join(pieces)

    def peek(
        self, pattern: re.Pattern[str], maybe: re.Pattern[str] | None = None, skip: int = 0, *, to_end: bool = True
    ) -> Waits[re.Match[str] | None]:
        """Return how a pattern matches `skip` characters ahead, None where it does not.

        What matches `maybe` may match once there is more; so does, but for `to_end` False, what goes to the end.
        """
        while True:
            match = pattern.match(self.text, self.at + skip)
            undecided = (
                to_end and match.end() == len(self.text) if match else maybe and maybe.match(self.text, self.at + skip)
            )
            if not undecided or not (yield from self.wait_for_more()):
                return match

    def peek_tag(self, skip: int = 0) -> Waits[Tag | None]:
        """Return the tag that begins `skip` characters ahead, None where none does."""
        match = yield from self.peek(_TAG, _BEGUN, skip, to_end=False)
        if match is None:
            return None
        closing, name, attributes, whole = match.groups()
        found = tuple((one[1], decode_entities(one[2][1:-1])) for one in _ATTRIBUTE.finditer(attributes))
        return Tag("close" if closing else "whole" if whole else "open", name, found, match[0])

    def find_cut_tag(self) -> str:
        """Return the name of the opening tag that begins here and that the text, being at its end, cuts; else ""."""
        name = _OPENED.match(self.text, self.at)
        return name[1] if name and self.ended and _BEGUN.match(self.text, self.at) else ""

    def is_next(self, literal: str, skip: int = 0) -> Waits[bool]:
        """Whether `literal` follows in the text."""
        while True:
            start = self.at + skip
            if self.text.startswith(literal, start):
                return True
            begun = literal.startswith(self.text[start : start + len(literal)])
            if not begun or not (yield from self.wait_for_more()):
                return False

    def peek_past_blanks(self, skip: int = 0) -> Waits[int]:
        """Return how far ahead the next character is that is no blank, or the end."""
        match = yield from self.peek(_BLANKS, None, skip)
        assert match is not None
        return match.end() - self.at

    def peek_character(self, skip: int = 0) -> Waits[str]:
        """Return the character `skip` ahead, "" at the end."""
        while len(self.text) <= self.at + skip and (yield from self.wait_for_more()):
            pass
        return self.text[self.at + skip : self.at + skip + 1]

    def read_until(self, literal: str) -> Waits[tuple[str, bool]]:
        """Read up to a literal and past it; return what was before it, and whether it came at all."""
        pieces = []
        while (place := self.text.find(literal, self.at)) < 0:
            pieces.append(self.take(max(self.at, len(self.text) - len(literal) + 1)))
            if not (yield from self.wait_for_more()):
                return "".join((*pieces, self.take(len(self.text)))), False
        pieces.append(self.take(place))
        self.skip(len(literal))
        return "".join(pieces), True

    def read_inside(self, name: str, parent: str = "") -> Waits[tuple[str, bool]]:
        """Read what a tag holds, and its closing tag; return it, and whether the closing tag came at all.

        Tags of the same name in between are counted, so what they hold belongs to the content. With a `parent` the
        closing tag must be followed by another tag or the parent's closing tag; one that is not is content as well.
        """
        marks, pieces = _compile_tag_pattern(name), []
        depth = ahead = 0
        while True:
            mark = marks.search(self.text, self.at + ahead)
            if mark is None:
                begun = self.text.rfind("<", self.at + ahead)
                may_be_tag = begun >= 0 and self.text.find(">", begun) < 0
                pieces.append(self.take(begun if may_be_tag else len(self.text)))
                ahead = 0
                if not (yield from self.wait_for_more()):
                    return "".join((*pieces, self.take(len(self.text)))), False
                continue
            start, ahead = mark.start() - self.at, mark.end() - self.at
            if not mark[1]:
                depth += not mark[0].endswith("/>")
            elif depth:
                depth -= 1
            elif not parent or (yield from self._is_followed(ahead, parent)):
                pieces.append(self.skip(start))
                self.skip(ahead - start)
                return "".join(pieces), True

    def _is_followed(self, skip: int, parent: str) -> Waits[bool]:
        """Whether, after blanks, a tag is opened, the parent is closed, or the text is at its end."""
        name = re.escape(parent)
        # "\n<path", "</parent>".
        follower = re.compile(rf"\s*+(?:(?=<[A-Za-z_]|</{name}\s*+>)|(?:</{name}\s*+|<)?+\Z)")
        return (yield from self.peek(follower, _CLOSING, skip)) is not None

    def is_cdata_next(self) -> Waits[bool]:
        """Whether the text goes on, after blanks, with a CDATA section."""
        return (yield from self.is_next(CDATA, (yield from self.peek_past_blanks())))

    def read_sections(self) -> Waits[tuple[str, bool]]:
        """Read CDATA sections and the blanks around them; return their text as one, and whether the last was closed."""
        pieces, closed = [], True
        while closed and (yield from self.is_cdata_next()):
            self.skip((yield from self.peek_past_blanks()) + len(CDATA))
            piece, closed = yield from self.read_until(CDATA_END)
            pieces.append(piece)
        self.skip((yield from self.peek_past_blanks()))
        return "".join(pieces), closed


@lru_cache(maxsize=256)
def _compile_tag_pattern(name: str) -> re.Pattern[str]:
    # "<path>", "</path>" for "path".
    return re.compile(rf"<(?:(/){re.escape(name)}\s*+>|{re.escape(name)}(?:\s[^<>]*+)?+>)")
