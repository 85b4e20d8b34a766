"""What a terminal may give to a text is never more than what is reckoned with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth
from rich.cells import cell_len

from foregate.views.terminal.layout import chop_text, count_columns, format_table, make_visible

TEXT = st.text(st.characters() | st.sampled_from("a漢🇩🏽\u0301\u0903☰"), max_size=60)


@given(TEXT)
def test_no_table_of_widths_gives_a_text_more_columns(text: str) -> None:
    shown = make_visible(text)
    assert count_columns(shown) >= max(len(shown), cell_len(shown), get_cwidth(shown))


@given(TEXT, st.integers(2, 20))
def test_chopping_loses_nothing_and_every_piece_fits(text: str, room: int) -> None:
    pieces = chop_text(text, room)
    assert "".join(pieces) == text
    assert all(count_columns(piece) <= room and piece for piece in pieces) or pieces == [""]


def test_chopping_always_goes_on() -> None:
    assert chop_text("漢字", 1) == ["漢", "字"]


ROW = st.tuples(st.text("ab 漢", max_size=50), *[st.integers(0, 99_999).map(str)] * 3)


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(18, 60))
def test_a_table_fits_and_the_cells_of_all_rows_end_below_each_other(rows: list[tuple[str, ...]], width: int) -> None:
    lines = list(format_table([("label", "one", "two", "three"), *rows, ("what stands alone goes on",)], width))
    assert all(count_columns(line) <= width for line in lines)
    assert " ".join(lines).endswith("what stands alone goes on")
    counts = [line for line in lines if line[-1:].isdigit()]
    assert [tuple(line.split()[-3:]) for line in counts] == [row[1:] for row in rows]
    assert len({count_columns(line) for line in counts}) == 1
