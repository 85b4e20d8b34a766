"""A runner of calls that does nothing: each call comes to what it came to then, and the log is told the same of it."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.effects.executor import build_start, check_permit, execute
from foregate.agent.session.call_runner import CallRunner, PrefetchedResult
from foregate.agent.session.result import DELEGATE, CallNotStarted
from foregate.agent.session.session import Session
from foregate.evidence.state.task import OpenSandbox
from foregate.schemas.event import Actor, Draft
from foregate.schemas.event_body import OutcomeUnknown, SandboxEnded, ToolFinished
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import CallFacts, Permit, Survey, ToolResult
from foregate.tuning.rehearsing.family_replay import FamilyReplay
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_steps import NothingRecorded, RecordedFate, RecordingEnds
from foregate.tuning.rehearsing.recorded_surveyor import RecordedSurveyor

_CANCELLED = "cancelled"
_WOULD_CHANGE = "what it would have changed:\n"


class RecordedRunner(CallRunner):
    """Records the events that running a call left then; raises NothingRecorded where it left none."""

    def __init__(self, progress: Progress, family: FamilyReplay) -> None:
        self._progress, self._family = progress, family
        self.session: Session
        self.surveyor: RecordedSurveyor
        """Both set once there are such."""

    async def execute(
        self,
        permit: Permit,
        facts: CallFacts,
        actor: Actor = "model",
        *,
        early: bool = False,
        prefetched: PrefetchedResult | None = None,
    ) -> ToolResult | CallNotStarted:
        """Return what a call came to, or why it was not started, and record it under the id it has now."""
        call = facts.call
        check_permit(self.session, permit, call)
        fate = self._progress.find_run(call)
        if call.name == DELEGATE.name and self.session.delegates:
            return await self._play_child(permit, facts, actor, fate)
        if fate.started is None:
            assert fate.answered is not None
            return CallNotStarted(fate.answered.code, fate.answered.message)
        started = replace(build_start(permit, facts, fate.started.before, early=False, look=None), snapshot="")
        await self.session.record(Draft(started, actor))
        if fate.sandbox is None and fate.end is None:
            # The process ended while it ran.
            raise RecordingEnds
        if fate.sandbox is not None:
            await self.session.record(Draft(replace(fate.sandbox, call=call.id), "tool"))
            return ToolResult(fate.sandbox.ok, fate.sandbox.content)
        self._progress.pass_time(fate.time)
        return await self._record_end(fate, call.id, actor)

    async def _play_child(
        self, permit: Permit, facts: CallFacts, actor: Actor, fate: RecordedFate
    ) -> ToolResult | CallNotStarted:
        """Play the child task that a call begins or resumes, as the loop itself runs one."""
        name = self.session.name_child(facts.call.id)
        try:
            result = await execute(self.session, permit, facts, actor)
        except RecordingEnds:
            self._family.leave_open(name)
            raise
        except NothingRecorded as error:
            raise NothingRecorded(self._family.stop_child(name, str(error))) from None
        self._family.check_ended(name)
        if isinstance(fate.end, ToolFinished) and isinstance(result, ToolResult):
            self._progress.pass_time(fate.time)
            if (result.ok, result.content) != (fate.end.ok, fate.end.content):
                self._progress.note_other_answer(facts.call.id)
        return result

    async def _record_end(self, fate: RecordedFate, call: str, actor: Actor) -> ToolResult:
        match fate.end:
            case ToolFinished() as end:
                body = replace(end, call=call, early=False, look=None)
                await self.session.record(Draft(body, "tool" if actor in ("model", "sandbox") else actor))
                if end.error == _CANCELLED:
                    self._progress.cancel()
                return ToolResult(end.ok, end.content, end.evidence, end.changes, end.origin, end.error)
            case OutcomeUnknown() as lost:
                await self.session.record(Draft(replace(lost, call=call), "foregate"))
                if lost.reason.startswith(_CANCELLED):
                    self._progress.cancel()
                return ToolResult(False, lost.reason, error=lost.error, unknown=True)
            case None:
                raise NothingRecorded("what a call came to was never recorded")

    async def survey_changes(self, ended: OpenSandbox, found: SandboxedChanges, command: CallFacts) -> Survey:
        """Return what was found of the changes then."""
        return self.surveyor.survey_changes(command.call, self.session.state)

    async def apply(
        self, permit: Permit, facts: CallFacts, ended: OpenSandbox, found: SandboxedChanges
    ) -> ToolResult | CallNotStarted:
        """Record that the changes of a sandbox were applied, as they were then."""
        check_permit(self.session, permit, facts.call)
        call = facts.call
        fate = self._progress.recording.find_fate(self._progress.find_final_id(call.id))
        if fate.applied is None:
            if fate.answered is not None and fate.answered.ruling == "not_run":
                return CallNotStarted(fate.answered.code, fate.answered.message)
            why = "is applied here, which was thrown away then, so no result is recorded"
            raise NothingRecorded(f"what `{call.name[:64]}` changed in its sandbox {why}")
        started = replace(fate.applied, call=call.id, permit=permit, applies=ended.seq, images="", effect=facts.effect)
        await self.session.record(Draft(started, "sandbox"))
        self._progress.pass_time(fate.time)
        return await self._record_end(fate, call.id, "sandbox")

    def find_changes(self, ended: SandboxEnded) -> SandboxedChanges | None:
        """Return nothing in particular: the changes are known by their survey only."""
        return SandboxedChanges()

    async def discard(self, found: SandboxedChanges) -> None:
        """Do nothing: there is no sandbox."""

    def format_changes(self, found: SandboxedChanges) -> str:
        """Return the difference the model was shown then, "" where it was shown none."""
        ended = self.session.state.open.sandbox if self.session.state.open is not None else None
        call = self._progress.find_final_id(ended.body.call) if ended is not None else ""
        answered = self._progress.recording.find_fate(call).answered
        shown = answered.observed.output if answered is not None and answered.observed is not None else ""
        return shown.partition(_WOULD_CHANGE)[2]
