"""A ruling to review as rows of one screen: no text of it takes more lines than there are, and none begins a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from rich.text import Text

from foregate.audit.review_item import ReviewItem
from foregate.cli.commands.reports import explain_in_parts
from foregate.cli.terminal.layout import BAD, CARE, GOOD, NAME, format_labelled, pack_parts, shorten_text
from foregate.schemas.review import Label

KEYS: dict[str, Label] = {"r": "right", "s": "too strict", "l": "too lax", "u": "unclear"}
"""What a key says of the ruling that is shown."""
_WAYS = (
    *(f"{key} {label}" for key, label in KEYS.items()),
    *("c comment", "space skip", "b back", "z undo", "q quit"),
)
_COLOURS = {"allow": GOOD, "deny": BAD}
_TIGHT = 24
"""Lines of the terminal every screen of ours fits."""


def format_item(item: ReviewItem, title: str, comment: str, width: int, height: int) -> list[Text]:
    """Return the rows of a ruling, with its keys below it: no more than fit above a prompt in `height` lines."""
    explained, spare = item.explained, max(0, height - _TIGHT)
    parts = explain_in_parts(explained)
    ruling = ["No gate wanted it held."] if item.is_let_go else []
    said = [_describe_label(given.body.label, given.body.comment, str(given.body.by)) for given in item.others]
    style = _COLOURS.get(explained.standing, CARE)
    rows = [
        Text(shorten_text(title, width), "bold"),
        Text(shorten_text(f"{item.ruled.address}, {explained.point.time[:16].replace('T', ' ')} UTC", width), NAME),
        *_format_part("asked", [item.asked.replace("\n", " ")], width, 2 + spare // 3),
        *_format_part("call", parts["asked"], width, 5 + spare // 3),
        *_format_part("ruling", [*ruling, *parts["ruling"]], width, 3 + spare // 6, style),
        *_format_part("numbers", parts["numbers"], width, 2),
        *_format_part("instead", parts["instead"], width, 3 + spare // 6),
        *_format_part("approved", item.approvals, width, 1),
        *_format_part("others", said, width, 1),
    ]
    if item.own is not None:
        rows += _format_part("yours", [_describe_label(item.own.body.label, item.own.body.comment)], width, 1)
    if comment:
        rows += _format_part("comment", [comment], width, 1)
    keys = [*pack_parts(_WAYS, width, "dim")]
    return [*rows[: max(2, height - 1 - len(keys))], *keys]


def _describe_label(label: str, comment: str, by: str = "") -> str:
    return f"{label}{f' by {by}' if by else ''}{f': {comment}' if comment else ''}"


def _format_part(label: str, sentences: Iterable[str], width: int, most: int, style: str = "") -> list[Text]:
    """Return sentences behind a label in `most` lines; the last says so where there are more."""
    rows = list(islice(_format_sentences(label, sentences, width, style), most + 1))
    if len(rows) > most:
        rows = rows[:most]
        kept = rows[-1]
        kept.truncate(width - 2)
        kept.append(" …", "dim")
    return rows


def _format_sentences(label: str, sentences: Iterable[str], width: int, style: str) -> Iterator[Text]:
    for number, sentence in enumerate(sentences):
        yield from format_labelled("" if number else label, sentence, width, style)
