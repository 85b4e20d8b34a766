"""Pieces of sessions reach processes together, all of them and in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foregate.audit.pieces import TOGETHER, SessionPiece, gather_pieces


@given(st.lists(st.integers(1, 2 * TOGETHER)))
def test_gathered_pieces_are_all_pieces_in_order_and_no_more_together_than_are_worth_sending(
    lengths: list[int],
) -> None:
    pieces = [SessionPiece(str(number), 0, length, ()) for number, length in enumerate(lengths)]
    gathered = list(gather_pieces(iter(pieces)))
    assert [piece for some in gathered for piece in some] == pieces
    assert all(sum(piece.count_events() for piece in some[:-1]) < TOGETHER for some in gathered)
    assert all(sum(piece.count_events() for piece in some) >= TOGETHER for some in gathered[:-1])
