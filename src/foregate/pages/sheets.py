"""The sheet of a question as the person saw it: laid out again from what was asked, by the terminal's own code."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from foregate.agent.effects.kept_previews import decode_previews
from foregate.cli.terminal.approval_rows import format_asked
from foregate.cli.terminal.sheet import build_sheet
from foregate.pages.decision_views import SheetView
from foregate.pages.texts import VisibleText
from foregate.pages.views import AnswerView
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import NeedRaised
from foregate.schemas.protocols import Blobs
from foregate.schemas.strict_json import as_object

WIDTH = 80
ROWS = 600
"""Rows of a sheet with all its details that a page shows."""
_COLUMNS = 400
_GONE = "what was asked is not kept any more"


def build_sheet_view(blobs: Blobs | None, raised: NeedRaised, answer: AnswerView) -> SheetView:
    """Return the sheet of a question to a person, or why there is none to show."""
    nothing = VisibleText("")
    if blobs is None:
        return SheetView(answer, nothing, nothing, "the blobs are not at hand here")
    try:
        data = blobs.get(raised.request)
        if strict_json.sha256(data) != raised.request:
            return SheetView(answer, nothing, nothing, "what was asked was changed since; its hash does not fit")
        request = as_object(strict_json.parse(data.decode()))
        previews = decode_previews(blobs.get(raised.previews)) if raised.previews else {}
        need = strict_json.load(type(raised.need), {**strict_json.dump(raised.need), "request": request})
        first = build_sheet(request, previews, width=WIDTH).rows if need.gate == "approval" else ()
        return SheetView(answer, _lay_out(first), _lay_out(format_asked(need, previews, WIDTH)))
    except (ForegateError, UnicodeDecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
        return SheetView(answer, nothing, nothing, f"{_GONE} ({type(error).__name__})")


def _lay_out(rows: Iterable[Text]) -> VisibleText:
    shown: list[str] = []
    for row in rows:
        if len(shown) == ROWS:
            shown.append("… more rows stand in the log")
            break
        shown.append(row.plain.rstrip()[:_COLUMNS])
    return VisibleText("\n".join(shown))
