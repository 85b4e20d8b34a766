"""A recorded session, taken apart into what its loop was given: messages, responses, answers, surveys and results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from foregate.evidence.state.dataflow import Dataflow
from foregate.schemas.errors import LogError
from foregate.schemas.event import Actor, Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    CatalogChanged,
    Checkpoint,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    PolicyChanged,
    SandboxEnded,
    SessionStarted,
    TaskEnded,
    TaskPaused,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.tool_call import Survey
from foregate.telemetry.audit.rebuild_turn import LAYING, InForce

_UNDONE = "an effect was undone here while calls were waiting, and what they would have found then is not recorded"
_PLANNED = "a plan of the whole task begins here, and the log does not hold the configuration it was made and run under"
_PROBED = "a process ended here while a call was running, and what came of that is not played again"
_MOVED = "the workspace was moved here"


class RecordingEnds(BaseException):
    """The session was left here with something open: it has been played as far as it went.

    As with NothingRecorded, it is no error: nothing that handles errors of a call may stop it.
    """


class NothingRecorded(BaseException):
    """The log holds nothing for what is asked now: the session cannot be played further. Says why in one sentence."""


@dataclass(slots=True)
class RecordedAnswer:
    """A question and its answer; `sandboxed` is set where it was about what a sandbox had changed."""

    seq: int
    time: str
    need: Need
    body: NeedAnswered
    sandboxed: bool = False

    @property
    def answer(self) -> Answer:
        return self.body.answer


@dataclass(slots=True)
class RecordedFate:
    """What became of a call: how it was started and ended, what its sandbox held, or why it did not run."""

    started: ToolStarted | None = None
    sandbox: SandboxEnded | None = None
    applied: ToolStarted | None = None
    end: ToolFinished | OutcomeUnknown | None = None
    answered: CallAnswered | None = None
    time: str = ""

    @property
    def code(self) -> str:
        """What the model was told: `ran`, or the code by which the call did not run; "" for nothing."""
        return self.answered.code if self.answered is not None else "ran" if self.end is not None else ""


@dataclass(slots=True)
class RecordedResponse:
    """A response of the model, whole, with the ids its calls had then, and what was answered about them."""

    seq: int
    time: str
    task: int
    response: ModelResponse
    answers: list[RecordedAnswer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A message that somebody sent; `answers` what the task had paused for, "" for nothing."""

    seq: int
    time: str
    text: str
    answers: str


@dataclass(frozen=True, slots=True)
class RecordedSwitch:
    """Something that a person switched, or other tools."""

    seq: int
    body: PolicyChanged | CatalogChanged
    actor: Actor
    in_force: InForce


@dataclass(frozen=True, slots=True)
class RecordedUndo:
    """A step of taking back what a call changed, and by whom."""

    seq: int
    body: EffectUndone | Checkpoint
    actor: Actor

    @property
    def call(self) -> str:
        """The id of that call; one of a session that this one goes on with has that session's name before it."""
        return self.body.undo if isinstance(self.body, Checkpoint) else self.body.call


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """How a task ended."""

    seq: int
    body: TaskEnded


@dataclass(frozen=True, slots=True)
class RecordedHalt:
    """From here on the session is not played: why, in one sentence."""

    seq: int
    why: str


Step: TypeAlias = RecordedMessage | RecordedResponse | RecordedSwitch | RecordedUndo | RecordedEnd | RecordedHalt


