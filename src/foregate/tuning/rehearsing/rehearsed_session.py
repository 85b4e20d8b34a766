"""A session that is played again: the real one, with looks, results and answers out of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foregate.agent.effects.undo import UndoableChange, choose_change
from foregate.agent.loop.runner import run_child_task
from foregate.agent.session.interaction import AbsentPerson
from foregate.agent.session.result import DELEGATE
from foregate.agent.session.session import Session
from foregate.agent.tools.tool import BaseToolSource
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.schemas.event import Draft
from foregate.schemas.event_body import CatalogChanged, Checkpoint, PolicyChanged
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.protocols import Lease, RunContext
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.schemas.tool_spec import Catalogue, ToolSpec
from foregate.tuning.rehearsing.family_replay import FamilyReplay
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_interaction import RecordedInteraction
from foregate.tuning.rehearsing.recorded_model import RecordedModel
from foregate.tuning.rehearsing.recorded_runner import RecordedRunner
from foregate.tuning.rehearsing.recorded_steps import NothingRecorded, RecordedSwitch, RecordedUndo
from foregate.tuning.rehearsing.recorded_surveyor import RecordedSurveyor
from foregate.tuning.rehearsing.rehearsed_plan import RehearsedPlan


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
        model = RecordedModel(progress, started.model)
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
        model.session = runner.session = self
        if isinstance(self.plan_driver, RehearsedPlan):
            self.plan_driver.planner.session = self.plan_driver.filler.session = self
        self.interaction = RecordedInteraction(self.log, self.blobs, model, policy, progress)

    def _drive_plans(self, made: Session) -> RehearsedPlan:
        return RehearsedPlan(made, self._progress, self._family.policies)

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

    async def switch(self, step: RecordedSwitch) -> None:
        """Record again what was switched in between: modes, permissions, or other tools."""
        match step.body:
            case CatalogChanged(catalogue=catalogue):
                self._tools.offer(catalogue)
                await self.update_catalogue()
            case PolicyChanged() as body:
                if body.policy is not None and self._family.policies.replace(step.in_force).hash != self.policy.hash:
                    raise NothingRecorded("another policy file of the workspace came into force within a task")
                await self._switch_modes(body, step)

    async def _switch_modes(self, body: PolicyChanged, step: RecordedSwitch) -> None:
        permitted = body.permissions
        # What a person permits at a sheet that nobody is shown now is not permitted.
        if permitted is not None:
            here, used = self.name, self._progress.used
            permitted = tuple(one for one in permitted if one.session != here or one.seq in used)
        again = replace(body, policy=None, layers=None, before=None, permissions=permitted)
        if again != PolicyChanged():
            await self.record(Draft(again, step.actor))

    async def take_back(self, step: RecordedUndo) -> None:
        """Record again that an effect was undone; raise NothingRecorded where it is not there now, or not the newest.

        Whoever undid the newest change would undo another one where that is another one now.
        """
        call = self._progress.find_present_id(step.call)
        if not call:
            raise NothingRecorded(f"what call `{step.call[:40]}` did was undone then, which has not run here")
        then = choose_change(self._progress.list_joined(step.seq), None)
        now = choose_change(await self.log.read_joined(), None)
        if _is_of(then, step.call) and not _is_of(now, call):
            raise NothingRecorded("the newest change was undone then, which is another one here")
        named = {"undo": call} if isinstance(step.body, Checkpoint) else {"call": call}
        await self.record(Draft(replace(step.body, **named), step.actor))

    async def update_permissions(self) -> None:
        """Do nothing: what was permitted is switched when it was."""

    def keep_answer(self, answer: Answer, need: Need) -> None:
        """Keep nothing: what an answer says beyond its calls was recorded as its outcome."""


def _is_of(change: UndoableChange | str, call: str) -> bool:
    return isinstance(change, UndoableChange) and change.call == call
