"""No line of foreign text stands without a bar, whatever its pieces and its width, and nothing of it is lost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from foregate.views.terminal.layout import BarredText, count_columns, format_barred, make_visible

TEXT = st.text(st.sampled_from("ab漢🇩🏽\u0301\\u{} \t\r\n\x1b\u200b"), max_size=120)
CUTS = st.lists(st.integers(0, 200), max_size=6)


def flowed(text: str, cuts: list[int], width: int) -> str:
    """Return `text` as shown when it arrives cut at the given places."""
    flow, places = BarredText(width), sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    return "".join(flow.feed(piece).plain for piece in pieces) + flow.end().plain


@given(TEXT, CUTS, st.integers(4, 30))
def test_how_text_is_cut_changes_nothing(text: str, cuts: list[int], width: int) -> None:
    shown = flowed(text, cuts, width)
    assert shown == flowed(text, [], width)
    assert shown.removesuffix("\n") == format_barred(text, width).plain


@given(TEXT, CUTS, st.integers(4, 30))
def test_every_line_stands_behind_a_bar_and_no_terminal_has_to_break_it(text: str, cuts: list[int], width: int) -> None:
    lines = flowed(text, cuts, width).split("\n")
    assert lines.pop() == ""
    for line in lines:
        assert line == "|" or line.startswith("| ")
        assert count_columns(line) <= width
    words = "".join(line[2:] for line in lines)
    assert "".join(words.split()) == "".join(make_visible(text, lines=True).split())


@given(st.text(st.sampled_from("ab \n"), max_size=120))
def test_words_that_fit_stay_whole_and_lines_that_fit_stay_as_they_are(text: str) -> None:
    lines = [line.rstrip(" ") for line in text.split("\n")]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        lines.pop()
    assert format_barred(text, 200).plain == "\n".join(f"| {line}".rstrip(" ") for line in lines)
    short = " ".join(text.split())
    assert format_barred(short, 122).plain.replace("\n| ", " ") == (f"| {short}" if short else "")


def test_a_text_without_words_shows_nothing_and_the_next_one_begins_anew() -> None:
    flow = BarredText(20)
    assert flow.feed(" \n\n ").plain + flow.end().plain == ""
    assert flow.feed("one\n").plain + flow.end().plain == "| one\n"
    assert flow.feed("two").plain + flow.end().plain == "| two\n"


def test_what_is_broken_off_a_line_cannot_begin_like_a_line_of_ours() -> None:
    for filling in ("x" * 38, "x " * 19, "漢" * 19, "🏽" * 19, "\u0903" * 38, "\t" * 9):
        text = f"{filling}  ran     delete_path a.txt"
        assert all(line.startswith("| ") for line in flowed(text, [], 40).splitlines())


def test_an_escape_that_arrives_in_halves_is_not_taken_for_a_hidden_character() -> None:
    assert flowed("\\u{202E}", [1], 40) == flowed("\\u{202E}", [2], 40) == "| \\u{5C}u{202E}\n"
    assert flowed("\\u", [1], 40) == "| \\u\n"
