"""The plans of a recorded session: who was asked what, what was proposed, confirmed and sent, and what of it is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy

from msgspec import Struct, field

from foregate.evidence.state.plan import PlanState
from foregate.evidence.state.recorded_turns import InForce
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised
from foregate.schemas.event_body import Checkpoint, EffectUndone, Status
from foregate.schemas.judgement import Need
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged, RecordedConfiguration
from foregate.schemas.tool_call import Survey
from foregate.tuning.recorded_steps import (
    RecordedExecution,
    RecordedFailure,
    RecordedRetry,
    RecordedRound,
    Step,
    find_undone_call,
)

PREVIEW = "plan."
"""With this begins the id of a call that is only looked at for the sheet."""
_CHOSEN = "what follows a failed task was chosen here where nobody was asked, which is not played again"
_PAUSED = "the person paused the plan here before its first call, which is not played again"
_OTHERWISE = "another process went on with the plan here under another configuration, which is not played again"
Place = tuple[int, int, int]
"""A task, its attempt, and the place of one of its calls."""


class RecordedQuestion(Struct):
    """A question about a plan to a person, and the plan that they made of it where they edited theirs."""

    seq: int
    need: Need
    time: str = ""
    body: NeedAnswered | None = None
    edited: PlanProposed | None = None


class RecordedPlan(Struct):
    """A plan, how often and under which policy it was confirmed, and the calls it sent in the model's place.

    `sent` has by task, attempt and place the ids of each time the call was sent, `runs` after which confirmation.
    """

    body: PlanProposed
    confirmed: list[tuple[PlanConfirmed, InForce]] = field(default_factory=list)
    sent: dict[Place, list[str]] = field(default_factory=dict)
    runs: dict[Place, int] = field(default_factory=dict)


class PlanHistory:
    """Takes the events of a session that are about plans apart; each `take_` returns a step, a reason to halt, or None.

    `state` is that of the newest plan before the event in hand, `left` the plan of the session that this one resumes.
    `asked` is the hash of what the execution model is asked and has not answered, "" where it is asked nothing.
    """

    def __init__(self, earlier: PlanHistory | None = None) -> None:
        left = earlier.plans[-1].body if earlier is not None and earlier.plans else None
        self.left = RecordedPlan(left) if left is not None else None
        self.plans: list[RecordedPlan] = [self.left] if self.left is not None else []
        self.state: PlanState = deepcopy(earlier.state) if earlier is not None else PlanState()
        self.questions: list[RecordedQuestion] = []
        self.asked = ""
        self._round: RecordedRound | None = None
        self._question: RecordedQuestion | None = None
        self._entry: RecordedExecution | None = None
        self._retry: RecordedRetry | None = None
        self.undone: dict[str, list[EffectUndone | Checkpoint]] = {}
        """What was recorded when a plan by itself took back what a call did, by the id of that."""
        self.put_off: set[int] = set()
        """The responses during which a person had their plan pause."""
        self._paused, self._responded = "", 0
        self._answered = 0

    @property
    def is_running(self) -> bool:
        """Whether a plan is confirmed, and its task has not ended."""
        return self.state.running

    @property
    def is_carried_out(self) -> bool:
        """Whether a plan is under way and waits for nobody who resumes it or answers in words."""
        return self.is_running and self._paused not in ("paused", "needs_input")

    def take_need(self, event: Event, body: NeedRaised, looked: Event | None, look: str) -> RecordedRound | None:
        """Take in a question; one to the planning model that is the first of its round begins a step."""
        need = body.need
        if need.who == "person":
            self._question = RecordedQuestion(event.seq, need)
            self.questions.append(self._question)
            self._paused = ""
            return None
        if not need.key.endswith(":1"):
            return None
        begun = looked or event
        self._round = RecordedRound(begun.seq, event.time, need.gate, look, body.request)
        return self._round

    def take_answer(self, event: Event, body: NeedAnswered) -> None:
        """Take in what the planning model or the person answered."""
        self._answered = event.seq
        if body.answer.who != "person":
            if self._round is not None:
                self._round.answers.append((event.time, body))
        elif self._question is not None:
            self._question.time, self._question.body = event.time, body
            self._paused = ""

    def take_proposal(self, event: Event, body: PlanProposed) -> Event | None:
        """Take in a plan: of the planning model, of a person who edited one, or brought along, which is a step."""
        self.plans.append(RecordedPlan(body))
        if event.seq != self._answered + 1:
            return event
        if event.actor == "planner" and self._round is not None:
            self._round.proposal = body
        elif self._question is not None:
            self._question.edited = body
        return None

    def take_confirmation(self, event: Event, body: PlanConfirmed, in_force: InForce) -> str:
        """Take in that a plan may run; return why it is not played from here, "" where it is."""
        self._paused, self._responded = "", 0
        self.plans[-1].confirmed.append((body, in_force))
        if self._entry is not None:
            self._entry.unseen, self._entry.step = not body.approved, body.step
        entry, self._entry = self._entry, None
        return _name_configuration(entry, body.configuration)

    def begin_execution(self, seq: int, time: str) -> RecordedExecution:
        """Return the step with which somebody has the plan carried out that waits."""
        self._entry = RecordedExecution(seq, time)
        return self._entry

    def take_change(self, event: Event, body: PlanStepChanged) -> Step | str | None:
        """Take in where a task of a plan stands."""
        if not self.is_running:
            return self._take_retry(event, body)
        if body.choice and event.actor == "person" and (self._question is None or self._question.body is None):
            return _CHOSEN
        if body.status == "paused":
            self.put_off.add(self._responded)
            return None if self._responded else _PAUSED
        failed = self._take_fill(event, body)
        entry, self._entry = self._entry, None
        return _name_configuration(entry, body.configuration) or failed

    def _take_retry(self, event: Event, body: PlanStepChanged) -> RecordedRetry | Event | None:
        """Take in that a task of an ended plan is taken back, or tried again with others at the same time."""
        if body.status != "pending":
            return event
        if self._retry is not None and event.seq == self._retry.seq + len(self._retry.tasks):
            self._retry.tasks.append(body.step)
            return None
        failed = frozenset(one.task.id for one in self.state.steps.values() if one.status in ("failed", "aborted"))
        self._retry = RecordedRetry(event.seq, event.time, failed, [body.step])
        return self._retry

    def _take_fill(self, event: Event, body: PlanStepChanged) -> RecordedFailure | None:
        if body.status == "running" and body.ask is None and not body.attempt:
            # It resumes after a pause.
            return None
        unanswered = self.asked and body.status in ("running", "failed")
        self.asked = body.ask.request if body.ask is not None else ""
        return RecordedFailure(event.seq, event.time, body.reason or "") if unanswered else None

    def take_undo(self, body: EffectUndone | Checkpoint) -> None:
        """Take in a step of a plan's taking back what a call did."""
        self.undone.setdefault(find_undone_call(body), []).append(body)

    def take_response(self, seq: int) -> None:
        """Take in that calls were sent or filled in."""
        self._responded, self.asked = seq, ""

    def take_calls(self, calls: tuple[str, ...], places: tuple[int, ...], tasks: tuple[int, ...]) -> None:
        """Take in the calls that were sent for tasks in the model's place."""
        plan = self.plans[-1]
        for call, place, task in zip(calls, places, tasks, strict=True):
            where = task, self.state.steps[task].attempt, place
            plan.sent.setdefault(where, []).append(call)
            plan.runs[where] = len(plan.confirmed)

    def find_configuration(self) -> RecordedConfiguration:
        """Return what the first plan was made under."""
        found = self.plans[0].body.configuration
        assert found is not None
        return found

    def note_pause(self, reason: str) -> None:
        """Note that the task paused; whoever resumes it then resumes its plan."""
        self._paused = reason if self.is_running else ""

    def take_resumption(self, event: Event) -> RecordedExecution | None:
        """Return the step with which somebody resumes a paused plan, where the event is the first one after."""
        if self._paused != "paused":
            return None
        self._paused = ""
        self._entry = RecordedExecution(event.seq, event.time, resumes=True)
        return self._entry

    def note_end(self) -> None:
        """Note that the task ended, and its plan with it."""
        self.asked, self._paused, self._entry = "", "", None


