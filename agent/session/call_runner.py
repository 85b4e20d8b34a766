"""What carries out what was judged: nothing else of the loop reaches the world once a call has been surveyed."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from foregate.agent.session.result import CallNotStarted
from foregate.evidence.state.task import OpenSandbox
from foregate.schemas.event import Actor
from foregate.schemas.event_body import SandboxEnded
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import CallFacts, Permit, Survey, ToolResult


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


class CallRunner(Protocol):
    """Of one session: runs calls by their permits, and keeps, applies or throws away what a sandbox changed."""

    async def execute(
        self,
        permit: Permit,
        facts: CallFacts,
        actor: Actor = "model",
        *,
        early: bool = False,
        prefetched: PrefetchedResult | None = None,
    ) -> ToolResult | CallNotStarted:
        """Run a call and record that; return its result, or why it was not started. Raises NoPermit without leave."""

    async def survey_changes(self, ended: OpenSandbox, found: SandboxedChanges, command: CallFacts) -> Survey:
        """Return the survey of what a sandbox changed; `command` is how the call itself was judged."""

    async def apply(
        self, permit: Permit, facts: CallFacts, ended: OpenSandbox, found: SandboxedChanges
    ) -> ToolResult | CallNotStarted:
        """Put into the workspace what a sandbox changed and record that; raises NoPermit without leave."""

    def find_changes(self, ended: SandboxEnded) -> SandboxedChanges | None:
        """Return what a program changed in its sandbox, None where that is gone."""

    async def discard(self, found: SandboxedChanges) -> None:
        """Throw away what a sandbox holds."""

    def format_changes(self, found: SandboxedChanges) -> str:
        """Return the difference a sandbox would make, as the model is shown it."""
