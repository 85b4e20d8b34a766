"""What the log holds of the plans of a session: who was asked what, what was proposed, confirmed and sent."""

from __future__ import annotations

from msgspec import Struct, field

from foregate.evidence.state.recorded_turns import InForce
from foregate.schemas.event import Actor, Event, NeedAnswered, NeedRaised
from foregate.schemas.event_body import Checkpoint, EffectUndone
from foregate.schemas.judgement import Need
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged, RecordedConfiguration

PREVIEW = "plan."
"""With this begins the id of a call that is only looked at for the sheet."""
_CHOSEN = "what follows a failed task was chosen here where nobody was asked, which is not played again"
_PAUSED = "the person paused the plan here before its first call, which is not played again"
_OTHERWISE = "another process went on with the plan here under another configuration, which is not played again"


class RecordedRound(Struct):
    """One round of questions to the planning model, with the look at the workspace before it and what it proposed.

    `request` is the hash of the first question: the others follow from it and the answers.
    """

    seq: int
    time: str
    gate: str
    look: str
    request: str
    answers: list[tuple[str, NeedAnswered]] = field(default_factory=list)
    proposal: PlanProposed | None = None


class RecordedProposal(Struct, frozen=True):
    """A plan that somebody brought along."""

    seq: int
    time: str
    body: PlanProposed
    actor: Actor


class RecordedExecution(Struct):
    """Somebody had the plan that waited carried out: with a yes beforehand, or with a question before each task."""

    seq: int
    time: str
    unseen: bool = False
    step: bool = False
    configuration: RecordedConfiguration | None = None


class RecordedResumption(Struct):
    """Somebody went on with a plan that had paused."""

    seq: int
    time: str
    configuration: RecordedConfiguration | None = None


class RecordedRetry(Struct):
    """Somebody had tasks of an ended plan tried again, of all that had failed."""

    seq: int
    time: str
    failed: frozenset[int]
    tasks: list[int]


class RecordedRollback(Struct, frozen=True):
    """What a task of an ended plan had done was taken back, which was recorded before, and how it stands since."""

    seq: int
    time: str
    body: PlanStepChanged


class RecordedFailure(Struct, frozen=True):
    """The execution model gave no answer: why."""

    seq: int
    time: str
    why: str


PlanStep = (
    RecordedRound
    | RecordedProposal
    | RecordedExecution
    | RecordedResumption
    | RecordedRetry
    | RecordedRollback
    | RecordedFailure
)


class RecordedQuestion(Struct):
    """A question about a plan to a person, and the plan that they made of it where they edited theirs."""

    seq: int
    need: Need
    time: str = ""
    body: NeedAnswered | None = None
    edited: PlanProposed | None = None


class RecordedPlan(Struct):
    """A plan, how often and under which policy it was confirmed, and the calls it sent in the model's place.

    `open` are the tasks that have come to nothing good. `sent` has by task, attempt and place the ids of each time the
    call was sent, `runs` after which confirmation.
    """

    body: PlanProposed
    confirmed: list[tuple[PlanConfirmed, InForce]] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)
    sent: dict[tuple[int, int, int], list[str]] = field(default_factory=dict)
    runs: dict[tuple[int, int, int], int] = field(default_factory=dict)


