"""How far the plans of a session were played again: which one is in hand, and which of its calls is which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from foregate.evidence.state.recorded_turns import InForce
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import Status
from foregate.schemas.judgement import Need
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.tool_call import Survey
from foregate.tuning.rehearsing.recorded_plan import PlanHistory, RecordedPlan, RecordedQuestion

Place = tuple[int, int, int]
"""A task, its attempt, and the place of one of its calls."""


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
