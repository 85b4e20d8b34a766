"""The rows of a sheet that say of each value of a call who said it first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from rich.text import Text

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sources import explain_candidate, explain_source, list_to_name
from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.views.terminal.blocks import SheetBlock
from foregate.views.terminal.layout import CARE, count_columns, format_labelled, make_visible, shorten_text

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
