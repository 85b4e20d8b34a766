"""A session: one log, and the parts that work on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct

from foregate.agent.session.prompts import PROMPTS_HASH, SYSTEM
from foregate.agent.session.result import DELEGATE, PlanDriver, PrefetchedResult, RunResult
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.gates.prelude import Prelude, build_prelude
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Actor, Draft, Event
from foregate.schemas.event_body import (
    CatalogChanged,
    OutcomeUnknown,
    PauseReason,
    PolicyChanged,
    Report,
    SessionEnded,
    SessionStarted,
    Status,
    TaskEnded,
    TaskPaused,
    TaskStarted,
    UserMessage,
)
from foregate.schemas.judgement import Judgement
from foregate.schemas.protocols import Blobs, Lease, Log, Model, Person, ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import ToolSpec, build_catalogue, hash_catalogue
from foregate.schemas.turn import Refusal, Turn
from foregate.telemetry.log.masking import Hidden, Secret, mask_draft

Clock = Callable[[], str]
Listener = Callable[[Event], None]
COUNTED = ("turns", "model_calls", "tool_calls", "tokens", "cost")
"""What a task uses up, by the names of its limits."""


def utc_now() -> str:
    """Return the time as UTC text with microseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """Return a second as UTC text: many events fall into one."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class Subscription(ExitStack):
    """A listener that is told of events; as a context it ends with the context, else with the session."""

    def end(self) -> None:
        """Tell the listener nothing more; doing it twice is harmless."""
        self.close()


class SessionLog:
    """The events of one session, under its lease. `state` is the fold over them and changes by nothing else.

    `policy_hash` goes into every event; `hidden` is masked before anything is written. `began_after` is the last event
    of earlier processes, 0 in a new session.
    """

    def __init__(
        self, store: Log, lease: Lease, state: SessionState, policy_hash: str, hidden: Hidden, clock: Clock
    ) -> None:
        self.store, self.lease, self.state = store, lease, state
        self._policy_hash, self._hidden, self._clock = policy_hash, hidden, clock
        self.listeners: list[Listener] = []
        self.began_after = state.seq

    async def record(self, *drafts: Draft) -> Sequence[Event]:
        """Mask what is hidden, append the events, fold them into the state, tell whoever subscribed."""
        kept = [mask_draft(draft, self._hidden) for draft in drafts]
        events = await self.store.append(self.lease, kept, policy=self._policy_hash, time=self._clock())
        for event in events:
            self.state.apply(event)
            for listener in tuple(self.listeners):  # one may end its own subscription
                listener(event)
        return events

    async def settle(self) -> None:
        """Return when everything recorded is durable; raise LogError when it cannot be."""
        await self.store.settle(self.lease)

    async def read(self, *, after: int = 0, limit: int = 0) -> Sequence[Event]:
        """Return the session's events with a number above `after`, in order; `limit` 0 is all."""
        return await self.store.read(self.lease.session, after=after, limit=limit)


Delegate = Callable[["Session", str, str], Awaitable[RunResult]]
"""Runs a text as a child task of a session, in a log of the name given, "" for one of its choice."""
Facts = Mapping[str, CallFacts]
"""What was computed of calls, by call id."""


class TurnInHand(Struct, frozen=True):
    """A turn on its way: what the judge reads, what was computed, the judgement once there is one, and its event."""

    turn: Turn
    facts: Facts
    judgement: Judgement | None = None
    judged: int = 0


