"""How a task ended or paused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from foregate.agent.tools.tool_source import WrappedToolSource
from foregate.policy.policy import Policy
from foregate.schemas.event_body import Report
from foregate.schemas.protocols import RunContext, ToolSource
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import Origin, Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, ToolSpec


class RunResult(Struct, frozen=True):
    """The end of a task, or its pause.

    `status` is completed, blocked, budget_exhausted, cancelled, failed, or a pause: needs_input, awaiting_approval,
    or paused where a plan is under way.

    `text` is the answer, or the question of a pause. `remark` is the line by Foregate the answer ends with, if any.
    `used` is what a child task spent.
    """

    status: str
    text: str = ""
    report: Report = field(default_factory=Report)
    remark: str = ""
    used: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_paused(self) -> bool:
        """Whether the task goes on with the next message or answer."""
        return self.status in ("needs_input", "awaiting_approval")

    @property
    def model_text(self) -> str:
        """What of `text` the model said itself."""
        return "" if self.is_paused else self.text.removesuffix(self.remark).strip()


class PlanDriver(Protocol):
    """Takes the open task of its session through the plan the log asks for."""

    async def drive_task(self) -> RunResult:
        """Make the plan the task wants, have it confirmed, run it; from wherever the log says that this stands."""

    def pause(self) -> bool:
        """Let a plan that runs pause after the call in hand; whether one runs."""


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


DELEGATE = ToolSpec(
    "delegate",
    "Hand a self-contained part of the work to a helper with the same tools and rules; it answers in words.",
    {
        "type": "object",
        "properties": {
            "task": {"type": "string", "minLength": 1, "description": "What to do, with all it needs to know."}
        },
        "required": ["task"],
    },
    Effect.OBSERVATION,
    OBSERVER,
    (),
    "builtin",
    timeout=24 * 3600,
)
"""An observation of its own: each call of the child is judged in the child's log."""


def may_delegate(policy: Policy, depth: int = 0) -> bool:
    """Whether a task `depth` levels below a person's has `delegate`."""
    return depth < policy.limits.child_depth


class ChildPaused(BaseException):
    """A child waits for a person, so its parent pauses; no error, and nothing that handles errors may stop it."""

    def __init__(self, outcome: RunResult) -> None:
        super().__init__(outcome.status)
        self.outcome = outcome


class RunChild(Protocol):
    """Runs a task one deeper than a session's own."""

    async def __call__(self, text: str, *, name: str = "") -> RunResult:
        """Run `text` in the log `name`, which may be there already; return how it ended or paused."""


class DelegatingTools(WrappedToolSource):
    """A tool source with `delegate` added, whose children have logs named after `session`, the one that asks."""

    def __init__(self, tools: ToolSource, session: str, run: RunChild) -> None:
        super().__init__(tools)
        self._session, self._run = session, run

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of the source, and `delegate`."""
        return [*self.inner.specs(), DELEGATE]

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Run the call, or the child task it asks for; a child's name follows from the call, so it can be resumed."""
        if call.name != DELEGATE.name:
            return await self.inner.run(call, context)
        assert call.arguments is not None
        outcome = await self._run(get_text(call.arguments, "task"), name=f"{self._session}.{call.id}")
        if outcome.is_paused:
            raise ChildPaused(outcome)
        ok = outcome.status == "completed"
        text = outcome.text if ok else f"{outcome.status}: {outcome.report.blocker or outcome.text}"
        return ToolResult(ok, text, origin=Origin.EXTERNAL, error="" if ok else outcome.status, used=outcome.used)
