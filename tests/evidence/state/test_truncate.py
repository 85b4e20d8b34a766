"""Cutting texts: what is missing is counted, and nothing a reader sees as one character is torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.state.truncate import format_line, is_one_grapheme, truncate_text

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\U0001f1e9\U0001f1ea"
MARKED = ["क्ष", "\u0e01\u0e33", "\uff76\uff9e", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "❤️", "1️⃣"]
GRAPHEMES = st.sampled_from(
    ["a", "é", "e\u0301", "\r\n", "漢", FAMILY, FLAG, "\U0001f44b\U0001f3fd", "각", "\n", *MARKED]
)


@given(st.text(max_size=300), st.integers(0, 200))
def test_what_is_kept_is_a_head_and_a_tail_and_the_rest_is_counted(text: str, limit: int) -> None:
    shown, missing = truncate_text(text, limit)
    if len(text) <= limit:
        assert (shown, missing) == (text, 0)
        return
    head, _, tail = shown.partition(f"\n[... {missing} characters left out ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + missing + len(tail) == len(text)
    assert len(head) + len(tail) <= limit


@given(st.lists(GRAPHEMES, max_size=60), st.integers(0, 80))
def test_no_grapheme_is_cut(graphemes: list[str], limit: int) -> None:
    text = "".join(graphemes)
    shown, missing = truncate_text(text, limit)
    if missing:
        head = shown.partition(f"\n[... {missing} characters")[0]
        borders = {0}
        for grapheme in graphemes:
            borders.add(max(borders) + len(grapheme))
        assert len(head) in borders
        assert len(head) + missing in borders


@given(st.text(max_size=300), st.integers(3, 60))
def test_a_line_is_one_line_and_no_longer_than_it_may_be(text: str, limit: int) -> None:
    shown = format_line(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1


def test_a_letter_with_endless_marks_is_cut_all_the_same() -> None:
    shown, missing = truncate_text("a" + "\u0301" * 10_000, 100)
    assert missing > 9_000
    assert len(shown) < 200


@pytest.mark.parametrize(
    "pair", ["\r\n", "e\u0301", "\u200da", "\U0001f1e9\U0001f1ea", "\u0e01\u0e33", "\u094d\u0937", "🏴\U000e0067"]
)
def test_such_a_pair_is_one_character(pair: str) -> None:
    assert is_one_grapheme(f"x{pair}", 2)
