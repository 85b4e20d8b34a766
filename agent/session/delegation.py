"""The tool `delegate`: how a model hands a part of its work to a child task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foregate.agent.session.result import RunResult
from foregate.agent.tools.tool_source import WrappedToolSource
from foregate.policy.policy import Policy
from foregate.schemas.protocols import RunContext, ToolSource
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import Origin, ToolCall, ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, ToolSpec

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
