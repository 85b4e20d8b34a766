"""A ruling to review as rows of one screen: no text of it takes more lines than there are, and none begins a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from rich.text import Text

from foregate.audit.review_item import ReviewItem
from foregate.audit.sentences import describe_in_parts
from foregate.schemas.review import Label
from foregate.views.terminal.layout import BAD, CARE, GOOD, NAME, format_labelled, pack_parts, shorten_text

KEYS: dict[str, Label] = {"r": "right", "s": "too strict", "l": "too lax", "u": "unclear"}
"""What a key says of the ruling that is shown."""
_WAYS = (
    *(f"{key} {label}" for key, label in KEYS.items()),
    *("c comment", "space skip", "b back", "z undo", "q quit"),
)
_COLOURS = {"allow": GOOD, "deny": BAD}


class _RowPart(NamedTuple):
    """Sentences behind a label: all their rows, and how many of them stand whatever else there is."""

    rows: list[Text]
    least: int


def format_item(item: ReviewItem, title: str, comment: str, width: int, height: int) -> list[Text]:
    """Return the rows of a ruling, with its keys below it: no more than fit above a prompt in `height` lines."""
    explained = item.explained
    sentences = describe_in_parts(explained)
    ruling = ["No gate wanted it held."] if item.is_let_go else []
    said = [_describe_label(given.body.label, given.body.comment, str(given.body.by)) for given in item.others]
    own = [_describe_label(item.own.body.label, item.own.body.comment)] if item.own is not None else []

    def build_part(label: str, sentences: Iterable[str], least: int, style: str = "") -> _RowPart:
        return _RowPart(list(islice(_format_sentences(label, sentences, width, style), height + 1)), least)

    asked = build_part("asked", [item.asked.replace("\n", " ")], 2)
    call = build_part("call", sentences["asked"], 5)
    ours = [
        build_part("ruling", [*ruling, *sentences["ruling"]], 3, _COLOURS.get(explained.standing, CARE)),
        build_part("numbers", sentences["numbers"], 2),
        build_part("instead", sentences["instead"], 3),
        build_part("approved", item.approvals, 1),
        build_part("others", said, 1),
        build_part("yours", own, 1),
        build_part("comment", [comment] if comment else [], 1),
    ]
    head = [
        Text(shorten_text(title, width), "bold"),
        Text(shorten_text(f"{item.ruled.address}, {explained.point.time[:16].replace('T', ' ')} UTC", width), NAME),
    ]
    keys = [*pack_parts(_WAYS, width, "dim")]
    room = max(0, height - 1 - len(head) - len(keys))
    lines = _share_room([*ours, call, asked], room)
    body = [row for part in (asked, call, *ours) for row in _cut(part.rows, lines[id(part)], width)]
    return [*head, *body[:room], *keys]


def _share_room(parts: Sequence[_RowPart], room: int) -> dict[int, int]:
    """Return how many rows each part gets: what it needs at least, and of what is left the first ones most."""
    lines = {id(part): min(len(part.rows), part.least) for part in parts}
    left = max(0, room - sum(lines.values()))
    for part in parts:
        more = min(left, len(part.rows) - lines[id(part)])
        lines[id(part)] += more
        left -= more
    return lines


def _cut(rows: list[Text], most: int, width: int) -> list[Text]:
    """Return the first rows; the last one says so where there are more."""
    kept = rows[:most]
    if kept and len(rows) > most:
        kept[-1].truncate(width - 2)
        kept[-1].append(" …", "dim")
    return kept


def _describe_label(label: str, comment: str, by: str = "") -> str:
    return f"{label}{f' by {by}' if by else ''}{f': {comment}' if comment else ''}"


def _format_sentences(label: str, sentences: Iterable[str], width: int, style: str) -> Iterator[Text]:
    for number, sentence in enumerate(sentences):
        yield from format_labelled("" if number else label, sentence, width, style)
