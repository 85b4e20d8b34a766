"""Reads that were made before the calls they may answer were judged."""

from __future__ import annotations

from msgspec import Struct

from foregate.schemas.tool_call import Survey, ToolResult


class PrefetchedResult(Struct, frozen=True):
    """What an early read showed, the event of its own judgement, and how its resources stood then."""

    judged: int
    survey: Survey
    result: ToolResult

    @property
    def is_checkable(self) -> bool:
        """Whether a survey would show that something else is to be seen now."""
        resources = self.survey.resources
        return bool(resources) and all(resource.hash or not resource.exists for resource in resources)


class PrefetchedResults(dict[tuple[int, str], PrefetchedResult]):
    """What was read early in this process, by the response it was read for and the digest of the call.

    A process that ends forgets it: the call is then read again.
    """

    def forget_uncheckable(self) -> None:
        """Forget what no survey could check."""
        for key in [key for key, found in self.items() if not found.is_checkable]:
            del self[key]
