"""What takes a task through its plan when it is played again: what the plans were and what was said is known."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from foregate.agent.effects.undo import UndoReport
from foregate.agent.planning.configuration import Configuration, Role, restore_configuration
from foregate.agent.planning.control import reset_failed_tasks, undo_plan
from foregate.agent.planning.controller import PlanController
from foregate.agent.planning.planner import Planning
from foregate.agent.planning.reader import Reading
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import CallState, StepState
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft, ModelResponded
from foregate.schemas.event_body import Checkpoint, EffectUndone
from foregate.schemas.message import ModelRequest, read_messages
from foregate.schemas.protocols import Model
from foregate.schemas.task_plan import PlanDefect, PlanProposed, RecordedConfiguration
from foregate.tuning.rehearsing.family_replay import PolicyAgain
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_model import RecordedFiller, RecordedPlanner
from foregate.tuning.rehearsing.recorded_plan import RecordedRetry, RecordedRound
from foregate.tuning.rehearsing.recorded_steps import NothingRecorded

_UNSOUND = PlanDefect(0, "plan", "it could not be used then", "")


class RehearsedPlan(PlanController):
    """The real controller, which looks at no workspace: what was found of a plan then is found of it again."""

    def __init__(self, session: Session, progress: Progress, policies: PolicyAgain) -> None:
        self._progress, self._policies = progress, policies
        name = progress.recording.started.model
        self.planner, self.filler = RecordedPlanner(progress, name), RecordedFiller(progress, name)
        roles: dict[Role, Model] = {"planning": self.planner, "execution": self.filler}
        known = progress.recording.history.find_configuration()
        super().__init__(session, _restore(known), roles.__getitem__)

    def begin(self) -> None:
        super().begin()
        self._progress.plans.pause = self.pause

    def use_configuration(self, recorded: RecordedConfiguration | None) -> None:
        """Go on under another configuration, None for the same."""
        if recorded is not None:
            self.configuration = _restore(recorded)

    async def take_step(self) -> RunResult | None:
        self.prepare_round()
        return await super().take_step()

    def prepare_round(self) -> None:
        """Take the configuration under which the round of questions that comes next was asked."""
        if isinstance(found := self._progress.step, RecordedRound) and found.proposal is not None:
            self.use_configuration(found.proposal.configuration)

    def assess(self, session: Session, reading: Reading, configuration: Configuration, tries: int) -> Planning:
        if tries == 0:
            asked = self._progress.plans.asked
            proposed = asked.edited if asked is not None else None
        elif reading.plan is None:
            return Planning(None, reading.defects, (), reading.notes, tries)
        else:
            proposed = None if self.planner.has_more or self.planner.round is None else self.planner.round.proposal
        return _build_planning(proposed, tries)

    async def confirm(self, *, unseen: bool = False, step: bool = False) -> RunResult | None:
        ended = await super().confirm(unseen=unseen, step=step)
        confirmed = self._progress.plans.confirmed
        if ended is None and confirmed is not None:
            then, now = confirmed[0], self.state
            if (then.step, then.dry_run) != (now.stepwise, now.dry_run):
                raise NothingRecorded("the plan was confirmed otherwise then than it is here")
        return ended

    async def ask_for_calls(self, step: StepState) -> str:
        if not (refused := self.filler.refused):
            return await super().ask_for_calls(step)
        confirmed, session = self._progress.plans.confirmed, self.session
        then = self._policies.restore(confirmed[1]).limits if confirmed is not None else None
        if then is None or then.calls_per_response != session.policy.limits.calls_per_response:
            raise NothingRecorded("calls with which a task was filled in were refused then, and are not recorded")
        response = await self.filler.respond(ModelRequest(read_messages(session.blobs.get(step.request))))
        stamped = response.stamp_calls(session.state.seq + 1)
        await session.record(Draft(ModelResponded.of(stamped, refused=refused), "model"))
        return ""

    async def try_again(self, step: RecordedRetry) -> None:
        """Have tasks of an ended plan tried again; raise NothingRecorded where now it is others that failed."""
        state, parked = await self.follow(), self.session.state.parked
        failed = {one.task.id for one in state.steps.values() if one.status in ("failed", "aborted")}
        if state.running or parked or failed != step.failed:
            raise NothingRecorded("tasks of a plan were tried again here, and now it is others that failed")
        await reset_failed_tasks(self.session, state, step.tasks[0] if failed != set(step.tasks) else 0)

    async def reconcile_call(self, step: StepState, call: CallState) -> None:
        raise NothingRecorded(f"a plan looks up the outcome of `{call.tool[:64]}` here, which is not recorded")

    async def take_back(self, steps: Iterable[StepState]) -> list[str]:
        if self.session.state.parked:
            raise NothingRecorded("a plan looks up the outcome of a call here, which is not recorded")
        return await undo_plan(self.session, self.state, steps, self._undo_again)

    async def _undo_again(self, session: Session, call: str) -> UndoReport:
        """Record again that a call of the plan was undone; raise NothingRecorded for one that was not."""
        undone = self._progress.recording.history.undone
        steps = undone.get(self._progress.find_recorded_name(call), [])
        if not any(isinstance(step, EffectUndone) for step in steps):
            raise NothingRecorded("a plan takes back here what a task did, and the result is not recorded")
        for step in steps:
            named = {"undo": call} if isinstance(step, Checkpoint) else {"call": call}
            await session.record(Draft(replace(step, **named), "foregate"))
        return UndoReport(True, call)


def _build_planning(proposed: PlanProposed | None, tries: int) -> Planning:
    if proposed is None:
        return Planning(None, (_UNSOUND,), tries=tries)
    return Planning(proposed.proposal, notes=proposed.notes, tries=tries)


def _restore(recorded: RecordedConfiguration) -> Configuration:
    try:
        return restore_configuration(recorded)
    except UsageError as error:
        raise NothingRecorded(str(error)) from None
