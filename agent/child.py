"""Child tasks: one deeper, in a log of their own, never allowed more than the task that started them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foregate.agent.tools.tool import found_there, implied_by
from foregate.policy.policy import Policy
from foregate.policy.record import narrowed
from foregate.schemas import codec
from foregate.schemas.capabilities import OBSERVER
from foregate.schemas.effect import Effect
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import Draft
from foregate.schemas.evidence_record import Origin
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.survey import Survey
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_result import ToolResult
from foregate.schemas.tool_spec import ToolSpec

if TYPE_CHECKING:
    from foregate.agent.outcome import Outcome
    from foregate.agent.session import Session
    from foregate.agent.task_state import TaskState

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

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.status)
        self.outcome = outcome


class Delegating:
    """A tool source with `delegate` added, which runs a child of `session`."""

    def __init__(self, tools: ToolSource, session: Session) -> None:
        self._tools, self._session = tools, session

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of the source, and `delegate`."""
        return [*self._tools.specs(), DELEGATE]

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the source's view; `delegate` has none."""
        return None if call.name == DELEGATE.name else self._tools.classify(call)

    def implied(self, call: ToolCall) -> Mapping[str, Json]:
        """Return what the source's tool would fill into a call; `delegate` fills in nothing."""
        return {} if call.name == DELEGATE.name else implied_by(self._tools, call)

    def found_there(self, call: ToolCall) -> Survey | None:
        """Return what the source found where its tools run."""
        return found_there(self._tools, call)

    async def run(self, call: ToolCall) -> ToolResult:
        """Run the call, or the child task it asks for; a child's name follows from the call, so it can be resumed."""
        if call.name != DELEGATE.name:
            return await self._tools.run(call)
        assert call.arguments is not None
        name = f"{self._session.lease.session}.{call.id}"
        outcome = await child(self._session, call.arguments["task"], name)
        if outcome.paused:
            raise ChildPaused(outcome)
        ok = outcome.status == "completed"
        text = outcome.text if ok else f"{outcome.status}: {outcome.report.blocker or outcome.text}"
        return ToolResult(ok, text, origin=Origin.EXTERNAL, error="" if ok else outcome.status, used=outcome.used)


async def child(session: Session, text: str, name: str = "") -> Outcome:
    """Run `text` as a child task of the session's open task; a child that exists already goes on from its log.

    A child that paused with a question takes the parent's newest message as the answer.
    Raises UsageError where the policy's depth is reached, LogError where that child has ended already.
    """
    from foregate.agent.loop import go_on
    from foregate.agent.session import Session

    parent = session.state.task
    if not may_delegate(session.policy, session.depth):
        raise UsageError("a child task would be deeper than policy limits.child_depth allows")
    spent = spent_by(parent, session.clock()) if parent is not None else {}
    name = name or f"{session.lease.session}.{session.state.seq}"
    known = name in await session.log.sessions()
    lease = await session.log.claim(name, create=not known)
    inner = Session(
        log=session.log,
        lease=lease,
        blobs=session.blobs,
        model=session.model,
        tools=session.own_tools,
        policy=narrowed(session.policy, spent),
        layers={**session.layers, "spent": [*session.layers.get("spent", ()), spent]},
        workspace=session.workspace,
        person=session.person,
        clock=session.clock,
        listeners=session.listeners,
        depth=session.depth + 1,
    )
    inner.early = session.early
    try:
        if known:
            await inner.resume()
        else:
            spoken = {"dialect": session.state.dialect} if session.state.dialect != "native" else {}
            await inner.start(parent=session.lease.session, parent_event=session.state.seq, **spoken)
        if session.state.dialect != inner.state.dialect:
            await inner.record(Draft("policy_changed", "parent", {"dialect": session.state.dialect}))
        if session.state.dry_run and not inner.state.dry_run:
            await inner.record(Draft("policy_changed", "parent", {"dry_run": True}))
        if session.state.mode != "direct" and inner.state.mode != "plan":
            await inner.record(Draft("policy_changed", "parent", {"mode": "plan"}))  # what it does, nobody confirmed
        if inner.state.tasks == 0:
            await introduce(inner, parent, text)
        if inner.state.task is None:
            raise LogError(f"the child task `{name}` has ended already; start another")
        if inner.state.task.paused == "needs_input" and parent is not None:
            await inner.hear(parent.messages[-1].text, "user")
        return replace(await go_on(inner), used=inner.state.spent)
    finally:
        await inner.close(end=inner.state.task is None)


async def introduce(inner: Session, parent: TaskState | None, text: str) -> None:
    """Start the child's task: the person's words as the person's, the task itself as the parent's."""
    refusals = [codec.dump(refusal) for refusal in parent.refusals] if parent else []
    said = [message.text for message in parent.messages if message.actor == "user"] if parent else []
    for number, words in enumerate(said):
        await inner.hear(words, "user", **({"refusals": refusals} if number == 0 else {}))
    await inner.hear(text, "parent", **({} if said else {"refusals": refusals}))


def spent_by(parent: TaskState, now: str) -> dict[str, dict[str, int]]:
    """Return what the parent task has used of each limit, by the limit's section and name."""
    used = parent.counters
    return {
        "limits": {
            "turns": used.turns,
            "model_calls": used.model_calls,
            "tool_calls": used.tool_calls,
            "tokens": used.tokens,
            "cost": used.cost,
            "wall_clock": parent.elapsed(now),
        },
        "safety": {"model_calls": used.safety_calls, "rounds": used.safety_rounds},
    }
