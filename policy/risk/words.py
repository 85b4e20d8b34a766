"""Words of what people write, for comparing with the phrases of the policy: whole words, any case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

STOP = "\n"
"""Stands in a sequence of words where a clause ends; no phrase matches across it."""
GONE = "\0"
"""Stands for a word that was taken out; no phrase matches across it."""

_QUOTED = re.compile(r"```.*?(?:```|$)|`[^`\n]*`|\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d", re.DOTALL)
_TOKEN = re.compile(r"[\w./~:@\\#$%+*-]+(?:'\w+)*|[,;!?\n]|'")
_ENDS = ".,:;!?"
_NAMING = re.compile(r"[./\\@:_~\d]")
_APOSTROPHES = str.maketrans("\u2018\u2019\u02bc\uff07", "''''")


@lru_cache(maxsize=256)
def split_words(text: str) -> tuple[str, ...]:
    """Return the words of `text`, folded, with STOP where a clause ends; what is quoted as code or text is left out."""
    text = unicodedata.normalize("NFC", text.translate(_APOSTROPHES))
    return tuple(_read_words(_QUOTED.sub(" \u25cc ", text)))


@lru_cache(maxsize=4096)
def split_phrase(phrase: str) -> tuple[str, ...]:
    """Return the words of a phrase of the policy."""
    return tuple(word for word in split_words(phrase) if word != STOP)


def find_phrases(words: Sequence[str], phrases: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, phrase) for every occurrence of a phrase, in the order of the phrases."""
    for phrase in phrases:
        wanted = split_phrase(phrase)
        size = len(wanted)
        if not size:
            continue
        at = -1
        while (at := _find_word(words, wanted[0], at + 1)) >= 0:
            if tuple(words[at : at + size]) == wanted:
                yield at, at + size, phrase


def is_naming(word: str) -> bool:
    """Whether a word looks like a name of a thing: a path, a file, an address, an identifier, a number."""
    return len(word) > 1 and _NAMING.search(word) is not None


def _find_word(words: Sequence[str], word: str, start: int) -> int:
    try:
        return words.index(word, start)
    except ValueError:
        return -1


def _read_words(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        piece = match.group()
        if piece in _ENDS or piece == "\n":
            yield STOP
            continue
        word = piece.rstrip(_ENDS)
        if word.strip("'"):
            yield from _split_hyphens(word.casefold())
        if len(word) < len(piece):
            yield STOP


def _split_hyphens(word: str) -> list[str]:
    """Split hyphenated words; what looks like a path or an option stays whole."""
    if "-" not in word.strip("-") or word.startswith("-") or _NAMING.search(word):
        return [word]
    return [part for part in word.split("-") if part]