def _name_configuration(entry: RecordedExecution | None, named: RecordedConfiguration | None) -> str:
    """Note what a process that begins with a step runs plans under; return why that cannot be, "" where it can."""
    if named is None:
        return ""
    if entry is None:
        return _OTHERWISE
    entry.configuration = named
    return ""


class PlanProgress:
    """The way of one session through its recorded plans. Takes in the events that playing it again records."""

    def __init__(self, history: PlanHistory) -> None:
        self._history = history
        self.plan: RecordedPlan | None = history.left
        """The plan in hand as it was recorded, None where the recording has none like it."""
        self._begun = [history.left] if history.left is not None else []
        self._attempts: dict[int, int] = {}
        self._sent: Counter[Place] = Counter()
        self.asked: RecordedQuestion | None = None
        """The question to a person that was asked again last."""
        self._asked: set[int] = set()
        self._is_running, self._confirmed = False, 0
        self._put_off = set(history.put_off)
        self.pause: Callable[[], object] = bool
        """Lets the plan under way pause; set by what takes the session through it."""
        self.places: list[Place] = []
        """The places of the calls that were sent last."""

    def take_event(self, event: Event) -> None:
        """Take in what an event says of a plan."""
        match event.body:
            case PlanProposed(digest=digest):
                left = (one for one in self._history.plans if all(one is not begun for begun in self._begun))
                self.plan = next((one for one in left if one.body.digest == digest), None)
                self._begun += [self.plan] if self.plan is not None else []
                self._attempts, self._sent, self.places, self._is_running = {}, Counter(), [], False
                self._confirmed = 0
            case PlanConfirmed():
                self._is_running = True
                self._confirmed += 1
            case PlanStepChanged(step=step, attempt=attempt) if attempt:
                self._attempts[step] = attempt
            case _:
                pass

    def note_response(self, seq: int) -> None:
        """Note that a recorded response is given again; where the person paused the plan in its midst, it pauses."""
        if seq in self._put_off:
            self._put_off.remove(seq)
            self.pause()

    def name_calls(self, body: ModelResponded) -> tuple[str, ...]:
        """Return the recorded ids of calls that a plan sends in the model's place, "" for one that it had not sent.

        One that is sent more often than then is the last that was.
        """
        tasks = zip(body.tasks or (), body.places or (), strict=True)
        self.places = [(task, self._attempts.get(task, 0), place) for task, place in tasks]
        return tuple(self._name_call(place) for place in self.places)

    def _name_call(self, place: Place) -> str:
        sent = self.plan.sent.get(place, []) if self.plan is not None else []
        often = self._sent[place]
        self._sent[place] += 1
        return sent[min(often, len(sent) - 1)] if sent else ""

    def list_sent(self) -> list[str]:
        """Return the recorded ids of all times the calls in hand were sent."""
        return [call for place in self.places for call in (self.plan.sent.get(place, []) if self.plan else [])]

    @property
    def is_cut_off(self) -> bool:
        """Whether a call in hand was not sent then, and all that were sent were sent again."""
        sent = self.plan.sent if self.plan is not None else {}
        return any(place not in sent for place in self.places) and all(self._sent[place] for place in sent)

    def end(self, status: Status) -> list[str]:
        """Note that the task ended; return the recorded ids of calls of its plan that were not sent now."""
        if self.plan is None or not (self._is_running or status == "cancelled"):
            return []
        run = max(1, self._confirmed)
        places = [place for place in self.plan.sent if self.plan.runs[place] == run and not self._sent[place]]
        self._is_running = False
        return [call for place in places for call in self.plan.sent[place]]

    def find_preview(self, call: str) -> tuple[Survey, InForce] | None:
        """Return what looking at a call for the sheet found then, and what was in force; None where that is unknown."""
        confirmed = self.get_confirmation(self._confirmed)
        if confirmed is None:
            return None
        return next(((one, confirmed[1]) for one in confirmed[0].surveys if one.call == call), None)

    @property
    def confirmed(self) -> tuple[PlanConfirmed, InForce] | None:
        """How the plan was confirmed then that is confirmed now, and what was in force; None where it was not."""
        return self.get_confirmation(self._confirmed - 1)

    def get_confirmation(self, number: int) -> tuple[PlanConfirmed, InForce] | None:
        """Return how the plan in hand was confirmed for one of its runs, the last for a later one."""
        known = self.plan.confirmed if self.plan is not None else []
        return known[min(number, len(known) - 1)] if known else None

    def find_question(self, need: Need) -> RecordedQuestion | None:
        """Return the recorded question to a person that is asked again, None where it was not asked so often."""
        for asked in self._history.questions:
            if asked.seq not in self._asked and (asked.need.key, asked.need.digests) == (need.key, need.digests):
                self._asked.add(asked.seq)
                self.asked = asked
                return asked
        return None
