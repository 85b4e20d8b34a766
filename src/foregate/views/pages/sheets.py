"""The sheet of a question as the person saw it: laid out again from what was asked, by the terminal's own code."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace
from rich.text import Text

from foregate.agent.effects.stored_previews import decode_previews
from foregate.agent.effects.undo import Preview
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import NeedRaised
from foregate.schemas.strict_json import Json, as_object
from foregate.views.pages.decision_views import SheetView
from foregate.views.pages.kept import KeptBytes
from foregate.views.pages.texts import VisibleText
from foregate.views.pages.views import AnswerView
from foregate.views.terminal.approval_rows import format_asked
from foregate.views.terminal.sheet import build_sheet

WIDTH = 80
ROWS = 600
"""Rows of a sheet with all its details that a page shows."""
_COLUMNS = 400
_GONE = "what was asked is not kept any more, or is not what it was"


def build_sheet_view(kept: KeptBytes, raised: NeedRaised, answer: AnswerView) -> SheetView:
    """Return the sheet of a question to a person, or why none can be shown."""
    nothing = VisibleText("")
    if not kept.is_at_hand:
        return SheetView(answer, nothing, nothing, "the blobs are not at hand here")
    data = kept.find(raised.request)
    if data is None:
        return SheetView(answer, nothing, nothing, _GONE)
    try:
        request = as_object(_read_masked(data, kept))
        previews = _read_previews(raised.previews, kept)
        need = strict_json.load(type(raised.need), {**strict_json.dump(raised.need), "request": request})
        first = build_sheet(request, previews, width=WIDTH).rows if need.gate == "approval" else ()
        whole = format_asked(need, previews, WIDTH)
        return SheetView(answer, *(VisibleText(kept.hide(_lay_out(rows))) for rows in (first, whole)))
    except (ForegateError, UnicodeDecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
        return SheetView(answer, nothing, nothing, f"{_GONE} ({type(error).__name__})")


def _read_masked(data: bytes, kept: KeptBytes) -> Json:
    return strict_json.parse(kept.mask(data).decode())


def _read_previews(hash_: str, kept: KeptBytes) -> dict[str, Preview]:
    """Return what the calls would have changed, the contents of their files masked."""
    data = kept.find(hash_) if hash_ else None
    return {call: _mask_preview(preview, kept) for call, preview in decode_previews(data).items()} if data else {}


def _mask_preview(preview: Preview, kept: KeptBytes) -> Preview:
    changes = tuple(
        replace(change, before=kept.mask(change.before), after=kept.mask(change.after)) for change in preview.changes
    )
    return replace(preview, changes=changes)


def _lay_out(rows: Iterable[Text]) -> str:
    shown: list[str] = []
    for row in rows:
        if len(shown) == ROWS:
            shown.append("… more rows stand in the log")
            break
        shown.append(row.plain.rstrip()[:_COLUMNS])
    return "\n".join(shown)
