"""Streamed text loses nothing, whatever its pieces, and breaks only at spaces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from foregate.cli.flow import Flow

TEXT = st.text(st.sampled_from("ab漢 \n"), max_size=120)


def flowed(text: str, cuts: list[int], width: int) -> str:
    """Return `text` as shown when it arrives cut at the given places."""
    flow, places = Flow(width), sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    return "".join(flow.feed(piece) for piece in pieces) + flow.end()


@given(TEXT, st.lists(st.integers(0, 200), max_size=6), st.integers(4, 30))
def test_how_text_is_cut_changes_nothing_and_words_stay_whole(text: str, cuts: list[int], width: int) -> None:
    shown = flowed(text, cuts, width)
    assert shown == flowed(text, [], width)
    assert shown.replace("|", " ").split() == text.split()
    for line in shown.replace("|", " ").split("\n"):
        assert cell_len(line) <= width or " " not in line.strip()


@given(TEXT, st.lists(st.integers(0, 200), max_size=6))
def test_without_a_width_text_stays_as_it_is_but_for_bars_and_spaces_at_the_end_of_lines(
    text: str, cuts: list[int]
) -> None:
    lines = [line.rstrip(" ") for line in text.split("\n")]
    expected = "\n".join(f"|{line}" if line.startswith(" ") else line for line in lines)
    assert flowed(text, cuts, 0) == expected


@given(TEXT, st.lists(st.integers(0, 200), max_size=6), st.integers(0, 30))
def test_no_streamed_line_begins_like_a_row_of_ours(text: str, cuts: list[int], width: int) -> None:
    assert not [line for line in flowed(text, cuts, width).split("\n") if line.startswith((" ", "\t"))]
