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

    @property
    def checkable(self) -> bool:
        """Whether a survey would show that something else is to be seen now."""
        resources = self.survey.resources
        return bool(resources) and all(resource.hash or not resource.exists for resource in resources)