class Session:
    """A session with one log: `start` begins it, `resume` continues it. Everything is recorded before it has an effect.

    `log` records and is subscribed to; `prefetched` is what was read early in this process, by the response it was read
    for and the digest of the call; `asked` is the turn a person is asked about just now, for whoever shows it.
    `state` is the fold of a log that is gone on with, None for a new one. `delegate` runs child tasks; without it there
    are none, and the tool `delegate` is not offered. `plan_driver` makes what takes a task through a plan. With
    `prefetch` reads may begin while a response still arrives. `on_text` follows the words of each response.
    """

    def __init__(
        self,
        *,
        log: Log,
        lease: Lease,
        blobs: Blobs,
        model: Model,
        tools: ToolSource,
        policy: Policy,
        workspace: Workspace,
        state: SessionState | None = None,
        person: Person | None = None,
        clock: Clock = utc_now,
        listeners: Sequence[Listener] = (),
        depth: int = 0,
        layers: Mapping[str, Json] | None = None,
        delegate: Delegate | None = None,
        plan_driver: Callable[[Session], PlanDriver] | None = None,
        prefetch: bool = False,
        on_text: Callable[[str], None] | None = None,
        secrets: tuple[Secret, ...] = (),
    ) -> None:
        self.state = SessionState() if state is None else state
        self.secrets = secrets
        self.hidden: Hidden = (*secrets, *policy.sensitive.patterns)
        self.log = SessionLog(log, lease, self.state, policy.hash, self.hidden, clock)
        self.log.listeners += listeners
        self.record = self.log.record
        self.blobs, self.model, self.policy, self.workspace, self.depth = blobs, model, policy, workspace, depth
        self.layers: Mapping[str, Json] = {"given": True} if layers is None else layers
        self.delegate, self.prefetch, self.on_text = delegate, prefetch, on_text
        self.name, self.person, self.clock = lease.session, person, clock
        self.tools = tools.for_session(lease.session)
        self.delegates = delegate is not None and depth < policy.limits.child_depth
        self.prefetched: dict[tuple[int, str], PrefetchedResult] = {}
        self.asked: TurnInHand | None = None
        self._offered = self.tools.specs()
        self._use_catalogue(self._build_catalogue())
        self.plan_driver = plan_driver(self) if plan_driver is not None else None

    async def start(self, **known: Any) -> None:
        """Write the first event, by which all can be judged again; `known` are further fields of SessionStarted."""
        tools = self.catalogue_event
        body = SessionStarted(
            workspace=str(self.workspace.root),
            model=self.model.name,
            system=SYSTEM,
            prompts_hash=PROMPTS_HASH,
            catalogue=tools.catalogue,
            catalogue_hash=tools.catalogue_hash,
            policy=self.policy.model_dump(mode="json"),
            layers=dict(self.layers),
            depth=self.depth,
            **known,
        )
        await self.record(Draft(body, "foregate"))

    def _build_catalogue(self) -> dict[str, ToolSpec]:
        return build_catalogue([*self._offered, *([DELEGATE] if self.delegates else [])])

    def _use_catalogue(self, catalogue: dict[str, ToolSpec]) -> None:
        self.catalogue: dict[str, ToolSpec] = catalogue
        self.prelude: Prelude = build_prelude(self.policy, catalogue)
        self.surveyor = Surveyor(self.workspace, self.tools, self.policy, catalogue)

    @property
    def catalogue_event(self) -> CatalogChanged:
        """The tools as the log has them, and their hash."""
        catalogue = tuple(self.catalogue.values())
        return CatalogChanged(catalogue=catalogue, catalogue_hash=hash_catalogue(catalogue))

    async def update_catalogue(self) -> None:
        """Take note of tools that are gone: what comes next is offered and judged without them."""
        offered = self.tools.specs()
        if offered is self._offered:
            return
        self._offered = offered
        catalogue = self._build_catalogue()
        if list(catalogue) != list(self.catalogue):
            self._use_catalogue(catalogue)
            await self.record(Draft(self.catalogue_event, "foregate"))

    def subscribe(self, listener: Listener) -> Subscription:
        """Tell `listener` of every event recorded from now on, until the subscription ends."""
        self.log.listeners.append(listener)
        subscription = Subscription()
        subscription.callback(self.log.listeners.remove, listener)
        return subscription

    async def run_child(self, text: str, *, name: str = "") -> RunResult:
        """Run a task one deeper, in a log of its own, with this session's policy, refusals and what budget is left.

        Raises UsageError for a session without `delegate`, and where the policy's depth is reached.
        """
        if self.delegate is None:
            raise UsageError("this session runs no child tasks; open it with `delegate`")
        return await self.delegate(self, text, name)

    async def record_message(
        self, text: str, actor: Actor = "user", *, plan: bool = False, refusals: tuple[Refusal, ...] | None = None
    ) -> None:
        """Record a message; it answers what was asked, or starts a task with `plan` and `refusals` (TaskStarted)."""
        begun = TaskStarted(task=self.state.tasks + 1, depth=self.depth, plan=plan, refusals=refusals)
        drafts = [Draft(begun, "foregate")] if self.state.task is None else []
        await self.record(*drafts, Draft(UserMessage(text=strict_json.scrub(text)), actor))

    async def end_task(
        self, status: Status, text: str = "", *, remark: str = "", blocker: str = "", need: str = ""
    ) -> RunResult:
        """Record the end of the task and return it; anything but completed reports what stands and what is next."""
        task = self.state.task
        assert task is not None
        report = Report()
        if status != "completed":
            step = need or "say how to go on, or ask for something smaller"
            report = Report(tuple(task.done), blocker or status, step, "send another message to go on")
        text = f"{text}\n\n{remark}" if remark else text
        used = {name: task.used[name] for name in COUNTED}
        duration = task.count_active_seconds(self.clock())
        body = TaskEnded(status=status, text=text, duration=duration, note=blocker, report=report, **used)
        await self.record(Draft(body, "foregate"))
        with suppress(asyncio.CancelledError):  # the task has ended, so there is nothing left to cancel
            await self.log.settle()
        return RunResult(status, text, report, remark)

    async def pause(self, outcome: RunResult) -> RunResult:
        """Record that the task waits for a person, and return the outcome it pauses with."""
        asks = outcome.status == "needs_input"
        body = TaskPaused(reason=cast(PauseReason, outcome.status), question=outcome.text if asks else None)
        await self.record(Draft(body, "foregate"))
        await self.log.settle()
        return outcome

    async def close(self, *, end: bool = True) -> None:
        """Give the session back; with `end` its log is complete, and says so."""
        if end and not self.state.ended:
            await self.record(Draft(SessionEnded(events=self.state.seq + 1), "foregate"))
        await self.log.settle()
        await self.log.store.release(self.log.lease)


PROCESS_ENDED = "the process ended while this was running"
"""Why an outcome is unknown of which nobody is left who might still bring it about."""


async def fold_session(log: Log, session: str) -> SessionState:
    """Return the state that the log of a session leads to."""
    state = SessionState()
    for event in await log.read(session):
        state.apply(event)
    return state


async def resume(session: Session) -> None:
    """Note what differs from the log the session goes on with, and park effects of unknown outcome."""
    state = session.state
    if state.policy_hash != session.policy.hash:
        policy = session.policy.model_dump(mode="json")
        body = PolicyChanged(policy=policy, layers=dict(session.layers), before=state.policy_hash)
        await session.record(Draft(body, "foregate"))
    changed = session.catalogue_event
    if state.catalogue_hash != changed.catalogue_hash:
        await session.record(Draft(changed, "foregate"))
    for call, started in list(state.in_flight.items()):
        if started.side_effect != "pure":
            lost = OutcomeUnknown(call=call, tool=started.tool, target=started.target, reason=PROCESS_ENDED)
            await session.record(Draft(lost, "foregate"))
    await session.log.settle()
