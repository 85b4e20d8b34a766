"""What a message is made of: what is pasted into it is cut out, the rest is words and quotations by sentence. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from foregate.policy.mandate_section import Mandate
from foregate.policy.risk.moments import find_month
from foregate.policy.risk.sorts import is_identifier
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import Value, read_forms, trim_text

APOSTROPHES = str.maketrans("\u2018\u2019\u201a\u02bc\uff07", "'''''")
# "```python", "~~~".
_FENCE = compile_late(r"\s*(`{3,}|~{3,})(.*)")
# "From: Eve", "**Subject**: report".
_HEADER = compile_late(r"\s*\**([^\W\d_][\w' -]{0,16}?)\**\s*:")
_RULES = " \t-_=*"
# `write "teh"`; the apostrophe in `don't` opens nothing.
_OPENING = compile_late(r"(?<!\w)(?:\"|'(?=\w))(?=\S)|[\u201c\u201e\u00ab\u2039`]|(?<!\w)\u00bb(?=\w)")
_CLOSING = {
    # '"' in 'write "teh" twice'.
    '"': compile_late(r'(?<=\S)"(?!\w)'),
    # "'" in "write 'teh' twice"; a line ends what an apostrophe began by mistake.
    "'": compile_late(r"(?<=\S)'(?!\w)|\n"),
    "\u201c": compile_late("\u201d"),
    "\u201e": compile_late("[\u201c\u201d\u201f]"),
    "\u00ab": compile_late("\u00bb"),
    "\u00bb": compile_late("\u00ab"),
    "\u2039": compile_late("\u203a"),
    "`": compile_late("`|\n"),
}
# "word," and the start of an entry of a list: "\n- ".
_TOKEN = compile_late(r"\n[ \t]*(?:\n|[-*+\u2022][ \t]|\d+[.)][ \t])|\n|\S+")
# "\u0301".
_ACCENT = compile_late("[\u0300-\u036f]")
_LONGEST_MONTH, _DASHES = 24, "-\u2013\u2014"


class MessageToken(NamedTuple):
    """A word as it was typed, or what stands between quotation marks, with the place of its sentence."""

    text: str
    kind: Literal["word", "quotation", "line"]
    sentence: int


def cut_pasted(text: str, section: Mandate) -> str:
    """Return a message without quoted lines, fenced code and, to its end, a mail or a text pasted into it.

    A letter begins with its greeting where that is not the first line, which greets the reader of the message.
    """
    lines = text.translate(APOSTROPHES).splitlines()
    introductions, starts, salutations = (
        tuple(f"{phrase}{end}" for phrase in listed)
        for listed, end in ((section.introductions, ":"), (section.mail_starts, ":"), (section.salutations, " "))
    )
    kept: list[str] = []
    fence = ""
    for number, line in enumerate(lines):
        marks = _FENCE.match(line)
        if fence:
            closes = marks and marks[1].startswith(fence) and not marks[2].strip()
            fence = "" if closes else fence
        elif marks and "`" not in marks[2]:
            fence = marks[1]
            kept.append("")
        elif line.lstrip().startswith(">"):
            kept.append("")
        elif is_mail_start(lines[number : number + 2], starts, section) or (
            is_greeting(line, salutations) and any(kept)
        ):
            break
        elif line.rstrip(_RULES).casefold().endswith(introductions):
            kept.append(line)
            break
        else:
            kept.append(line)
    return "\n".join(["", *kept])


def is_mail_start(lines: Sequence[str], starts: tuple[str, ...], section: Mandate) -> bool:
    """Whether a pasted or forwarded mail begins with the first line: by its head or by a line that says so."""
    line = lines[0].strip(_RULES).casefold()
    if line.rstrip(":") in section.mail_starts:
        return True
    if line.endswith(starts):
        return True
    header = _HEADER.match(lines[0])
    if not header or header[1].casefold() not in section.mail_headers:
        return False
    following = _HEADER.match(lines[1]) if len(lines) > 1 else None
    return header[1].casefold() in section.mail_senders or bool(
        following and following[1].casefold() in section.mail_headers
    )


def is_greeting(line: str, salutations: tuple[str, ...]) -> bool:
    """Whether a line greets somebody as letters do: `Dear customer,`."""
    words = line.strip(_RULES).casefold()
    return words.endswith(",") and words.startswith(salutations)


def split_pieces(text: str, section: Mandate) -> tuple[list[MessageToken], list[str]]:
    """Return the words and quotations of a text, and its sentences."""
    pieces: list[MessageToken] = []
    sentences: list[str] = []
    begun = 0
    for start, end, kind, piece in find_pieces(text):
        pieces.append(MessageToken(piece, kind, len(sentences)))
        broken = kind == "line" and piece != "\n"
        if broken or (kind == "word" and is_sentence_end(piece, text[end : end + _LONGEST_MONTH], section)):
            stop = start if broken else end
            sentences.append(" ".join(text[begun:stop].split()))
            begun = end
    return pieces, [*sentences, " ".join(text[begun:].split())]


def find_pieces(text: str) -> Iterator[tuple[int, int, Literal["word", "quotation", "line"], str]]:
    """Yield start, end, kind and content of every piece; a bullet or a number before an entry of a list is a line."""
    at = 0
    for start, end in [*find_quotations(text), (len(text), len(text))]:
        for token in _TOKEN.finditer(text, at, start):
            yield *token.span(), "line" if token[0][0] == "\n" else "word", token[0]
        if start < end:
            yield start, end, "quotation", text[start + 1 : end - 1]
        at = end


def find_quotations(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of what stands in quotation marks or backticks; a mark that nothing closes is none."""
    at = 0
    dead: dict[str, int] = {}
    while opening := _OPENING.search(text, at):
        at = opening.end()
        mark = opening.group()
        if at <= dead.get(mark, -1):
            continue
        closing = _CLOSING[mark].search(text, at)
        if closing is None or closing.group() == "\n":
            dead[mark] = closing.start() if closing else len(text)
            continue
        yield opening.start(), closing.end()
        at = closing.end()


