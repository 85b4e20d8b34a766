"""Text from models, tools and files, made safe to show: whatever a reader would not see or a terminal would obey."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_HIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_HIDDEN_RANGES = (
    # Combining grapheme joiner.
    (0x034F, 0x034F),
    # Hangul fillers.
    (0x115F, 0x1160),
    # Khmer inherent vowels.
    (0x17B4, 0x17B5),
    # Mongolian variation selectors.
    (0x180B, 0x180F),
    # Blank Braille pattern.
    (0x2800, 0x2800),
    # Hangul filler.
    (0x3164, 0x3164),
    # Variation selectors.
    (0xFE00, 0xFE0F),
    # Halfwidth Hangul filler.
    (0xFFA0, 0xFFA0),
    # Object replacement.
    (0xFFFC, 0xFFFC),
    # Musical symbol null notehead.
    (0x1D159, 0x1D159),
    # Tags and further variation selectors.
    (0xE0000, 0xE0FFF),
)
_ESCAPE = "\\u{"


def is_hidden(character: str) -> bool:
    """Whether a terminal would not show `character` as itself: controls, bidi, zero width, odd spaces, unassigned."""
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return False
    category = unicodedata.category(character)
    if category in _HIDDEN_CATEGORIES or category == "Zs":
        return True
    return any(first <= code <= last for first, last in _HIDDEN_RANGES)


def make_visible(text: str, *, lines: bool = False) -> str:
    r"""Return `text` with every hidden character as `\u{202E}`; with `lines`, newlines and tabs stay.

    A backslash that would begin such an escape in the original is escaped itself, so that what is shown stands for
    exactly one original.
    """
    if text.isascii() and text.isprintable() and _ESCAPE not in text:
        return text
    keep = "\n\t" if lines else ""
    text = text.replace(_ESCAPE, "\\u{5C}u{")
    return "".join(character if character in keep else _show_character(character) for character in text)


@lru_cache(maxsize=4096)
def _show_character(character: str) -> str:
    return f"{_ESCAPE}{ord(character):X}}}" if is_hidden(character) else character
