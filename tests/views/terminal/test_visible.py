"""What is shown hides nothing and stands for exactly one original."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foregate.views.terminal.layout import count_columns, expand_tabs, is_hidden, make_visible, shorten_text

ESCAPE = re.compile(r"\\u\{([0-9A-F]+)\}")
TEXT = st.text(st.characters() | st.sampled_from("\\u{}202E\u202e\u200b\x1b\x07\ue000\ufe0f\U000e0041"), max_size=80)


def original(shown: str) -> str:
    """Return the text that is shown as `shown`."""
    return ESCAPE.sub(lambda match: chr(int(match[1], 16)), shown)


@given(TEXT)
@example("\ud800")
@example("\\u{5C}u{41}")
def test_shown_text_contains_nothing_hidden_and_gives_back_the_original(text: str) -> None:
    shown = make_visible(text)
    assert not [character for character in shown if is_hidden(character)]
    assert original(shown) == text


@given(TEXT)
def test_shown_lines_keep_only_newline_and_tab(text: str) -> None:
    shown = make_visible(text, lines=True)
    assert {character for character in shown if is_hidden(character)} <= {"\n", "\t"}
    assert original(shown) == text


KINDS = (
    "\x00\x07\x1b\r\x7f\x9b\u00a0\u00ad\u034f\u061c\u115f\u180e\u200b\u200d\u200e\u2028\u2029\u202e"
    "\u2066\u2800\u3000\u3164\ufe0f\ufeff\ue000\uffff\U000e0041\U000e0100"
)


@pytest.mark.parametrize("character", KINDS)
def test_each_kind_of_hidden_character_is_shown_by_its_number(character: str) -> None:
    assert make_visible(f"a{character}b") == f"a\\u{{{ord(character):X}}}b"


def test_letters_of_any_script_and_emoji_stay_themselves() -> None:
    assert make_visible("naïve Ünïcode 漢字 עברית 🎉 C:\\users") == "naïve Ünïcode 漢字 עברית 🎉 C:\\users"


@given(TEXT, st.integers(1, 60))
def test_shortened_text_never_exceeds_its_width_and_says_that_it_was_cut(text: str, width: int) -> None:
    short = shorten_text(text, width)
    assert count_columns(short) <= width
    whole = shorten_text(text, 0)
    assert whole == make_visible(text.replace("\n", " ").strip())
    assert short == whole or short.endswith("…")


@given(TEXT | st.text(st.sampled_from("\t\u2192 a"), max_size=12))
@example("\ta\t")
@example("\u2192   ")
def test_a_tab_is_an_arrow_and_nothing_else_is(text: str) -> None:
    shown = expand_tabs(text)
    assert not [character for character in shown if is_hidden(character)]
    assert original(shown.replace("\u2192   ", "\t")) == text
