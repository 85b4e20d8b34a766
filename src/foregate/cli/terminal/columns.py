"""How wide text is in a terminal, at most: terminals disagree, and none may break a line before we do."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import get_character_cell_size

_PICTURES = 0x1F000
"""From here on are pictures, parts of flags and their modifiers, whose width depends on what they are joined to."""


def count_columns(text: str) -> int:
    """Return how many columns `text` takes at most. It must hold no control characters; see visible."""
    return len(text) if text.isascii() else sum(map(_measure_widest, text))


@lru_cache(maxsize=4096)
def _measure_widest(character: str) -> int:
    # What joins the character before it in one terminal has a column of its own in another.
    return 2 if ord(character) >= _PICTURES else max(1, get_character_cell_size(character))


def chop_text(text: str, room: int) -> list[str]:
    """Return `text` in pieces of at most `room` columns and at least one character; one empty piece for no text."""
    pieces, begin, taken = [], 0, 0
    for place, character in enumerate(text):
        wide = _measure_widest(character)
        if taken + wide > room and place > begin:
            pieces.append(text[begin:place])
            begin, taken = place, 0
        taken += wide
    return [*pieces, text[begin:]]
