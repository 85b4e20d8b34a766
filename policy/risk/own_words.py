"""The person's own words in a message: what is quoted, pasted or asked about is left out, what is forbidden is told."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from foregate.policy.mandate_section import Mandate, MandatePhrases
from foregate.policy.policy import Contract, Policy
from foregate.policy.risk.moments import find_month
from foregate.policy.risk.pasted import cut_pasted
from foregate.policy.risk.request import (
    GONE,
    STOP,
    find_negated_places,
    find_phrases,
    read_words,
    remember,
    split_phrase,
)
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import trim_text

_TAIL = "?!.,;:'\")]}*_\u2026"
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
LONGEST = 16 * 1024
"""Characters of a message, without what is quoted or pasted, that are read."""
_QUOTATION = "\u25cc"
_LONGEST_MONTH = 24
_LONG_QUOTATION = 12
"""Words of a quotation that can still be the name of something."""


class MessageToken(NamedTuple):
    """A word as it was typed, or what stands between quotation marks, with the place of its sentence."""

    text: str
    kind: Literal["word", "quotation", "line"]
    sentence: int


class OwnWords(Struct, frozen=True):
    """`pieces` of a message; `own` are the places of those that count, `forbidden` of those a negation reaches.

    `words` are the words of what is no question as phrases are found in them, `negated` the places of those that a
    negation reaches.
    """

    pieces: tuple[MessageToken, ...]
    sentences: tuple[str, ...]
    own: frozenset[int]
    forbidden: frozenset[int]
    words: tuple[str, ...]
    negated: frozenset[int]
    pasted: bool = False
    """Whether text of others stands in the message: quoted lines, fenced code, a mail, a long quotation."""
    asked: frozenset[int] = frozenset()
    """The places of what stands in questions."""
    is_cut: bool = False
    """Whether the message is too long to be read, so that nothing in it counts, and nothing said before it does."""


@remember
def read_own_words(text: str, policy: Policy) -> OwnWords:
    """Return the person's own words of one message."""
    section = policy.mandate
    text = unicodedata.normalize("NFKC", text)
    kept = cut_pasted(text, section)
    is_cut = len(kept) > LONGEST
    kept = "" if is_cut else kept
    pieces, sentences = split_pieces(kept, section)
    last = {piece.sentence: piece for piece in pieces if piece.kind != "line"}
    asked = {number for number, piece in last.items() if is_question(piece, sentences[number], section)}
    clauses = _Clauses(pieces, asked)
    negated = clauses.find_negated(policy)
    counted = {at for at, piece in enumerate(pieces) if piece.sentence not in asked and piece.kind != "line"}
    forbidden = {clauses.places[at] for at in negated} & counted
    return OwnWords(
        tuple(pieces),
        tuple(sentences),
        frozenset(counted - forbidden),
        frozenset(forbidden),
        tuple(clauses.words),
        frozenset(negated),
        pasted=len(kept.split()) < len(text.split())
        or any(piece.kind == "quotation" and len(piece.text.split()) > _LONG_QUOTATION for piece in pieces),
        asked=frozenset(at for at, piece in enumerate(pieces) if piece.sentence in asked and piece.kind != "line"),
        is_cut=is_cut,
    )


@remember
def widen_contract(_: None, policy: Policy) -> Contract:
    """Return the lists of `contract` with the further phrases of the mandate."""
    more = policy.mandate.phrases
    names = MandatePhrases.model_fields
    return policy.contract.model_copy(
        update={name: (*getattr(policy.contract, name), *getattr(more, name)) for name in names}
    )


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


def is_question(last: MessageToken, sentence: str, section: Mandate) -> bool:
    """Whether a sentence that ends so asks for an answer and not, politely, for something to be done."""
    if last.kind != "word" or "?" not in last.text[len(last.text.rstrip(_TAIL)) :]:
        return False
    words = [STOP, *read_words(sentence)]
    first = {0}
    for at, word in enumerate(words):
        if word == STOP or (at in first and word in section.lead_ins):
            first.add(at + 1)
    return not any(start in first for start, _, _ in find_phrases(words, section.polite))


class _Clauses:
    """The words of what is no question, the place of each one's piece, and the places where clauses end."""

    def __init__(self, pieces: Sequence[MessageToken], asked: set[int]) -> None:
        self.words: list[str] = []
        self.places: list[int] = []
        self.soft: set[int] = set()
        sentence, colon, bullet = 0, False, False
        for at, piece in enumerate(pieces):
            after, bullet = bullet, piece.kind == "line" and piece.text.strip() != ""
            if piece.sentence != sentence:
                self.add_stop(at, soft=colon or bullet or after)
                sentence = piece.sentence
            if piece.sentence in asked:
                continue
            if piece.kind == "line":
                self.add_stop(at, soft=True)
                continue
            colon = piece.kind == "word" and piece.text.endswith(":")
            for word in read_words(piece.text) if piece.kind == "word" else (_QUOTATION,):
                if word == STOP:
                    self.add_stop(at, soft=True)
                else:
                    self.words.append(word)
                    self.places.append(at)

    def add_stop(self, at: int, *, soft: bool) -> None:
        if soft:
            self.soft.add(len(self.words))
        self.words.append(STOP)
        self.places.append(at)

    def find_negated(self, policy: Policy) -> set[int]:
        """Return the places of words that a negation reaches, and take phrases out that only look like one.

        It reaches beyond a comma, a colon or a new line into what names no deed of its own (`never pay A, B or C`),
        and back where no deed stands before it (`B must not get it`) or nothing behind it (`zahle B nicht`).
        """
        section = widen_contract(None, policy)
        words = self.words
        for start, end, _ in list(find_phrases(words, section.exceptions)):
            words[start:end] = [GONE] * (end - start)
        deeds = [start for start, _, _ in find_phrases(words, list_deeds(policy))]
        stops = [at for at, word in enumerate(words) if word == STOP]
        for at, following in zip(stops, [*stops[1:], len(words)], strict=False):
            if at in self.soft and not any(at < deed < following for deed in deeds):
                words[at] = GONE
        negated = find_negated_places(words, section)
        closed = set(stops)
        ends = closed.union(start for start, _, _ in find_phrases(words, section.pivots))
        for start, end, _ in find_phrases(words, section.negations):
            begin = next((at + 1 for at in range(start - 1, -1, -1) if at in ends), 0)
            if end == len(words) or end in closed or not any(begin <= deed < start for deed in deeds):
                negated.update(range(begin, start))
        return {at for at in negated if words[at] not in (STOP, GONE)}


def list_deeds(policy: Policy) -> tuple[str, ...]:
    """Return every phrase that asks for an effect, once."""
    return _list_deeds(None, policy)


@remember
def _list_deeds(_: None, policy: Policy) -> tuple[str, ...]:
    phrases = (phrase for listed in policy.mandate.effects.values() for phrase in listed)
    return tuple({split_phrase(phrase): phrase for phrase in phrases}.values())
