"""A session: one log, and the parts that work on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from foregate.agent.session.interaction import Interaction
from foregate.agent.session.next_policy import FollowPolicy
from foregate.agent.session.permissions import Permissions
from foregate.agent.session.prompts import PROMPTS_HASH, SYSTEM
from foregate.agent.session.result import DELEGATE, PlanDriver, RunResult
from foregate.agent.session.session_log import Clock, Listener, SessionLog, Subscription, fold_session, utc_now
from foregate.agent.session.turn_builder import CallRunner, PrefetchedResults, TurnBuilder
from foregate.agent.survey.call_surveyor import CallSurveyor
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.declarations import Declarations
from foregate.agent.tools.git_push import read_remotes
from foregate.agent.workspace.secret_values import FileSecrets
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.support.declaring import collect_declared
from foregate.gates.support.permitting import read_permitted
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, UsageError, WorkspaceError
from foregate.schemas.event import Actor, Draft
from foregate.schemas.event_body import (
    CatalogChanged,
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
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.plan import Leave, SharedUses
from foregate.schemas.protocols import Blobs, Lease, Log, Model, Person, ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import (
    Catalogue,
    ToolSpec,
    build_catalogue,
    hash_catalogue,
)
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.telemetry.log.masking import Hidden, Secret

COUNTED = ("turns", "model_calls", "tool_calls", "tokens", "cost")
"""What a task uses up, by the names of its limits."""


Delegate = Callable[["Session", str, str], Awaitable[RunResult]]
"""Runs a text as a child task of a session, in a log of the name given, "" for one of its choice."""


class Session:
    """A session with one log: `start` begins it, `resume` continues it. Everything is recorded before it has an effect.

    `log` records and is subscribed to, `turns` builds what the judge reads, `interaction` asks advisors and the person.
    `state` is the fold of a log that is resumed, None for a new one. `delegate` runs child tasks; without it there
    are none, and the tool `delegate` is not offered. `plan_driver` makes what takes a task through a plan. With
    `prefetch` reads may begin while a response still arrives. `on_text` follows the words of each response. `preview`
    writes down what the calls of a question would change, so that it can be shown where nothing can be looked at. `by`
    is who runs the session, None where nobody says. `call_runner` does what was judged, None for this machine's own.
    `follow_policy` is asked between two turns for another policy.
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
        declarations: Declarations | None = None,
        permissions: Permissions | None = None,
        preview: Callable[[Session, Need], bytes] = lambda session, need: b"",
        by: Identity | None = None,
        call_runner: CallRunner | None = None,
        follow_policy: FollowPolicy | None = None,
    ) -> None:
        self.state = SessionState() if state is None else state
        self._left = dict(self.state.in_flight)
        self.secrets = secrets
        self._read_secrets(policy, workspace)
        # Asked for at every call, and worked out here, so that the first call does not wait for it.
        _ = policy.words_hash
        self.log = SessionLog(log, lease, self.state, policy.hash, lambda: self.hidden, clock, by)
        for listener in listeners:
            self.log.subscribe(listener)
        self.record = self.log.record
        self.blobs, self.model, self.policy, self.workspace, self.depth = blobs, model, policy, workspace, depth
        self.layers: Mapping[str, Json] = {"given": True} if layers is None else layers
        self.delegate, self.prefetch, self.on_text = delegate, prefetch, on_text
        self.name, self.person, self.clock, self.call_runner = lease.session, person, clock, call_runner
        self.tools = tools.for_session(lease.session)
        self.delegates = delegate is not None and depth < policy.limits.child_depth
        self.prefetched = PrefetchedResults()
        self._preview = preview
        self.interaction = Interaction(self.log, blobs, model, policy, person, self.prefetched, partial(preview, self))
        self.declarations = declarations if declarations is not None else Declarations(None)
        self.permissions = permissions if permissions is not None else Permissions(None, "")
        self._offered, self._declared = self.tools.specs(), self.declarations.count
        self._use_catalogue(self._build_catalogue())
        self.plan_driver = plan_driver(self) if plan_driver is not None else None
        self._follow_policy = follow_policy
        self.outcome = RunResult("cancelled")
        """How the last task ended or paused."""
        self.work: asyncio.Task[Any] | None = None
        """What takes the steps of this session, or of the one that handed it its task, just now."""
        self.cancelled: asyncio.CancelledError | None = None
        """The cancel that came too late for a step to be stopped by it; it is raised once that is over."""

    def _read_secrets(self, policy: Policy, workspace: Workspace) -> None:
        self._patterns = policy.sensitive.expressions
        self._of_files = FileSecrets(workspace.root, policy) if workspace.root != Path("/") else None

    async def start(self, **known: Any) -> None:
        """Write the first event, by which all can be judged again; `known` are further fields of SessionStarted."""
        await self.record(await self.draft_start(**known))

    async def draft_start(self, **known: Any) -> Draft:
        """Return the first event; `known` are further fields of SessionStarted."""
        tools = self.catalogue_event
        if "remotes" not in known and "git_push" in self.catalogue and self.policy.mandate.mode != "off":
            known["remotes"] = await asyncio.to_thread(read_remotes, self.workspace, self.policy)
        body = SessionStarted(
            workspace=str(self.workspace.root),
            model=self.model.name,
            system=SYSTEM,
            prompts_hash=PROMPTS_HASH,
            catalogue=tools.catalogue,
            catalogue_hash=tools.catalogue_hash,
            policy=self.policy.recorded,
            layers=dict(self.layers),
            depth=self.depth,
            by=self.log.by,
            **known,
        )
        return Draft(body, "foregate")

    def _build_catalogue(self) -> dict[str, ToolSpec]:
        own = self.declarations.apply(self._offered)
        return build_catalogue([*own, *([DELEGATE] if self.delegates else [])])

    def _use_catalogue(self, catalogue: dict[str, ToolSpec]) -> None:
        self.catalogue: dict[str, ToolSpec] = catalogue
        self.prelude: Prelude = build_prelude(self.policy, catalogue)
        self.surveyor = self.build_surveyor(catalogue)
        self.turns = TurnBuilder(
            self.log, self.surveyor, self.prelude, self.policy, depth=self.depth, attended=self.person is not None
        )

    def build_surveyor(self, catalogue: Catalogue) -> CallSurveyor:
        """Return what looks at calls before they are judged."""
        return Surveyor(self.workspace, self.tools, self.policy, catalogue)

    @property
    def hidden(self) -> Hidden:
        """What is masked: Foregate's own secrets, those in the workspace's secret files as last read, and patterns."""
        return (*self.secrets, *(self._of_files.values if self._of_files is not None else ()), *self._patterns)

    def read_hidden(self) -> Hidden:
        """Return the same, with the secret files read anew where they have changed."""
        if self._of_files is not None:
            self._of_files.find()
        return self.hidden

    @property
    def catalogue_event(self) -> CatalogChanged:
        """The tools as the log has them, and their hash."""
        catalogue = tuple(self.catalogue.values())
        return CatalogChanged(catalogue=catalogue, catalogue_hash=hash_catalogue(catalogue))

    async def update_catalogue(self) -> None:
        """Take note of tools that are gone or declared: what comes next is offered without them, and judged so."""
        offered = self.tools.specs()
        if offered is self._offered and not self.has_declared:
            return
        self._offered, self._declared = offered, self.declarations.count
        catalogue = self._build_catalogue()
        if list(catalogue.values()) != list(self.catalogue.values()):
            self._use_catalogue(catalogue)
            await self.record(Draft(self.catalogue_event, "foregate"))

    @property
    def has_declared(self) -> bool:
        """Whether a person has declared a tool, here or in a child task, and the catalogue does not know it yet."""
        return self._declared != self.declarations.count

    async def update_permissions(self) -> None:
        """Take note of permissions that were given or taken away, here or elsewhere: from now on they are in force."""
        kept = self.permissions.list_given()
        if kept != self.state.permissions:
            await self.record(Draft(PolicyChanged(permissions=kept), "foregate"))

    async def update_policy(self) -> None:
        """Take note of another policy: what is judged from now on is judged by it. To be called between two turns.

        One that cannot be used is only told of: the policy in force stays.
        """
        found = self._follow_policy() if self._follow_policy is not None else ""
        if isinstance(found, str):
            if found:
                await self.record(Draft(PolicyChanged(refused=strict_json.scrub(found)), "foregate"))
            return
        self.policy, self.layers = found.policy, found.layers
        self.log.policy_hash, self.interaction.policy = found.policy.hash, found.policy
        self.secrets = tuple(dict.fromkeys((*self.secrets, *found.secrets)))
        self._read_secrets(found.policy, self.workspace)
        await asyncio.to_thread(self.read_hidden)
        if found.tools is not None:
            self.tools = found.tools.for_session(self.name)
        self.delegates = self.delegate is not None and self.depth < found.policy.limits.child_depth
        self._offered = self.tools.specs()
        catalogue = self._build_catalogue()
        other = list(catalogue.values()) != list(self.catalogue.values())
        self._use_catalogue(catalogue)
        await self.record(*self.draft_policy(), *([Draft(self.catalogue_event, "foregate")] if other else []))

    def draft_policy(self) -> list[Draft]:
        """Return the policy where it is another than the log's last: before all else, for every event names its own."""
        if (before := self.state.policy_hash) == self.policy.hash:
            return []
        body = PolicyChanged(policy=self.policy.recorded, layers=dict(self.layers), before=before)
        return [Draft(body, "foregate")]

    def keep_answer(self, answer: Answer, need: Need) -> None:
        """Keep what an answer says beyond its calls: what tools do, and what is permitted from now on."""
        if answer.value is None or (answer.expires_at and answer.at > answer.expires_at):
            return
        self.keep_declarations(answer, need)
        if permitted := read_permitted(answer, need.request):
            try:
                by = self._name_answerer()
                self.permissions.keep(permitted, at=answer.at, session=self.name, seq=answer.seq, by=by)
            except WorkspaceError as error:
                get_diagnostics().warning("permission_not_kept", why=str(error))

    def keep_declarations(self, answer: Answer, need: Need) -> None:
        """Keep what the person declared with an answer; it holds from the next response on, whose log says so."""
        by, tools = self._name_answerer(), (self.catalogue, self.policy)
        if not (kept := collect_declared(answer.value or {}, need.request, answer.at, by, *tools)):
            return
        try:
            self.declarations.keep(kept, self.catalogue)
        except WorkspaceError as error:
            get_diagnostics().warning("declaration_not_kept", why=str(error))

    def _name_answerer(self) -> str:
        by = self.interaction.answered_by
        return by.user if by is not None else ""

    @property
    def running_calls(self) -> list[str]:
        """The calls that run just now; what an earlier process left, perhaps to be run again, is none of them."""
        return [call for call, started in self.state.in_flight.items() if self._left.get(call) is not started]

    def subscribe(self, listener: Listener) -> Subscription:
        """Tell `listener` of every event recorded from now on, until the subscription ends."""
        return self.log.subscribe(listener)

    async def run_child(self, text: str, *, name: str = "") -> RunResult:
        """Run a task one deeper, in a log of its own, with this session's policy, refusals and what budget is left.

        Raises UsageError for a session without `delegate`, and where the policy's depth is reached.
        """
        if self.delegate is None:
            raise UsageError("this session runs no child tasks; open it with `delegate`")
        return await self.delegate(self, text, name)

    def build_child(
        self, lease: Lease, policy: Policy, layers: Mapping[str, Json], state: SessionState | None
    ) -> Session:
        """Return the session of a child task, which has this one's parts and a log of its own.

        `state` is the fold of that log where it is resumed, None for a new one.
        """
        return Session(
            log=self.log.store,
            lease=lease,
            blobs=self.blobs,
            model=self.model,
            tools=self.tools,
            policy=policy,
            layers=layers,
            workspace=self.workspace,
            state=state,
            person=self.person,
            clock=self.clock,
            listeners=self.log.listeners,
            depth=self.depth + 1,
            delegate=self.delegate,
            prefetch=self.prefetch,
            secrets=self.secrets,
            declarations=self.declarations,
            permissions=self.permissions,
            preview=self._preview,
            by=self.log.by,
        )

    def name_child(self, call: str) -> str:
        """Return the name of the child task that a call starts: it follows from the call, so that it can be resumed."""
        return f"{self.name}.{call}"

    def build_leave(self, child: str) -> Leave | None:
        """Return what the child task of this name may use of the mandate, None where no call has started it."""
        task, open_ = self.state.task, self.state.open
        if task is None or open_ is None:
            return None
        call, outside = child.removeprefix(self.name_child("")), bool(self.state.outside_since)
        return task.uses.build_leave(call, task.plan, open_.unanswered, outside=outside)

    async def read_shared(self, call: str) -> SharedUses | None:
        """Return what the child task that a call started has used of the mandate, None where that is unknown."""
        try:
            return (await fold_session(self.log.store, self.name_child(call))).shared
        except LogError:
            return None

    async def record_message(self, text: str, actor: Actor = "user", **begins: Any) -> None:
        """Record a message; it answers what was asked, or starts a task with further fields of TaskStarted."""
        begun = TaskStarted(task=self.state.tasks + 1, depth=self.depth, **begins)
        drafts = [Draft(begun, "foregate")] if self.state.task is None else []
        await self.record(*drafts, Draft(UserMessage(text=strict_json.scrub(text)), actor))

    async def end_task(
        self, status: Status, text: str = "", *, remark: str = "", blocker: str = "", need: str = ""
    ) -> RunResult:
        """Record the end of the task and return it; anything but completed reports what stands and what is next."""
        task = self.state.running_task
        report = Report()
        if status != "completed":
            step = need or "say how to go on, or ask for something smaller"
            report = Report(tuple(task.done), blocker or status, step, "send another message to go on")
        text = f"{text}\n\n{remark}" if remark else text
        used = {name: task.used[name] for name in COUNTED}
        duration = task.count_active_seconds(self.clock())
        body = TaskEnded(status=status, text=text, duration=duration, note=blocker, report=report, **used)
        await self.record(Draft(body, "foregate"))
        self.outcome = RunResult(status, text, report, remark)
        await self.log.settle()
        return self.outcome

    async def pause(self, outcome: RunResult) -> RunResult:
        """Record that the task waits for a person, and return the outcome it pauses with."""
        self.outcome, asks = outcome, outcome.status == "needs_input"
        body = TaskPaused(reason=cast(PauseReason, outcome.status), question=outcome.text if asks else None)
        await self.record(Draft(body, "foregate"))
        await self.log.settle()
        return outcome

    async def close(self, *, end: bool = True) -> None:
        """Give the session back; with `end` its log is complete, and says so."""
        if end and not self.state.ended and not self.log.is_empty:
            events = self.state.seq + self.log.prepared + 1
            await self.record(Draft(SessionEnded(events=events), "foregate"))
        await self.log.settle()
        await self.log.store.release(self.log.lease)
