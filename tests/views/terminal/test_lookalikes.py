"""What passes for something else is named, and honest words of any language are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.views.terminal.blocks import explain_word, find_lookalikes


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("im\u0440ortant", "mixes Latin and Cyrillic letters (CYRILLIC SMALL LETTER ER)"),
        ("\u0441\u043e\u0440\u0443", "is written in Cyrillic letters that look like Latin ones"),
        ("\uff52\uff4d", "other forms of the letters of `rm`"),
        ("\ufb01le", "other forms of the letters of `file`"),
        ("\U0001d5cb\U0001d5c6", "other forms of the letters of `rm`"),
        ("rm\u0336", "has strokes laid over its letters (COMBINING LONG STROKE OVERLAY)"),
        ("a\u0338b", "has strokes laid over"),
        ("a\u200bb", "holds a character that is not seen (ZERO WIDTH SPACE)"),
        ("a\u202eb", "holds a character that is not seen (RIGHT-TO-LEFT OVERRIDE)"),
        ("\u0251pple", "holds a phonetic sign"),
        ("\u03b1lpha", "mixes Greek and Latin letters (GREEK SMALL LETTER ALPHA)"),
        ("\u05e9\u05dc\u05d5\u05dd", "is read from right to left"),
    ],
)
def test_a_word_that_is_not_what_it_looks_like_is_explained(word: str, says: str) -> None:
    assert says in explain_word(word)
    assert list(find_lookalikes([f"rm -rf src/{word}/x.txt", f"{word} again"])) == [f"`{word}` {explain_word(word)}"]


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf build && ls *.py",
        "na\u00efve caf\u00e9",
        "cafe\u0301",
        "\u0434\u043e\u043a\u0443\u043c\u0435\u043d\u0442\u044b/\u043e\u0442\u0447\u0451\u0442.txt",
        "\u65e5\u672c\u8a9e\u306e\u30d5\u30a1\u30a4\u30eb.md",
        "\ud55c\uad6d\u5b57",
        "\u0939\u093f\u0928\u094d\u0926\u0940",
        "\u03b1\u03c1\u03c7\u03b5\u03af\u03bf.txt",
        "Stra\u00dfe_\u00fcber-alles",
        "\u2713 done \u2192 next",
    ],
)
def test_an_honest_word_of_any_language_is_left_alone(text: str) -> None:
    assert list(find_lookalikes([text])) == []


@given(st.text(max_size=40))
def test_any_text_is_answered_and_ascii_never_explained(text: str) -> None:
    found = list(find_lookalikes([text]))
    assert not (text.isascii() and found)