class PlanHistory:
    """Takes the events of a session that are about plans apart; each `take_` returns a step, a reason to halt, or None.

    `asked` is the hash of what the execution model is asked and has not answered, "" where it is asked nothing.
    `left` is the plan of the session that this one resumes.
    """

    def __init__(self, left: RecordedPlan | None = None) -> None:
        self.plans: list[RecordedPlan] = [] if left is None else [RecordedPlan(left.body, open=set(left.open))]
        self.left = None if left is None else self.plans[0]
        self.questions: list[RecordedQuestion] = []
        self.is_running, self.asked = False, ""
        self._round: RecordedRound | None = None
        self._question: RecordedQuestion | None = None
        self._entry: RecordedExecution | RecordedResumption | None = None
        self._retry: RecordedRetry | None = None
        self.undone: dict[str, list[EffectUndone | Checkpoint]] = {}
        """What was recorded when a plan by itself took back what a call did, by the id of that."""
        self.put_off: set[int] = set()
        """The responses during which a person had their plan pause."""
        self._paused, self._responded = "", 0
        self._answered = 0

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

    def take_proposal(self, event: Event, body: PlanProposed) -> RecordedProposal | None:
        """Take in a plan: of the planning model, of a person who edited one, or brought along, which is a step."""
        self.plans.append(RecordedPlan(body, open={task.id for task in body.proposal.tasks}))
        self.is_running = False
        if event.seq != self._answered + 1:
            return RecordedProposal(event.seq, event.time, body, event.actor)
        if event.actor == "planner" and self._round is not None:
            self._round.proposal = body
        elif self._question is not None:
            self._question.edited = body
        return None

    def take_confirmation(self, event: Event, body: PlanConfirmed, in_force: InForce) -> str:
        """Take in that a plan may run; return why it is not played from here, "" where it is."""
        self.is_running, self._paused, self._responded = True, "", 0
        self.plans[-1].confirmed.append((body, in_force))
        if isinstance(self._entry, RecordedExecution):
            self._entry.unseen, self._entry.step = not body.approved, body.step
        entry, self._entry = self._entry, None
        return _name_configuration(entry, body.configuration)

    def begin_execution(self, seq: int, time: str) -> RecordedExecution:
        """Return the step with which somebody has the plan carried out that waits."""
        self._entry = RecordedExecution(seq, time)
        return self._entry

    def take_change(self, event: Event, body: PlanStepChanged) -> PlanStep | str | None:
        """Take in where a task of a plan stands."""
        if not self.is_running:
            return self._take_retry(event, body)
        if body.choice and event.actor == "person" and (self._question is None or self._question.body is None):
            return _CHOSEN
        if body.status == "paused":
            self.put_off.add(self._responded)
            return None if self._responded else _PAUSED
        plan = self.plans[-1]
        (plan.open.discard if body.status in ("done", "skipped") else plan.open.add)(body.step)
        if body.attempt:
            plan.attempts[body.step] = body.attempt
        failed = self._take_fill(event, body)
        entry, self._entry = self._entry, None
        return _name_configuration(entry, body.configuration) or failed

    def _take_retry(self, event: Event, body: PlanStepChanged) -> RecordedRetry | RecordedRollback | None:
        """Take in that a task of an ended plan is taken back, or tried again with others at the same time."""
        if body.status != "pending":
            self.plans[-1].open.add(body.step)
            return RecordedRollback(event.seq, event.time, body)
        if self._retry is not None and event.seq == self._retry.seq + len(self._retry.tasks):
            self._retry.tasks.append(body.step)
            return None
        self._retry = RecordedRetry(event.seq, event.time, frozenset(self.plans[-1].open), [body.step])
        return self._retry

    def _take_fill(self, event: Event, body: PlanStepChanged) -> RecordedFailure | None:
        if body.status == "running" and body.ask is None and not body.attempt:
            # It goes on after a pause.
            return None
        unanswered = self.asked and body.status in ("running", "failed")
        self.asked = body.ask.request if body.ask is not None else ""
        return RecordedFailure(event.seq, event.time, body.reason or "") if unanswered else None

    def take_undo(self, body: EffectUndone | Checkpoint) -> None:
        """Take in a step of a plan's taking back what a call did."""
        call = body.undo if isinstance(body, Checkpoint) else body.call
        self.undone.setdefault(call, []).append(body)

    def take_response(self, seq: int) -> None:
        """Take in that calls were sent or filled in."""
        self._responded, self.asked = seq, ""

    def take_calls(self, calls: tuple[str, ...], places: tuple[int, ...], tasks: tuple[int, ...]) -> None:
        """Take in the calls that were sent for tasks in the model's place."""
        plan = self.plans[-1]
        for call, place, task in zip(calls, places, tasks, strict=True):
            where = task, plan.attempts.get(task, 0), place
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

    def take_resumption(self, event: Event) -> RecordedResumption | None:
        """Return the step with which somebody goes on, where an event of a plan that had paused is the first after."""
        if self._paused != "paused":
            return None
        self._paused = ""
        self._entry = RecordedResumption(event.seq, event.time)
        return self._entry

    def note_end(self) -> None:
        """Note that the task ended, and its plan with it."""
        self.is_running, self.asked, self._paused, self._entry = False, "", "", None


def _name_configuration(
    entry: RecordedExecution | RecordedResumption | None, named: RecordedConfiguration | None
) -> str:
    """Note what a process that begins with a step runs plans under; return why that cannot be, "" where it can."""
    if named is None:
        return ""
    if entry is None:
        return _OTHERWISE
    entry.configuration = named
    return ""
