"""A look that was taken before the call it may answer was judged."""

from __future__ import annotations

from msgspec import Struct

from foregate.schemas.survey import Survey
from foregate.schemas.tool_result import ToolResult


class Look(Struct, frozen=True):
    """What a look showed, the event of its own judgement, and how its resources stood then."""

    judged: int
    survey: Survey
    result: ToolResult
