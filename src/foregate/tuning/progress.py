"""How far a recorded session has been played again: which of its steps is next, and which of its calls is which."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NoReturn

from foregate.agent.workspace.cancelled_work import Stopped
from foregate.evidence.state.lineage import join_events
from foregate.gates.replay.assumption import Assumption
from foregate.gates.replay.redecide import is_fitting
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, TaskEnded, ToolFinished
from foregate.schemas.judgement import Need
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.session_link import is_of_other_session, name_call
from foregate.schemas.tool_call import ToolCall
from foregate.tuning.recorded_plan import PlanProgress
from foregate.tuning.recorded_steps import (
    NothingRecorded,
    RecordedAnswer,
    RecordedFate,
    RecordedMessage,
    RecordedResponse,
    RecordedRound,
    RecordedSwitch,
    RecordingEnds,
    Step,
)
from foregate.tuning.recording import Recording

# "c12.1": the event of a response, and the place of a call in it; "p12.1": a look that Foregate made itself.
_ID = compile_late(r"([cp])(\d+)\.(\d+)(.*)", re.DOTALL)
_RAN, _OTHERWISE = "ran", "ran otherwise"


class Progress:
    """The way of one session through its recording. Listens to the events that playing it again records.

    `earlier` is that of the session it resumes.
    """

    def __init__(self, recording: Recording, assumed: Assumption, earlier: Progress | None = None) -> None:
        self.recording, self.assumed, self.earlier = recording, assumed, earlier
        self.stopped = ""
        """Why it was stopped before its end, "" while it was not."""
        self.is_left_open = False
        """Whether it was played as far as it went then, with something open."""
        self.is_torn = False
        """Whether it went as far as into the midst of a turn, which was played to its end."""
        self.at, self.now = 0, recording.time
        self.assumptions: Counter[str] = Counter()
        """How often something was assumed, by who."""
        self.used: set[int] = set()
        """The recorded answers that were given again, by their events."""
        self.response: RecordedResponse | None = None
        """The response in hand."""
        self.plans = PlanProgress(recording.history)
        self.mark: tuple[int, int] | None = None
        """The recorded event with which the part of a plan in hand began, and the event with which it begins now."""
        self._seq = 0
        self._is_planned = False
        self._calls: tuple[str, ...] = ()
        self._untold: dict[str, None] = {}
        self._looks: dict[str, str] = {}
        self._played: dict[int, tuple[int, tuple[str, ...]]] = {}
        self._repeats: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._missing: set[str] = set()

    # the steps

    @property
    def step(self) -> Step | None:
        """The step that comes next, None at the end of the recording."""
        return self.recording.steps[self.at] if self.at < len(self.recording.steps) else None

    def begin_response(self, response: RecordedResponse, calls: Sequence[ToolCall]) -> None:
        """Note that a recorded response is given again, with these of its calls."""
        self.response, self._calls, self.now = response, tuple(call.id for call in calls), response.time
        self._untold |= dict.fromkeys(self._calls)
        self._is_planned = False
        self.plans.note_response(response.seq)

    def begin_part(self, seq: int, time: str) -> None:
        """Note that a part of a plan begins that began with a recorded event then."""
        self.pass_time(time)
        if self.mark is None or seq > self.mark[0]:
            self.mark = seq, self._seq + 1

    def take_event(self, event: Event) -> None:
        """Take in an event that playing again has recorded."""
        self.plans.take_event(event)
        match event.body:
            case ModelResponded(continues=None, places=places) as body if places is not None:
                self._take_planned_calls(event.seq, self.plans.name_calls(body))
            case ModelResponded(continues=None, calls=calls) if self.response is not None:
                self._played[event.seq] = self.response.seq, self._calls if calls else ()
            case CallAnswered(call=call, code=code):
                self._told[self.find_recorded_id(call)] = code
            case ToolFinished(call=call, early=False) | OutcomeUnknown(call=call):
                self._told[self.find_recorded_id(call)] = _RAN
            case TaskEnded(status=status):
                self._untold |= dict.fromkeys(self.plans.end(status))
                self.mark = None
            case _:
                pass
        self._seq = event.seq

    def _take_planned_calls(self, seq: int, calls: tuple[str, ...]) -> None:
        """Note which calls of then a plan sends now."""
        self.note_missing_changes(calls)
        self._untold |= dict.fromkeys(filter(None, calls))
        self._is_planned = True
        self.response = next((self.recording.planned[call] for call in calls if call), None)
        self._played[seq] = (self.response.seq if self.response is not None else 0), calls
        if self.response is not None:
            self.begin_part(self.response.seq, self.response.time)
            self.plans.note_response(self.response.seq)

    def note_missing_changes(self, again: Sequence[str] = ()) -> None:
        """Note what earlier calls of a plan changed then and not now, but for those it sends `again`."""
        for call in self._untold:
            if call not in again and self._told.get(call, "") != _RAN and self.recording.find_fate(call).code == _RAN:
                self._note_missing(call)

    def note_other_answer(self, call: str) -> None:
        """Note that a child task answered the call that began it otherwise than then."""
        self._told[self.find_recorded_id(call)] = _OTHERWISE

    def pass_time(self, time: str) -> None:
        """Let the clock stand at a recorded time, unless it is later already."""
        self.now = max(self.now, time)

    def stop_at_end(self) -> NoReturn:
        """Stop where the log ends, perhaps in the midst of a turn whose calls have no recorded outcome."""
        self.is_torn = any(call in self._told and not self.recording.find_fate(call).code for call in self._untold)
        raise RecordingEnds

    def cancel(self) -> NoReturn:
        """Cancel the task where it was cancelled then."""
        raise Stopped

    def assume(self, who: str, said: str) -> str:
        """Return what somebody is assumed to answer, and count it; "" is no answer."""
        self.assumptions[who] += bool(said)
        return said

    def find_place(self) -> int:
        """Return the first event that was not played; of a session that was left open what it waited for is none."""
        if self.is_left_open and self.response is not None and not self.recording.was_judged(self.response):
            return self.response.seq + 1
        return self.step.seq if self.step is not None else self.recording.last + 1

    @property
    def before(self) -> tuple[str, ...]:
        """The sessions that this one resumes, oldest first."""
        return (*self.earlier.before, self.earlier.recording.name) if self.earlier is not None else ()

    def list_joined(self, until: int) -> list[Event]:
        """Return the recorded events before one, after those of the sessions that this one resumes."""
        mine = [event for event in self.recording.events if event.seq < until]
        if self.earlier is None:
            return mine
        before = self.earlier.list_joined(self.earlier.recording.last + 1)
        return [*join_events(before, self.recording.name), *mine]

    # the calls

    def find_recorded_id(self, call: str) -> str:
        """Return the id that a call had in the recording, from the one it has now; "" for a new call."""
        match = _ID.fullmatch(call)
        if match is not None and match[1] == "p" and int(match[2]) not in self._played:
            return self._find_look(call)
        seq, calls = self._played.get(int(match[2]), (0, ())) if match else (0, ())
        if match is None or not seq:
            return ""
        if match[1] == "p":
            return f"p{seq}.{match[3]}{match[4]}"
        number = int(match[3])
        return f"{calls[number - 1]}{match[4]}" if number <= len(calls) else ""

    def _find_look(self, call: str) -> str:
        """Return the recorded id of the look at the workspace before a plan is asked for, "" where none was taken."""
        if call not in self._looks and isinstance(step := self.step, RecordedRound):
            self._looks[call] = step.look
            self.begin_part(step.seq, step.time)
        return self._looks.get(call, "")

    def find_present_id(self, recorded: str) -> str:
        """Return the id that a recorded call has now, "" for one that has not run here.

        A call of a session that this one resumes is named with that session, then as now.
        """
        if is_of_other_session(recorded):
            other, session, call = self._find_other(recorded)
            present = other.find_present_id(call) if other is not None else ""
            return name_call(session, present) if present else ""
        own = next((own for own, repeated in self._repeats.items() if repeated == recorded), recorded)
        if self._told.get(own) != _RAN:
            return ""
        seq = next(seq for seq, (_, calls) in reversed(self._played.items()) if own in calls)
        return f"c{seq}.{self._played[seq][1].index(own) + 1}"

    def find_recorded_name(self, call: str) -> str:
        """Return the name that a call had in the recording, also one of a session that this one resumes."""
        if not is_of_other_session(call):
            return self.find_recorded_id(call)
        other, session, own = self._find_other(call)
        return name_call(session, other.find_recorded_id(own) if other is not None else "")

    def _find_other(self, call: str) -> tuple[Progress | None, str, str]:
        """Return the progress of the resumed session that a call belongs to, that session, and the call."""
        session, _, own = call.partition(":")
        other = self.earlier
        while other is not None and other.recording.name != session:
            other = other.earlier
        return other, session, own

    def find_run(self, call: ToolCall) -> RecordedFate:
        """Return how a call ran, or why it was not started once it might; raise NothingRecorded where it did neither.

        One that had not run takes the outcome of its repeat, where it was sent again at once; the repeat is left out.
        """
        own = self.find_recorded_id(call.id)
        fate = self.recording.find_fate(own)
        if fate.started is not None or (fate.answered is not None and _was_let_go(fate.answered)):
            return fate
        for repeated in self._list_repeats(call.digest):
            again = self.recording.find_fate(repeated)
            if again.started is not None and repeated not in self._repeats.values():
                self._repeats[own] = repeated
                # A plan sends again by itself, a model may not.
                self.assumptions["repeats"] += not self._is_planned
                return again
        raise NothingRecorded(f"`{call.name[:64]}` is let go here, which had not run, so no result is recorded")

    def find_final_id(self, call: str) -> str:
        """Return the recorded id whose results stand for a call: its own, or that of its repeat."""
        own = self.find_recorded_id(call)
        return self._repeats.get(own, own)

    def _list_repeats(self, digest: str) -> Iterator[str]:
        for response in self._list_repeating():
            yield from (call.id for call in response.response.calls if call.digest == digest)

    def _list_repeating(self) -> Iterator[RecordedResponse]:
        """Yield the responses right after the one in hand that only send again what it had and did not run."""
        if self._is_planned:
            yield from {
                id(one): one for one in map(self.recording.planned.__getitem__, self.plans.list_sent())
            }.values()
            return
        if self.response is None:
            return
        left = {call.digest for call in self.response.response.calls}
        for step in self.recording.steps[self.at :]:
            match step:
                case RecordedSwitch() | RecordedMessage(answers="needs_input"):
                    continue
                case RecordedResponse(response=response) if response.calls:
                    if any(call.digest not in left for call in response.calls):
                        return
                    yield step
                case _:
                    return

    def strip_repeats(self, response: RecordedResponse) -> list[ToolCall]:
        """Return the calls of a response without those that have run already because they were not held this time."""
        done = set(self._repeats.values())
        return [call for call in response.response.calls if call.id not in done]

    @property
    def has_repeats(self) -> bool:
        """Whether anything of the response in hand has taken the outcome of a repeat."""
        return any(call.split(".")[0] == f"c{self.response.seq}" for call in self._repeats) if self.response else False

    # what the model is told, and what was answered

    def check_told(self) -> None:
        """Raise NothingRecorded where the model was told something else of a call than then.

        What it would have said to that is unknown, unless it is assumed that it says the same.
        """
        told, self._untold, self.mark = self._untold, {}, None
        for call in told:
            then, now = self.recording.find_fate(call).code, self._told.get(call, "")
            if then == now or (now == _RAN and call in self._repeats):
                continue
            if not then and self.step is None:
                self._untold = told
                self.stop_at_end()
            why = "so what the model would have said is unknown"
            self.assume_same(f"{_describe_other(then, now)}, {why} (--assume model=same goes on)")
            if then == _RAN and now != _OTHERWISE:
                self._note_missing(call)

    def assume_same(self, why: str) -> None:
        """Assume that a model says the same to something else; raise NothingRecorded where that is not assumed."""
        if self.assumed.model != "same":
            raise NothingRecorded(why)
        self.assumptions["model"] += 1

    def _note_missing(self, call: str) -> None:
        """Note what a call changed that does not run now: what touches that is not as it was recorded."""
        fate = self.recording.find_fate(call)
        found = fate.end
        if isinstance(found, OutcomeUnknown) or (isinstance(found, ToolFinished) and not found.changes):
            side = fate.started is not None and fate.started.side_effect != "pure"
            self._missing.update(["*"] if side else [])
        elif isinstance(found, ToolFinished):
            self._missing.update(change.resource.id for change in found.changes)

    def check_world(self, call: ToolCall, named: Sequence[str], *, commands: bool) -> None:
        """Raise NothingRecorded where a call touches what an earlier one changed then and does not now."""
        touched = commands or "*" in self._missing or not self._missing.isdisjoint(named)
        if self._missing and touched:
            why = "a change it may rest on was made then and is not made now"
            raise NothingRecorded(f"what `{call.name[:64]}` finds here is not recorded: {why}")

    def find_answer(self, need: Need, *, sandboxed: bool) -> RecordedAnswer | None:
        """Return the recorded answer to a question that has not been given again yet, None for a new question."""
        for response in (*([self.response] if self.response is not None else []), *self._list_repeating()):
            for known in response.answers:
                fits = known.sandboxed == sandboxed and is_fitting(known.answer, need)
                if fits and known.seq not in self.used:
                    self.used.add(known.seq)
                    return known
        return None


def _was_let_go(answered: CallAnswered) -> bool:
    """Whether a call was permitted and not started after all, as the machine said then."""
    return answered.ruling == "not_run" and answered.code in ("stale_evidence", "runtime_lost", "tool_failed")


def _describe_other(then: str, now: str) -> str:
    """Return in words how what the model is told of a call differs."""
    if now == _OTHERWISE:
        return "a child task answers otherwise now"
    was = "ran" if then == _RAN else f"was answered with {then or 'nothing'}"
    comes = "runs" if now == _RAN else f"is answered with {now or 'nothing'}"
    return f"a call that {was} {comes} now"
