"""Rows of a sheet that belong together, cut in the middle until it fits a screen, and those about a call's values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sources import explain_candidate, explain_source, list_to_name
from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.views.terminal.layout import CARE, count_columns, format_labelled, make_visible, pluralise, shorten_text

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


_MOST = 12
"""Rows of values the first view of a sheet shows."""
_LONGEST_PATH = 40
_LONGEST_TEXT = 80
"""Characters that are shown of text out of something that was read."""
# "path: src/a.py".
_PLAIN = compile_late(r"[\w.\[\]-]+: (?:[\w!-~]+|[\w!-9;-~]+(?: [\w!-9;-~]+)*)", re.ASCII)
"""A path and a value without anything that could pass for a wide blank, for our quotes, or among words for a colon."""

# "ann@example.org".
_BARE = compile_late(r"[!-~]+", re.ASCII)


def build_values(call: Mapping[str, Json], order: int, width: int, *, details: bool) -> SheetBlock:
    """Return the rows of a call's values, those first that a person has to type to allow it."""
    named = list(list_to_name(call))
    values = named + [value for value in map(as_object, get_list(call, "values")) if value not in named]
    rows: list[Text] = []
    for number, value in enumerate(values):
        rows += format_value(value, width, details=details)
        rows += format_others(value, width) if number < len(named) else ()
    block = SheetBlock(rows, order)
    if not details:
        block.cut(_MOST, width)
    return block


def format_value(value: Mapping[str, Json], width: int, *, details: bool = False) -> Iterator[Text]:
    """Yield what a value is and who said it first, on one row where nothing of the value could pass for the latter."""
    text, said = get_text(value, "text", ""), explain_source(value, details=details)
    if get_text(value, "role", "") == "carried" and not details and len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}…"
    style = CARE if get_text(value, "source", "") == "outside" else ""
    what = f"{name_path(value)}: {text}"
    both = f"{what}   {said}"
    if _PLAIN.fullmatch(what) and count_columns(make_visible(both)) <= width - 12:
        yield from format_labelled("value", both, width, style)
    else:
        yield from format_labelled("value", what, width, style)
        yield from format_labelled("who said", said, width, style)


def format_others(value: Mapping[str, Json], width: int) -> Iterator[Text]:
    """Yield what a person may mean in the place of a value, each with where it stands and who could write there."""
    for other in map(as_object, get_list(value, "others")):
        text, said = get_text(other, "text"), explain_candidate(other)
        if _BARE.fullmatch(text) and count_columns(make_visible(f"{text}   {said}")) <= width - 12:
            yield from format_labelled("or", f"{text}   {said}", width)
        else:
            yield from format_labelled("or", text, width)
            yield from format_labelled("", said, width)


def name_path(value: Mapping[str, Json]) -> str:
    """Return where in the arguments a value stands; a name that could pass for more than a name as JSON."""
    path = shorten_text(get_text(value, "path", ""), _LONGEST_PATH)
    return path if re.fullmatch(r"[\w.\[\]-]+", path) else json.dumps(path, ensure_ascii=False)