def is_sentence_end(word: str, following: str, section: Mandate) -> bool:
    """Whether a sentence ends with a word: not behind an abbreviation, an initial, three dots or the day of a month."""
    bare = word.rstrip("\"')]}")
    if bare.endswith(("!", "?")):
        return True
    if not bare.endswith(".") or bare.endswith(".."):
        return False
    if bare[:-1].isdecimal() and following.strip():
        return not find_month(trim_text(following.split()[0]), section)
    return not (re.fullmatch(r"\W*(?:\w\.)+", bare) or trim_text(bare).casefold() in section.abbreviations)


def split_lines(pieces: Sequence[MessageToken]) -> list[tuple[bool, list[list[MessageToken]]]]:
    """Return for each line that holds anything whether it is an entry of a list, and its pieces by sentence.

    A dash divides a sentence as a full stop does: `Send it to Ben - he waits`.
    """
    lines: list[tuple[bool, list[list[MessageToken]]]] = [(False, [[]])]
    for piece in pieces:
        groups = lines[-1][1]
        if piece.kind == "line":
            lines.append((piece.text.strip() != "", [[]]))
        elif piece.kind == "word" and not piece.text.strip(_DASHES) and groups[-1]:
            groups.append([])
        elif groups[-1] and groups[-1][-1].sentence != piece.sentence:
            groups.append([piece])
        else:
            groups[-1].append(piece)
    filled = ((is_entry, [group for group in groups if group]) for is_entry, groups in lines)
    return [(is_entry, groups) for is_entry, groups in filled if groups]


def is_said_twice(pieces: Sequence[MessageToken], kept: str, text: str) -> bool:
    """Whether an address or a code stands in the person's own words and in what they quote as well."""
    quoted = [piece.text.split() for piece in pieces if piece.kind == "quotation"]
    cut = Counter(text.split()) - Counter(kept.split())
    shown = {*cut, *(word for one in quoted if len(one) > 1 for word in one)}
    if not shown:
        return False
    own = (piece.text for piece in pieces if piece.kind == "word")
    said = {form for word in own for form in read_forms(word) if is_telling(form)}
    return any(form in said for word in shown for form in read_forms(word))


def is_telling(form: Value) -> bool:
    """Whether a value says where something goes: an address, a host or an account; not `8 o'clock`."""
    return form.kind in ("address", "url", "host") or is_identifier(form)


def has_telling(words: Sequence[str]) -> bool:
    return any(is_telling(form) for word in words for form in read_forms(word))


def strip_accents(word: str) -> str:
    """Return a word without its accents: `envía` as `envia`."""
    return word if word.isascii() else _ACCENT.sub("", unicodedata.normalize("NFD", word))
