"""What the events of a session must say of each other so that nothing ran without leave and every call was answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from foregate.schemas import event_body, strict_json
from foregate.schemas.event import Continuation, Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import TaskEnded, TaskPaused, TaskStarted, UserMessage
from foregate.schemas.judgement import Decision, Standing
from foregate.schemas.review import ReviewBody
from foregate.schemas.session_link import is_of_other_session
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.tool_call import hash_surveys
from foregate.telemetry.queries.agreement import Finding

_OWN = frozenset({"call", "duration", "early", "look"})
"""What the end of a call says that is not what the look it is answered from showed."""


class InvariantChecker:
    """Checks events in order. Keeps the calls of the response in hand, the leaves of the task, and what is unknown."""

    def __init__(self) -> None:
        self._response = self._said = 0
        self._stage: dict[str, str] = {}
        self._calls, self._waiting, self._open, self._unknown = set[str](), set[str](), set[str](), set[str]()
        self._permits: dict[tuple[int, str], tuple[str, str]] = {}
        self._used: set[tuple[int, str]] = set()
        self._running: dict[str, event_body.SideEffect] = {}
        self._ended: dict[str, int] = {}
        self._ahead: set[int] = set()
        self._early: dict[str, tuple[int, str, str]] = {}
        self._looks: dict[int, tuple[str, str, str]] = {}
        self._seen: dict[str, str | None] = {}

    def check_event(self, event: Event) -> Iterator[Finding]:
        """Yield what is wrong with `event` after those before it."""
        match event.body:
            case ModelResponded() as body:
                yield from self._check_response(event.seq, body)
            case TurnJudged() as body:
                yield from self._check_judgement(event.seq, body)
            case event_body.CallBody() as body:
                yield from self._check_call(event.seq, body)
            case TaskStarted():
                self._forget_permits()
            case TaskEnded():
                yield from self._check_open_calls()
                self._forget_permits()
            case event_body.SessionEnded(events=count):
                if count != event.seq:
                    yield "other_count", f"the session ended with {count} events, and this is number {event.seq}"
            case event_body.SessionStarted() | event_body.CatalogChanged() | event_body.PolicyChanged():
                pass
            case ReviewBody():
                yield "misplaced", f"event {event.seq} is one of the review log, and no session has any"
            case UserMessage() | TaskPaused() | NeedRaised() | NeedAnswered():
                pass
            case PlanProposed() | PlanConfirmed() | PlanStepChanged():
                pass
            case event_body.ContextCompressed() | event_body.NoteBody():
                pass
            case _:
                assert_never(event.body)

    def _check_call(self, seq: int, body: event_body.AnyCallBody) -> Iterator[Finding]:
        """Yield what is wrong with an event of a call."""
        match body:
            case event_body.ToolStarted() as body:
                yield from self._check_start(body)
            case event_body.SandboxEnded(call=call):
                if call not in self._running:
                    yield "ended_without_start", f"`{call}` ended in a sandbox but was never started"
                self._running[call], self._ended[call] = "pure", seq
            case event_body.ToolFinished() as body:
                yield from self._check_finish(body)
            case event_body.OutcomeUnknown(call=call):
                self._unknown.add(call)
                yield from self._check_end(call)
            case event_body.OutcomeResolved(call=call):
                if call not in self._unknown and not is_of_other_session(call):
                    yield "resolved_without_question", f"the outcome of `{call}` is resolved, and it was not unknown"
                self._unknown.discard(call)
            case event_body.CallAnswered(call=call):
                if self._running.pop(call, "pure") != "pure":
                    yield "answered_while_running", f"`{call}` is answered as not run though it was started"
                yield from self._check_answer(call)
            case event_body.EffectUndone():
                pass
            case _:
                assert_never(body)

    def _check_response(self, seq: int, body: ModelResponded) -> Iterator[Finding]:
        stage = {recorded.id: recorded.call.digest for recorded in body.calls}
        whole = {recorded.id for recorded in body.program.calls} if body.program is not None else set[str]()
        if body.continues is not None:
            yield from self._check_continuation(body.continues, [recorded.id for recorded in body.calls])
        else:
            yield from self._check_open_calls()
            self._looks = {judged: look for judged, look in self._looks.items() if judged > self._said}
            self._said, self._calls = seq, set()
            self._open, self._waiting = {*whole, *stage}, whole - stage.keys()
            if whole and not stage.keys() <= whole:
                yield "other_call", "its first calls are not among those it says it holds"
        self._response, self._stage = seq, stage
        self._calls |= {*whole, *stage}
        if len(stage) < len(body.calls) or (body.program is not None and len(whole) < len(body.program.calls)):
            yield "call_twice", "two calls of one response have the same id"

    def _check_continuation(self, continues: Continuation, calls: list[str]) -> Iterator[Finding]:
        """Yield what is wrong with a further stage: it holds calls that wait, once all given to judge are answered."""
        if (response := continues.response) != self._said:
            yield "other_response", f"it continues response {response}, but the one in hand is {self._said}"
        for call in calls:
            if call not in self._waiting:
                yield "other_call", f"`{call}` is no call that waits for results"
        for call in sorted(self._open - self._waiting):
            yield "no_answer", f"`{call}` was not answered before the calls that come after it"
        self._waiting.difference_update(calls)

    def _check_judgement(self, seq: int, body: TurnJudged) -> Iterator[Finding]:
        turn, judgement = body.turn, body.judgement
        if hash_surveys(turn.surveys) != body.survey_hash:
            yield "other_survey", "its surveys do not have the hash that was judged on"
        if body.early:
            self._ahead.add(seq)
            if turn.actor != "runner":
                yield "no_look", "it is said to judge an early look, and judges no look of Foregate's own"
        calls = self._stage
        if turn.proposed is not None:
            calls = {recorded.id: recorded.call.digest for recorded in turn.proposed}
        elif turn.actor == "model" and turn.response != self._response:
            yield "other_response", f"it judges response {turn.response}, but the one in hand is {self._response}"
        stopped, unsettled = _find_stopped_calls(judgement.decisions)
        seen: set[str] = set()
        for verdict in judgement.verdicts:
            call, digest = verdict.call, verdict.digest
            if calls.get(call) != digest or call in seen:
                yield "other_call", f"its verdict on `{call}` is not on a call that was made, or not the only one"
                continue
            seen.add(call)
            if verdict.standing is not Standing.ALLOW:
                continue
            if call in stopped:
                yield "allowed_against_ruling", f"it allows `{call}`, which one of its gates stopped"
            elif call in unsettled and not turn.dry_run:
                yield "allowed_without_leave", f"it allows `{call}`, which a gate asked about and nobody gave leave for"
            else:
                self._permits[seq, call] = digest, body.survey_hash

    def _check_start(self, body: event_body.ToolStarted) -> Iterator[Finding]:
        permit, call = body.permit, body.call
        key = permit.judged, permit.call
        if key in self._used:
            yield "permit_used_twice", f"`{call}` ran on a permit that was used before"
        elif permit.call != call or self._permits.get(key) != (permit.digest, permit.survey_hash):
            yield "no_permit", f"`{call}` ran, but no judgement before it allowed this call"
        yield from self._check_early_read(body)
        if call in self._calls and call not in self._open:
            yield "ran_after_answer", f"`{call}` ran after it was answered"
        if self._ended.pop(call, None) != body.applies:
            yield "no_sandbox", f"`{call}` applies what a sandbox changed that is not the one it ended in"
        if self._running.get(call, "pure") != "pure":
            yield "ran_twice", f"`{call}` was started again though its first run may have had an effect"
        self._used.add(key)
        self._permits.pop(key, None)
        self._running[call] = body.side_effect

    def _check_early_read(self, body: event_body.ToolStarted) -> Iterator[Finding]:
        """Yield what is wrong with a look taken early, or with a call that is answered from one."""
        call, judged, digest = body.call, body.permit.judged, body.permit.digest
        self._early.pop(call, None)
        self._seen.pop(call, None)
        if (body.early or body.look is not None) and body.side_effect != "pure":
            yield "early_change", f"`{call}` is said to be a mere look, and it may have had an effect"
        if body.early != (judged in self._ahead) or (body.early and call in self._calls):
            yield "no_look", f"`{call}` is said to be an early look and was not judged as one, or the other way round"
        if body.early:
            self._early[call] = judged, body.tool, digest
        elif body.look is not None:
            *taken, showed = self._looks.pop(body.look, ("", "", ""))
            fits = taken == [body.tool, digest] and call in self._calls
            self._seen[call] = showed if fits else None
            if not fits:
                yield "no_look", f"`{call}` is answered from a look not taken for it, or one that has served already"

    def _check_finish(self, body: event_body.ToolFinished) -> Iterator[Finding]:
        call = body.call
        if (body.early, body.look is not None) != (call in self._early, call in self._seen):
            yield "no_look", f"`{call}` says of an early look where it begins, or where it ends, and not both"
        if call in self._early or call in self._seen:
            showed = strict_json.sha256(strict_json.encode_record(strict_json.dump(body, exclude=_OWN)))
            if (self._seen.pop(call, None) or showed) != showed:
                yield "no_look", f"`{call}` is answered with something else than the look it is answered from showed"
            if (early := self._early.pop(call, None)) is not None:
                self._looks[early[0]] = *early[1:], showed
        yield from self._check_end(call)

    def _check_end(self, call: str) -> Iterator[Finding]:
        if self._running.pop(call, None) is None:
            yield "ended_without_start", f"`{call}` ended but was never started"
        elif call in self._calls:
            yield from self._check_answer(call)

    def _check_answer(self, call: str) -> Iterator[Finding]:
        if call in self._open:
            self._open.discard(call)
            self._waiting.discard(call)
        elif call in self._calls:
            yield "answered_twice", f"`{call}` was answered before"
        else:
            yield "answer_without_call", f"`{call}` is answered but was not asked for"

    def _check_open_calls(self) -> Iterator[Finding]:
        """Yield what should have been answered before the next response or the end of the task."""
        for call in sorted(self._open):
            yield "no_answer", f"`{call}` was never answered"
        for call in sorted(call for call, side_effect in self._running.items() if side_effect != "pure"):
            yield "no_outcome", f"`{call}` was started and its outcome never recorded"
        self._open.clear()
        self._running.clear()
        self._ended.clear()

    def _forget_permits(self) -> None:
        """Leaves end with the task they were given in."""
        for known in (self._permits, self._used, self._ahead, self._early, self._looks):
            known.clear()


def _find_stopped_calls(decisions: Iterable[Decision]) -> tuple[set[str], set[str]]:
    """Return the calls that gates in force stopped, and those they asked about without leave given afterwards."""
    rulings = [(one.gate, ruling) for one in decisions if one.mode == "enforce" for ruling in one.rulings]
    asked: set[str] = set()
    for gate, ruling in rulings:
        if ruling.standing is Standing.ASK:
            asked.add(ruling.call)
        elif ruling.code == "approval_granted" and gate == "approval":
            asked.discard(ruling.call)
    return {ruling.call for _, ruling in rulings if ruling.standing.stops}, asked
