"""Rows of a sheet that belong together, cut in the middle until the whole sheet fits a screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from foregate.views.terminal.layout import CARE, format_labelled, pluralise

LEAST = 14
"""Rows a sheet has on however low a screen."""
CUT = "; d shows them, and only then y counts"
"""What a row adds that says how much of a sheet is left out."""


class SheetBlock:
    """Rows of a sheet. What is left of them when they are cut is their head and their tail, so that nothing can be
    hidden behind many lines; `least` are the fewest that are left. With `order` 0 they are never cut, else those of a
    lower order before those of a higher one, and before all those that are cut already. `more` rows were left out
    before they were made, between the first two thirds and the rest."""

    def __init__(self, rows: Sequence[Text], order: int = 0, least: int = 3, *, more: int = 0) -> None:
        self._whole, self.order, self._least, self._more = list(rows), order, least, more
        self.rows, self.is_cut = self._whole, False

    @property
    def fewest(self) -> int:
        """How few rows it can have."""
        return min(len(self.rows), self._least) if self.order else len(self.rows)

    def cut(self, most: int, width: int) -> None:
        """Leave at most `most` rows, or as few as there may be, among them what says how many more there are."""
        most, whole = max(most, self._least), self._whole
        if len(self.rows) <= most and (self.is_cut or not self._more):
            return
        kept = min(len(whole), max(2, most - len(_say_cut(len(whole) + self._more, width))))
        if (left_out := len(whole) + self._more - kept) <= 0:
            return
        tail = max(1, kept // 3)
        self.rows = [*whole[: kept - tail], *_say_cut(left_out, width), *whole[len(whole) - tail :]]
        self.is_cut = True


def _say_cut(left_out: int, width: int) -> list[Text]:
    return list(format_labelled("cut", f"{pluralise(left_out, 'row')} more{CUT}", width, CARE))


def fit_blocks(blocks: Sequence[SheetBlock], room: int, width: int) -> None:
    """Cut blocks until all of them together have at most `room` rows, where that is possible; 0 is no bound."""
    for block in sorted(blocks, key=lambda one: (not one.is_cut, one.order, -len(one.rows))):
        over = sum(len(one.rows) for one in blocks) - room
        if room and over > 0 and block.order:
            block.cut(len(block.rows) - over, width)


def fit_rows(rows: Sequence[Text], height: int, width: int) -> tuple[list[Text], bool]:
    """Return rows as a screen of `height` shows them above a prompt, cut in their middle, and whether they are cut."""
    block = SheetBlock(rows, 1, LEAST)
    fit_blocks([block], max(LEAST, height - 2), width)
    return block.rows, block.is_cut
