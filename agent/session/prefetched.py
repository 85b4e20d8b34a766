"""Reads that were made before the calls they may answer were judged."""

from __future__ import annotations

from collections.abc import Mapping

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


class PrefetchedResults:
    """What was read early in this process, by the response it was read for and the digest of the call.

    A process that ends forgets it: the call is then read again.
    """

    def __init__(self) -> None:
        self._results: dict[tuple[int, str], PrefetchedResult] = {}

    def keep(self, response: int, results: Mapping[str, PrefetchedResult]) -> None:
        """Keep what was read for the response at an event, by digest, instead of all before."""
        self._results = {(response, digest): result for digest, result in results.items()}

    def take(self, response: int, digest: str) -> PrefetchedResult | None:
        """Return what was read for a call and forget it, None where there is nothing: it serves once."""
        return self._results.pop((response, digest), None)

    def forget(self, *, checkable: bool = True) -> None:
        """Forget everything, or what no survey could check where `checkable` results may stay."""
        self._results = {key: found for key, found in self._results.items() if not checkable and found.is_checkable}
