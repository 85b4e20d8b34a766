"""A recorded session as the steps and answers its loop was given: messages, responses, surveys and results."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from foregate.evidence.state.dataflow import Dataflow
from foregate.evidence.state.recorded_turns import LAYING, InForce
from foregate.evidence.state.session import SessionState
from foregate.schemas.errors import LogError
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
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
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.tool_call import Survey
from foregate.tuning.recorded_plan import PlanHistory
from foregate.tuning.recorded_steps import (
    RecordedAnswer,
    RecordedFate,
    RecordedHalt,
    RecordedMessage,
    RecordedResponse,
    RecordedSwitch,
    Step,
)

_UNDONE = "an effect was undone here while calls were waiting, and what they would have found then is not recorded"
_PLANNED = "a plan of the whole task begins here, and the log does not hold the configuration it was made and run under"
_PROBED = "a process ended here while a call was running, and how that ended is not played again"
_MOVED = "the workspace was moved here"
_SWITCHED = "something was switched here while a plan was carried out, which is not played again"
_TAKEN_BACK = "what a plan had done was taken back here while it had paused, which is not played again"


class Recording:
    """The events of one session; raises LogError where they do not begin with its first.

    `earlier` is the recording of the session that it follows, where that is there. What a child task is told comes
    from its parent, so that messages are no steps of it.
    """

    def __init__(self, events: Iterable[Event], earlier: Recording | None = None) -> None:
        self.steps: list[Step] = []
        self.fates: dict[str, RecordedFate] = {}
        self.surveys: dict[tuple[str, bool], tuple[Survey, InForce]] = {}
        """By the id of a call, and whether it is of what its sandbox changed; with what was in force then."""
        self.changed: set[str] = set()
        """The calls whose things had changed while somebody was asked about them."""
        has_plans = earlier is not None and earlier.has_configuration
        self.history: PlanHistory = PlanHistory(earlier.history if earlier is not None and has_plans else None)
        self.planned: dict[str, RecordedResponse] = {}
        """By the id of a call that a plan sent in the model's place, the response with which it did."""
        self.in_force = InForce()
        self.attended: bool | None = None
        self.last = 0
        self._state = SessionState()
        """The session before the event in hand."""
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
        proposals = [event.body for event in rest if isinstance(event.body, PlanProposed)]
        named = all(body.configuration is not None for body in proposals)
        self.has_configuration: bool = named and bool(proposals or self.history.left)
        self._state.apply(first)
        for event in rest:
            self._take_event(event)
            self._state.apply(event)
            if self.has_configuration:
                self.history.state.apply(event)

    def _take_event(self, event: Event) -> None:
        self.last = event.seq
        self._note_look(event)
        if event.kind in LAYING:
            self.in_force = self.in_force.apply(event)
        if self.has_configuration and self._take_plan_event(event):
            return
        match event.body:
            case UserMessage(text=text):
                # The loop itself sends on what was said at a sheet.
                said_before = ("more", text) == self._state.running_task.after_turn
                if not said_before and not self.started.depth:
                    self.steps.append(RecordedMessage(event.seq, event.time, text, self._paused))
            case ModelResponded(places=None, continues=None) as body:
                self._add_response(event, body)
            case NeedRaised(need=Need(gate="task_plan" | "plan_results")):
                self._halt(self._looked or event, _PLANNED)
            case ModelResponded(continues=None) as body:
                self._add_planned(event, body)
            case NeedRaised() as body:
                sandboxed = self._state.open is not None and self._state.open.sandbox is not None
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
                self.history.note_pause(reason)
            case TaskEnded():
                self.history.note_end()
                self.steps.append(event)
            case EffectUndone() | Checkpoint() as body if self.history.is_running and not self._paused:
                self.history.take_undo(body)
            case EffectUndone() | Checkpoint() if self.history.is_running:
                self._halt(event, _TAKEN_BACK)
            case EffectUndone() | Checkpoint() if not self._is_waiting:
                self.steps.append(event)
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
        asked = self.history.asked
        self.history.take_response(event.seq)
        self._response = RecordedResponse(event.seq, event.time, response, asked, body.refused)
        self.steps.append(self._response)

    def _add_planned(self, event: Event, body: ModelResponded) -> None:
        """Take in calls that a plan sends in the model's place: what it sends it knows by itself when played again."""
        calls = tuple(call.id for call in body.response.calls)
        self._response = RecordedResponse(event.seq, event.time, body.response)
        self.planned |= dict.fromkeys(calls, self._response)
        if self.history.is_running:
            self.history.take_response(event.seq)
            self.history.take_calls(calls, body.places or (), body.tasks or ())

    def _take_plan_event(self, event: Event) -> bool:
        """Take in an event that is about a plan and needs nothing else; return whether it was one."""
        history = self.history
        found: Step | str | None = None
        if (again := self._find_resumption(event)) is not None:
            self.steps.append(again)
        match event.body:
            case NeedRaised(need=Need(gate="task_plan" | "plan_results") as need) as body:
                if need.key.startswith("confirm:"):
                    self._begin_execution(event)
                looked = self._looked.body if self._looked is not None else None
                look = looked.turn.surveys[0].call if isinstance(looked, TurnJudged) else ""
                found = history.take_need(event, body, self._looked, look)
            case NeedAnswered(answer=Answer(gate="task_plan" | "plan_results")) as body:
                history.take_answer(event, body)
            case PlanProposed() as body:
                found = history.take_proposal(event, body)
            case PlanConfirmed() as body:
                self._begin_execution(event)
                found = history.take_confirmation(event, body, self.in_force)
            case PlanStepChanged() as body:
                found = history.take_change(event, body)
            case _:
                return False
        if isinstance(found, str) and found:
            self._halt(event, found)
        elif found:
            self.steps.append(found)
        return True

    def _find_resumption(self, event: Event) -> Step | None:
        match event.body:
            case PlanStepChanged() | ModelResponded() | TurnJudged():
                return self.history.take_resumption(event)
            case NeedRaised(need=Need(gate="task_plan", key=key)) if not key.startswith("failure:"):
                return self.history.take_resumption(event)
            case _:
                return None

    def _begin_execution(self, event: Event) -> None:
        """Note that somebody has a plan carried out where its task begins with this, or was waiting for it."""
        said = self.steps[-1] if self.steps else None
        if isinstance(said, RecordedMessage) and said.seq == event.seq - 1 and not self.history.is_running:
            self.steps[-1] = self.history.begin_execution(said.seq, said.time)
        elif isinstance(event.body, PlanConfirmed) and not event.body.approved and self._paused == "awaiting_approval":
            self.steps.append(self.history.begin_execution(event.seq, event.time))

    @property
    def _paused(self) -> str:
        """What the task has paused for, "" where it runs or there is no task."""
        return self._state.task.paused if self._state.task is not None else ""

    @property
    def _is_waiting(self) -> bool:
        """Whether a call of the newest response has no outcome yet."""
        turn, program = self._state.open, self._state.program
        return bool((turn and turn.unanswered) or (program and program.unanswered))

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
        in_hand = next((step for step in self.steps if step is self._response), None) if self._is_waiting else None
        if in_hand is not None:
            self.steps.insert(self.steps.index(in_hand), RecordedHalt(in_hand.seq, in_hand.time, why))
        else:
            self.steps.append(RecordedHalt(event.seq, event.time, why))

    def _add_answer(self, event: Event, body: NeedAnswered) -> None:
        raised, sandboxed = self._raised.pop(body.answer.gate, (None, False))
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
            # A child task is switched as its parent is.
            return
        if isinstance(body, PolicyChanged) and body.workspace is not None:
            self._halt(event, _MOVED)
        if self.history.is_carried_out:
            self._halt(event, _SWITCHED)
        self.steps.append(RecordedSwitch(event.seq, event.time, event, self.in_force))

    def find_fate(self, call: str) -> RecordedFate:
        """Return what became of a call, by the id it had then; of one that nothing is known of, nothing."""
        return self.fates.get(call) or RecordedFate()

    @property
    def is_attended(self) -> bool:
        """Whether somebody was there to be asked."""
        return bool(self.attended or self.history.questions)

    def was_judged(self, response: RecordedResponse) -> bool:
        """Whether anything of a response was judged before the session was left."""
        return any((call.id, False) in self.surveys for call in response.response.calls)

    def find_survey(self, call: str, *, sandboxed: bool = False) -> tuple[Survey, InForce] | None:
        """Return what looking found for a call, by the id it had then, and what was in force; None for nothing."""
        return self.surveys.get((call, sandboxed))