class Recording:
    """The events of one session; raises LogError where they do not begin with its first.

    What a child task is told comes from its parent, so that messages are no steps of it.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.steps: list[Step] = []
        self.fates: dict[str, RecordedFate] = {}
        self.surveys: dict[tuple[str, bool], tuple[Survey, InForce]] = {}
        """By the id of a call, and whether it is of what its sandbox changed; with what was in force then."""
        self.changed: set[str] = set()
        """The calls of which something had changed while somebody was asked about them."""
        self.in_force = InForce()
        self.attended: bool | None = None
        self.last = 0
        self._task = 0
        self._paused = self._more = ""
        self._response: RecordedResponse | None = None
        self._looked: Event | None = None
        self._raised: dict[str, tuple[NeedRaised, bool]] = {}
        self._asked_on: set[str] = set()
        self.events = tuple(events)
        first, *rest = self.events
        if not isinstance(first.body, SessionStarted):
            why = "`foregate audit verify` tells what was changed"
            raise LogError(f"session `{first.session}` does not begin with its start; {why}")
        self.name, self.started, self.time = first.session, first.body, first.time
        self.in_force = self.first_in_force = InForce().apply(first)
        for event in rest:
            self._take_event(event)

    def _take_event(self, event: Event) -> None:
        self.last = event.seq
        self._note_look(event)
        if event.kind in LAYING:
            self.in_force = self.in_force.apply(event)
        match event.body:
            case TaskStarted(task=task):
                self._task = task
            case UserMessage(text=text):
                if self._more != text and not self.started.depth:  # the loop itself sends on what was said at a sheet
                    self.steps.append(RecordedMessage(event.seq, event.time, text, self._paused))
                self._paused = self._more = ""
            case ModelResponded(places=None, continues=None) as body:
                self._add_response(event, body)
            case NeedRaised(need=Need(gate="task_plan" | "plan_results")):
                self._halt(self._looked or event, _PLANNED)
            case NeedRaised() as body:
                sandboxed = self._is_sandboxed(body.need)
                self._raised[body.need.gate] = body, sandboxed
                self._asked_on |= set() if sandboxed else {body.survey_hash}
            case NeedAnswered() as body:
                self._add_answer(event, body)
            case TurnJudged() as body:
                self._add_judgement(body)
            case ToolStarted() | SandboxEnded() | ToolFinished() | OutcomeUnknown() | CallAnswered() as body:
                self._add_fate(event, body)
            case PolicyChanged() | CatalogChanged() as body:
                self._add_switch(event, body)
            case TaskPaused(reason=reason):
                self._paused = reason
            case TaskEnded() as body:
                self._paused = ""
                self.steps.append(RecordedEnd(event.seq, body))
            case EffectUndone() | Checkpoint() as body if not self._is_waiting:
                self.steps.append(RecordedUndo(event.seq, body, event.actor))
            case EffectUndone() | Checkpoint():
                self._halt(event, _UNDONE)
            case OutcomeResolved():
                self._halt(event, _PROBED)
            case PlanProposed() | PlanConfirmed() | PlanStepChanged():
                self._halt(event, _PLANNED)
            case _:
                pass

    def _add_response(self, event: Event, body: ModelResponded) -> None:
        response = body.response
        if body.program is not None:
            whole = Dataflow.from_record(event.seq, body.program)
            response = replace(response, calls=whole.calls, order=whole.order, deferred=tuple(sorted(whole.deferred)))
        self._response = RecordedResponse(event.seq, event.time, self._task, response)
        self.steps.append(self._response)

    @property
    def _is_waiting(self) -> bool:
        """Whether a call of the newest response has not come to anything yet."""
        calls = self._response.response.calls if self._response is not None else ()
        return not all(self.find_fate(call.id).code for call in calls)

    def _note_look(self, event: Event) -> None:
        """Note where looks begin that no response asks for, as one at the workspace before a plan is asked for."""
        match event.body:
            case TurnJudged(turn=turn) if turn.actor == "runner" and all(
                one.call.startswith("p") for one in turn.surveys
            ):
                self._looked = self._looked or event
            case ToolStarted(call=call) | ToolFinished(call=call) if call.startswith("p"):
                pass
            case NeedRaised(need=Need(gate="task_plan" | "plan_results")):
                pass
            case _:
                self._looked = None

    def _halt(self, event: Event, why: str) -> None:
        """Stop here, before the response in hand where it is in the middle of one."""
        if self._is_waiting and self._response is not None:
            self.steps.insert(self.steps.index(self._response), RecordedHalt(self._response.seq, why))
        else:
            self.steps.append(RecordedHalt(event.seq, why))

    def _is_sandboxed(self, need: Need) -> bool:
        fates = [self.fates.get(call) for call in need.calls]
        return any(fate is not None and fate.sandbox is not None and not fate.code for fate in fates)

    def _add_answer(self, event: Event, body: NeedAnswered) -> None:
        raised, sandboxed = self._raised.pop(body.answer.gate, (None, False))
        if body.answer.gate == "loop" and body.answer.choice == "more":
            self._more = body.answer.words
        if self._response is not None and raised is not None:
            self._response.answers.append(RecordedAnswer(event.seq, event.time, raised.need, body, sandboxed))

    def _add_judgement(self, body: TurnJudged) -> None:
        if body.turn.actor == "model" and self.attended is None:
            self.attended = body.turn.attended
        asked_on, self._asked_on = self._asked_on, set()
        if body.turn.actor == "model" and (body.turn.voided or asked_on - {body.survey_hash}):
            self.changed.update(survey.call for survey in body.turn.surveys)
        for survey in body.turn.surveys:
            self.surveys[survey.call, bool(survey.changes)] = survey, self.in_force

    def _add_fate(
        self, event: Event, body: ToolStarted | SandboxEnded | ToolFinished | OutcomeUnknown | CallAnswered
    ) -> None:
        fate = self.fates.setdefault(body.call, RecordedFate())
        match body:
            case ToolStarted(applies=None):
                fate.started = body
            case ToolStarted():
                fate.applied = body
            case SandboxEnded():
                fate.sandbox = body
            case CallAnswered():
                fate.answered = body
            case _:
                fate.end = body
        fate.time = event.time

    def _add_switch(self, event: Event, body: PolicyChanged | CatalogChanged) -> None:
        if event.actor == "parent":
            return  # a child task is switched as its parent is
        if isinstance(body, PolicyChanged) and body.workspace is not None:
            self._halt(event, _MOVED)
        self.steps.append(RecordedSwitch(event.seq, body, event.actor, self.in_force))

    def find_fate(self, call: str) -> RecordedFate:
        """Return what became of a call, by the id it had then; of one that nothing is known of, nothing."""
        return self.fates.get(call) or RecordedFate()

    def was_judged(self, response: RecordedResponse) -> bool:
        """Whether anything of a response was judged before the session was left."""
        return any((call.id, False) in self.surveys for call in response.response.calls)

    def find_survey(self, call: str, *, sandboxed: bool = False) -> tuple[Survey, InForce] | None:
        """Return what looking found for a call, by the id it had then, and what was in force; None for nothing."""
        return self.surveys.get((call, sandboxed))
