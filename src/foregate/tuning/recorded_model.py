"""The models of a recorded session, which give their responses again, and its plans, which are followed again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from foregate.agent.loop.undo import UndoReport
from foregate.agent.planning.asking import ENDPOINT, MODEL
from foregate.agent.planning.configuration import Configuration, Role, restore_configuration
from foregate.agent.planning.control import reset_failed_tasks, undo_plan
from foregate.agent.planning.controller import PlanController
from foregate.agent.planning.planner import Planning
from foregate.agent.planning.reader import Reading
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import CallState, StepState
from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError, ModelUnreachable, UsageError
from foregate.schemas.event import Draft, Event, ModelResponded, NeedAnswered
from foregate.schemas.event_body import Checkpoint, EffectUndone, TaskEnded
from foregate.schemas.message import Message, ModelRequest, read_messages, write_messages
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.protocols import Model
from foregate.schemas.task_plan import PlanDefect, PlanProposed, RecordedConfiguration
from foregate.tuning.family_replay import PolicyReplacer
from foregate.tuning.progress import Progress
from foregate.tuning.recorded_steps import (
    NothingRecorded,
    RecordedFailure,
    RecordedHalt,
    RecordedMessage,
    RecordedResponse,
    RecordedRetry,
    RecordedRound,
    RecordedSwitch,
    find_end,
    name_undone_call,
)

T = TypeVar("T")
U = TypeVar("U")
Redo = Callable[[RecordedSwitch | Event], Awaitable[None]]
"""Records again what was switched or undone between two steps of a task."""


class RecordedResponder:
    """A model that gives its recorded responses again, in the order of the recording."""

    _not_recorded = "the model is asked once more than then, and no response to that is recorded"
    _fails_too = False

    def __init__(self, progress: Progress, name: str, redo: Redo) -> None:
        self._progress, self.name, self._redo = progress, name, redo

    async def _find_next(self, kind: type[T], other: type[U] | None = None) -> T | U:
        """Return the next step, which is of one kind or another; raise NothingRecorded where another one comes next.

        What was switched before it is switched. Where the task failed or was cancelled then, the session's own model
        fails or is cancelled again.
        """
        progress = self._progress
        while True:
            step = progress.step
            if (end := find_end(step)) is not None:
                self._end(end)
                raise NothingRecorded(self._not_recorded)
            progress.at += step is not None and not isinstance(step, RecordedHalt)
            match step:
                case RecordedSwitch() | Event(body=EffectUndone() | Checkpoint()):
                    await self._redo(step)
                case RecordedMessage(answers="needs_input") if progress.has_repeats:
                    # It answered a question that nobody asks now.
                    continue
                case None:
                    progress.stop_at_end()
                case RecordedHalt(why=why):
                    raise NothingRecorded(why)
                case _ if isinstance(step, kind) or (other is not None and isinstance(step, other)):
                    return step
                case _:
                    progress.at -= 1
                    raise NothingRecorded(self._not_recorded)

    def _end(self, end: TaskEnded) -> None:
        """Do what the end of the task asks for; see `_find_next`."""
        if self._fails_too and end.status == "failed":
            raise ModelError(end.note)
        if self._fails_too and end.status == "cancelled":
            self._progress.cancel()


class RecordedModel(RecordedResponder):
    """Gives the responses of a recording in order, without those that only repeat what is no longer held."""

    _fails_too = True

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next response; raise NothingRecorded where none follows from the log."""
        self._progress.check_told()
        while True:
            step = await self._find_next(RecordedResponse)
            if step.asked:
                self._progress.at -= 1
                raise NothingRecorded(self._not_recorded)
            calls = self._progress.strip_repeats(step)
            # Else all of it repeats what has run now.
            if calls or not step.response.calls:
                self._progress.begin_response(step, calls)
                return replace(step.response, calls=tuple(calls))


_OTHER = "is told something else than then, so what it would have said is unknown (--assume model=same goes on)"


class RecordedPlanner(RecordedResponder):
    """Answers the questions of each recorded round in order."""

    _not_recorded = "the planning model is asked here, which it was not then"
    round: RecordedRound | None = None
    """The round in hand."""
    _given = 0

    @property
    def has_more(self) -> bool:
        """Whether the round in hand has further answers."""
        return self.round is not None and self._given < len(self.round.answers)

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next answer; raise NothingRecorded where none follows from the log, or for another question."""
        if not self.has_more:
            await self._begin_round(request)
        assert self.round is not None
        if not self.has_more:
            if find_end(self._progress.step) is not None:
                self._progress.cancel()
            # The recording ends here: it says what comes instead.
            await self._find_next(RecordedRound)
            raise NothingRecorded(self._not_recorded)
        time, body = self.round.answers[self._given]
        self._given += 1
        self._progress.pass_time(time)
        return _build_response(body)

    async def _begin_round(self, request: ModelRequest) -> None:
        found = await self._find_next(RecordedRound)
        if found.gate != request.purpose:
            raise NothingRecorded(self._not_recorded)
        self._progress.begin_part(found.seq, found.time)
        self.round, self._given = found, 0
        self._progress.note_missing_changes()
        if strict_json.sha256(request.messages[-1].text.encode()) != found.request:
            self._progress.assume_same(f"the planning model {_OTHER}")


def _build_response(body: NeedAnswered) -> ModelResponse:
    """Return the response that leads to a recorded answer; one that could not be used has no words."""
    answer, usage = body.answer, body.usage or Usage()
    if answer.value is not None:
        return ModelResponse(strict_json.canonical(answer.value).decode(), usage=usage)
    if answer.error.startswith(f"{ENDPOINT}: "):
        raise ModelUnreachable(answer.error.removeprefix(f"{ENDPOINT}: "))
    if answer.error.startswith(f"{MODEL}: "):
        raise ModelError(answer.error.removeprefix(f"{MODEL}: "))
    return ModelResponse(usage=usage)


class RecordedFiller(RecordedResponder):
    """Fills in the calls of tasks as they were filled in then."""

    _not_recorded = "the execution model is asked to fill in a task here, which it was not then"

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next response to a task; raise NothingRecorded where none follows from the log."""
        progress = self._progress
        step = await self._find_next(RecordedFailure, RecordedResponse)
        progress.begin_part(step.seq, step.time)
        if isinstance(step, RecordedFailure):
            raise ModelError(step.why)
        progress.note_missing_changes()
        if strict_json.sha256(write_messages(self._rename(request.messages))) != step.asked:
            progress.assume_same(f"the execution model {_OTHER}")
        progress.begin_response(step, step.response.calls)
        return step.response

    @property
    def refused(self) -> str:
        """Why the calls of the next response were refused, "" where they were not."""
        step = self._progress.step
        return step.refused if isinstance(step, RecordedResponse) else ""

    def _rename(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with calls under the ids they had then."""
        find = self._progress.find_recorded_name
        return [
            replace(
                one,
                calls=tuple(replace(call, id=find(call.id)) for call in one.calls),
                call=one.call and find(one.call),
            )
            for one in messages
        ]


_UNSOUND = PlanDefect(0, "plan", "it could not be used then", "")


class RehearsedPlan(PlanController):
    """The real controller, which looks at no workspace: what was found of a plan then is found of it again."""

    def __init__(self, session: Session, progress: Progress, policies: PolicyReplacer, redo: Redo) -> None:
        self._progress, self._policies = progress, policies
        name = progress.recording.started.model
        self.planner, self.filler = RecordedPlanner(progress, name, redo), RecordedFiller(progress, name, redo)
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
            await session.record(Draft(name_undone_call(step, call), "foregate"))
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
