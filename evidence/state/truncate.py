"""A text cut to a number of characters: its head and its tail, and how much is missing between them."""

from __future__ import annotations

import unicodedata

_FURTHEST = 64
"""Characters a cut may move to spare a grapheme; whoever piles up more marks on one letter loses some of them."""
_JOINER = "\u200d"
_REGIONAL = range(0x1F1E6, 0x1F200)
_TONES = range(0x1F3FB, 0x1F400)
_JAMO = range(0x1160, 0x1200)
_TAGS = range(0xE0020, 0xE0080)
_SPACING = "\u200c\u0e33\u0eb3\uff9e\uff9f"
"""Characters that belong to the one before and are no marks by their category."""
_VIRAMA = 9
"""The combining class of the sign that joins two Indic consonants into one."""


def truncate_text(text: str, limit: int) -> tuple[str, int]:
    """Return `text` with at most `limit` of its characters kept, and how many are left out.

    The line that says so is added to what is kept. What a reader sees as one character is not cut.
    """
    if len(text) <= limit:
        return text, 0
    head, start = find_boundary(text, limit - limit // 2), len(text) - limit // 2
    after = range(start, start + _FURTHEST + 1)
    tail = next((place for place in after if not is_one_grapheme(text, place)), start)
    missing = tail - head
    return f"{text[:head]}\n[... {missing} characters left out ...]\n{text[tail:]}", missing


def format_line(text: str, limit: int) -> str:
    """Return a text as one line of at most `limit` characters; three dots stand for the rest."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: find_boundary(flat, max(0, limit - 3))] + "..."


def find_boundary(text: str, at: int) -> int:
    """Return the nearest place at or before `at` that cuts no grapheme."""
    return next((place for place in range(at, at - _FURTHEST, -1) if not is_one_grapheme(text, place)), at)


def is_one_grapheme(text: str, at: int) -> bool:
    """Whether the characters on both sides of a place are read as one."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before < "\x80" and after < "\x80":
        return before == "\r" and after == "\n"
    if _JOINER in (before, after) or unicodedata.category(after).startswith("M"):
        return True
    if after in _SPACING or (unicodedata.combining(before) == _VIRAMA and after.isalpha()):
        return True
    # Two of them make a flag.
    if ord(after) in _REGIONAL:
        halves = 0
        while halves < min(at, _FURTHEST) and ord(text[at - 1 - halves]) in _REGIONAL:
            halves += 1
        return halves % 2 == 1
    return any(ord(after) in joined for joined in (_TONES, _JAMO, _TAGS))
