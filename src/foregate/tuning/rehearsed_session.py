"""A session that is played again: the real one with recorded answers and results, taken from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foregate.agent.loop.cancelling import cancel_task
from foregate.agent.loop.runner import run, run_child_task, run_to_outcome
from foregate.agent.loop.undo import UndoableChange, choose_change
from foregate.agent.planning.planner import make_plan, record_proposal
from foregate.agent.session.interaction import AbsentPerson
from foregate.agent.session.result import DELEGATE
from foregate.agent.session.session import Session
from foregate.agent.session.session_log import fold_session
from foregate.agent.tools.tool import BaseToolSource
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.evidence.state.lineage import begin_further
from foregate.evidence.state.recorded_turns import InForce
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import CatalogChanged, Checkpoint, EffectUndone, PolicyChanged, SessionEnded, TaskEnded
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.protocols import Lease, RunContext
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanProposed, PlanStepChanged
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.schemas.tool_spec import Catalogue, ToolSpec
from foregate.tuning.family_replay import FamilyReplay
from foregate.tuning.progress import Progress
from foregate.tuning.recorded_calls import RecordedInteraction, RecordedRunner, RecordedSurveyor
from foregate.tuning.recorded_model import RecordedModel, RehearsedPlan
from foregate.tuning.recorded_steps import (
    NothingRecorded,
    RecordedExecution,
    RecordedFailure,
    RecordedHalt,
    RecordedMessage,
    RecordedResponse,
    RecordedRetry,
    RecordedRound,
    RecordedSwitch,
    RecordingEnds,
    find_undone_call,
    name_undone_call,
)


class RecordedTools(BaseToolSource):
    """The tools that a session was offered; none of them runs. The session says whether child tasks are offered."""

    def __init__(self, catalogue: Sequence[ToolSpec]) -> None:
        self.offer(catalogue)

    def offer(self, catalogue: Sequence[ToolSpec]) -> None:
        """Offer these tools from now on."""
        self._offered = [spec for spec in catalogue if not _begins_child(spec)]

    def specs(self) -> Sequence[ToolSpec]:
        return self._offered

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        raise NothingRecorded(f"`{call.name[:64]}` would run, and nothing runs when a session is played again")


def _begins_child(spec: ToolSpec) -> bool:
    return spec.name == DELEGATE.name and spec.provenance == DELEGATE.provenance


class RehearsedSession(Session):
    """Runs through the loop like any other, in memory; `state` is that of its log so far, None for a new one."""

    def __init__(
        self,
        family: FamilyReplay,
        progress: Progress,
        policy: Policy,
        *,
        lease: Lease,
        layers: Mapping[str, Json],
        state: SessionState | None = None,
    ) -> None:
        self._family, self._progress = family, progress
        started, runner = progress.recording.started, RecordedRunner(progress, family)
        model = RecordedModel(progress, started.model, self.redo)
        self._call_runner, self._tools = runner, RecordedTools(started.catalogue)
        super().__init__(
            log=family.log,
            lease=lease,
            blobs=family.blobs,
            model=model,
            tools=self._tools,
            policy=policy,
            workspace=MemoryWorkspace(),
            state=state,
            person=AbsentPerson() if progress.recording.is_attended else None,
            clock=lambda: progress.now,
            listeners=[progress.take_event],
            depth=started.depth,
            layers=layers,
            delegate=run_child_task if self._may_delegate() else None,
            plan_driver=self._drive_plans if progress.recording.has_configuration else None,
            call_runner=runner,
        )
        runner.session = self
        self.interaction = RecordedInteraction(self.log, self.blobs, model, policy, progress)

    def _drive_plans(self, made: Session) -> RehearsedPlan:
        return RehearsedPlan(made, self._progress, self._family.policies, self.redo)

    @property
    def plans(self) -> RehearsedPlan:
        """What takes its tasks through their plans; raises NothingRecorded where no plan was made."""
        if not isinstance(self.plan_driver, RehearsedPlan):
            raise NothingRecorded("no plan was made in it")
        return self.plan_driver

    def _may_delegate(self) -> bool:
        """Whether child tasks were offered, or nothing but the policy kept them from being offered."""
        recording = self._progress.recording
        before = self._family.policies.restore(recording.first_in_force)
        offered = any(map(_begins_child, recording.started.catalogue))
        return offered or recording.started.depth >= before.limits.child_depth

    def build_child(
        self, lease: Lease, policy: Policy, layers: Mapping[str, Json], state: SessionState | None
    ) -> RehearsedSession:
        """Return the session of a child task that a call begins, played from its own recorded log."""
        call = lease.session.removeprefix(self.name_child(""))
        recorded = f"{self._progress.recording.name}.{self._progress.find_final_id(call)}"
        if state is not None and state.parked:
            raise NothingRecorded(f"the child task `{recorded}` resumes with a call whose outcome is unknown")
        progress = self._family.open_part(lease.session, recorded)
        return RehearsedSession(self._family, progress, policy, lease=lease, layers=layers, state=state)

    async def draft_start(self, **known: Any) -> Draft:
        """Return the first event as it was recorded, under the policy of now."""
        began = replace(self._progress.recording.started, policy=self.policy.recorded, **known)
        return Draft(began, "foregate")

    def build_surveyor(self, catalogue: Catalogue) -> RecordedSurveyor:
        found = RecordedSurveyor(self._progress, self._family.policies, self.policy, catalogue)
        self._call_runner.surveyor = found
        return found

    async def redo(self, step: RecordedSwitch | Event) -> None:
        """Record again what was switched, a mode, permissions or other tools, or that an effect was undone."""
        if isinstance(step, Event):
            if isinstance(step.body, (EffectUndone, Checkpoint)):
                await self._undo_again(step, step.body)
            return
        match step.event.body:
            case CatalogChanged(catalogue=catalogue):
                self._tools.offer(catalogue)
                await self.update_catalogue()
            case PolicyChanged() as body:
                if body.policy is not None and self._family.policies.replace(step.in_force).hash != self.policy.hash:
                    raise NothingRecorded("another policy file of the workspace came into force within a task")
                await self._switch_modes(body, step)
            case _:
                pass

    async def _switch_modes(self, body: PolicyChanged, step: RecordedSwitch) -> None:
        permitted = body.permissions
        # What a person permits at a sheet that nobody is shown now is not permitted.
        if permitted is not None:
            here, used = self.name, self._progress.used
            permitted = tuple(one for one in permitted if one.session != here or one.seq in used)
        again = replace(body, policy=None, layers=None, before=None, permissions=permitted)
        if again != PolicyChanged():
            await self.record(Draft(again, step.event.actor))

    async def _undo_again(self, step: Event, body: EffectUndone | Checkpoint) -> None:
        """Record again that an effect was undone; raise NothingRecorded where it is not there now, or not the newest.

        Whoever undid the newest change would undo another one where that is another one now.
        """
        recorded = find_undone_call(body)
        call = self._progress.find_present_id(recorded)
        if not call:
            raise NothingRecorded(f"what call `{recorded[:40]}` did was undone then, which has not run here")
        then = choose_change(self._progress.list_joined(step.seq), None)
        now = choose_change(await self.log.read_joined(), None)
        if _is_of(then, recorded) and not _is_of(now, call):
            raise NothingRecorded("the newest change was undone then, which is another one here")
        await self.record(Draft(name_undone_call(body, call), step.actor))

    async def update_permissions(self) -> None:
        """Do nothing: what was permitted is switched when it was."""

    def keep_answer(self, answer: Answer, need: Need) -> None:
        """Keep nothing: what an answer says beyond its calls was recorded as its outcome."""


def _is_of(change: UndoableChange | str, call: str) -> bool:
    return isinstance(change, UndoableChange) and change.call == call


_NOBODY_ANSWERED = "a question is asked here that nobody answered then"


async def play_session(family: FamilyReplay, name: str) -> None:
    """Play a session that no other one began, as far as the log goes."""
    try:
        await SessionPlayer(family, family.open_part(name, name)).play()
    except RecordingEnds:
        family.leave_open(name)
    except NothingRecorded as error:
        family.stop(name, str(error))


class SessionPlayer:
    """Takes a session through the steps of its recording."""

    def __init__(self, family: FamilyReplay, progress: Progress) -> None:
        self.family, self.progress = family, progress

    async def _begin(self, lease: Lease) -> RehearsedSession:
        state, before = None, self.progress.before
        if before:
            state = await fold_session(self.family.log, before[-1], before[:-1])
            begin_further(state)
        session = self._open(lease, self.progress.recording.first_in_force, state)
        if before:
            session.log.follow(before, await session.draft_start())
            await session.record()
        else:
            await session.start()
        return session

    async def play(self) -> None:
        """Play all steps; raise RecordingEnds or NothingRecorded where it stops before."""
        progress = self.progress
        lease = await self.family.log.claim(progress.recording.name, create=True)
        session = await self._begin(lease)
        while (step := progress.step) is not None:
            progress.at += not isinstance(step, (RecordedResponse, RecordedRound, RecordedFailure, RecordedHalt))
            match step:
                case RecordedMessage():
                    await self._send(session, step)
                case RecordedSwitch(event=Event(body=PolicyChanged(policy=policy))) if policy is not None:
                    session = await self._reopen(session, lease, step)
                case RecordedSwitch() | Event(body=EffectUndone() | Checkpoint()):
                    await session.redo(step)
                case Event(body=TaskEnded() as body):
                    await self._end(session, body)
                case RecordedExecution() | RecordedRetry() | Event():
                    progress.begin_part(step.seq, step.time)
                    await self._resume_plan(session, step)
                case RecordedHalt(why=why):
                    raise NothingRecorded(why)
                case _ if session.state.task is not None:
                    raise NothingRecorded(_NOBODY_ANSWERED)
                case _:
                    raise NothingRecorded("the task ends earlier than then, and what came after that is not its own")
        if isinstance(progress.recording.events[-1].body, SessionEnded):
            await session.close()

    def _open(self, lease: Lease, in_force: InForce, state: SessionState | None = None) -> RehearsedSession:
        policy, layers = self.family.policies.replace(in_force), in_force.layers or {}
        return RehearsedSession(self.family, self.progress, policy, lease=lease, layers=layers, state=state)

    async def _reopen(self, session: RehearsedSession, lease: Lease, step: RecordedSwitch) -> RehearsedSession:
        """Return the session under the policy with which another process resumed it."""
        again = self._open(lease, step.in_force, session.state)
        again.log.follow(self.progress.before)
        if again.policy.hash == session.policy.hash:
            await session.redo(step)
            return session
        changed = PolicyChanged(policy=again.policy.recorded, layers=dict(again.layers), before=session.policy.hash)
        await again.record(Draft(changed, "foregate"))
        await again.redo(step)
        return again

    async def _send(self, session: RehearsedSession, step: RecordedMessage) -> None:
        """Send a recorded message, which answers a question now where it did then."""
        self.progress.pass_time(step.time)
        task = session.state.task
        asks = task.paused if task is not None else ""
        if asks != (step.answers if step.answers == "needs_input" else ""):
            raise NothingRecorded(_NOBODY_ANSWERED if asks else "it answers what is not asked now")
        if self._asks_for_plan(session):
            session.plans.prepare_round()
            model, settings = session.plans.model("planning"), session.plans.configuration
            await make_plan(session, step.text, model, settings, session.plans.assess)
        else:
            await run(session, step.text)

    def _asks_for_plan(self, session: RehearsedSession) -> bool:
        """Whether somebody asked for a plan with the message in hand, and for nothing else."""
        task, found = session.state.task, self.progress.step
        return isinstance(found, RecordedRound) and found.gate == "task_plan" and not (task and task.wants_plan)

    async def _resume_plan(self, session: RehearsedSession, step: RecordedExecution | RecordedRetry | Event) -> None:
        """Bring along a plan, have one carried out, or resume one that paused."""
        plans, has_task = session.plans, session.state.task is not None
        match step:
            case Event(body=PlanProposed() as body):
                plans.use_configuration(body.configuration)
                told: dict[str, Any] = {"actor": step.actor, "notes": body.notes, "number": body.number}
                await record_proposal(session, body.proposal, plans.configuration, **told)
            case RecordedRetry():
                await plans.try_again(step)
            case Event(body=PlanStepChanged()) if has_task:
                raise NothingRecorded("a plan that had ended was taken back here, and now it is under way")
            case Event(body=body):
                await session.record(Draft(body, "foregate"))
            case RecordedExecution(resumes=True):
                if session.state.task is None or session.state.task.paused != "paused":
                    raise NothingRecorded("the plan had paused here, which it does not now")
                plans.use_configuration(step.configuration)
                await run_to_outcome(session)
            case RecordedExecution():
                plans.use_configuration(step.configuration)
                if (await plans.follow()).plan is None or plans.state.running:
                    raise NothingRecorded("the plan that was carried out from here on does not wait for that now")
                await plans.take_through(unseen=step.unseen and self._asks_unless_unseen(plans), step=step.step)

    def _asks_unless_unseen(self, plans: RehearsedPlan) -> bool:
        """Whether a person is asked whatever the plan is, so that one confirmed without asking was so beforehand."""
        return plans.state.number > 1 or plans.configuration.execution.confirmation == "always"

    async def _end(self, session: RehearsedSession, end: TaskEnded) -> None:
        """Let a task end as it did, where the loop has not ended it by itself."""
        if session.state.task is None:
            return
        if end.status != "cancelled":
            raise NothingRecorded(_NOBODY_ANSWERED)
        await cancel_task(session)
