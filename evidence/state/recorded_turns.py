"""From a recorded turn back to the turn the judge read, and on to what became of a call of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from foregate.schemas import event_body
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import EventBody, Kind, get_kind
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Judgement
from foregate.schemas.plan import PlanInForce, restore_spent
from foregate.schemas.protocols import Readable
from foregate.schemas.sandbox import describe_counts
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanConfirmed
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec
from foregate.schemas.turn import PlanUse, Said, Turn, TurnRecord, read_basis

_ROOM = 256
B = TypeVar("B", bound=EventBody)
Lookup = Callable[[int], Event]
"""From an event number to the event."""


def rebuild_turn(record: TurnRecord, lookup: Lookup) -> Turn:
    """Return the turn that a record stands for, with what lies in other events brought back.

    Raises LookupError for an event that is not there, InvalidJson for one of another kind than the record says.
    """
    text, calls = "", tuple(recorded.call for recorded in record.proposed or ())
    if record.proposed is None:
        response = find_body(record.response, ModelResponded, lookup).response
        text, calls = response.text, response.calls[: record.judged_calls]
    words = {seq: find_body(seq, event_body.UserMessage, lookup).text for seq in record.user_messages}
    said = tuple(Said(seq, text, lookup(seq).actor) for seq, text in words.items())
    answered = {seq: find_body(seq, NeedAnswered, lookup) for seq in record.answers}
    answers = tuple(replace(one.answer, seq=seq, requests=one.model_calls) for seq, one in answered.items())
    plan = find_plan(record.plan, lookup) if record.plan is not None else None
    more: dict[str, Any] = {"answers": answers, "plan": plan, "proposal": find_proposal(record.proposal, lookup)}
    return Turn(**read_basis(record), text=text, calls=calls, user_messages=said, **more)


def find_body(seq: int, kind: type[B], lookup: Lookup) -> B:
    """Return the body of an event; raise InvalidJson where it is of another kind."""
    body = lookup(seq).body
    if not isinstance(body, kind):
        raise InvalidJson(f"event {seq} is a {body.kind}, not a {get_kind(kind)}")
    return body


def find_proposal(seq: int, lookup: Lookup) -> Said | None:
    """Return what the model proposed in a response, None for the number 0."""
    return Said(seq, find_body(seq, ModelResponded, lookup).text, "model") if seq else None


def find_plan(use: PlanUse, lookup: Lookup) -> PlanInForce:
    """Return the plan in force, from the event that accepted it and the uses made since."""
    body = lookup(use.seq).body
    plan = body.plan if isinstance(body, (TurnJudged, PlanConfirmed)) else None
    if isinstance(body, event_body.TaskStarted) and body.leave is not None:
        plan = body.leave.plan
    if plan is None or len(plan.items) != len(use.used):
        raise InvalidJson(f"event {use.seq} accepted no plan with {len(use.used)} items")
    items = tuple(replace(item, used=used) for item, used in zip(plan.items, use.used, strict=True))
    try:
        return replace(plan, seq=use.seq, items=restore_spent(items, use.spent))
    except ValueError as error:
        raise InvalidJson(f"event {use.seq} accepted another plan: {error}") from None


class InForce(Struct, frozen=True):
    """What holds from some event on: the policy with its hash and what was recorded of its layers, and the tools."""

    policy: Mapping[str, Json] | None = None
    policy_hash: str = ""
    layers: Mapping[str, Json] | None = None
    catalogue: tuple[ToolSpec, ...] | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> InForce:
        """Return what holds after events of LAYING, in their order."""
        found = cls()
        for event in events:
            found = found.apply(event)
        return found

    def apply(self, event: Event) -> InForce:
        """Return what holds after an event of LAYING."""
        body, found = event.body, self
        if isinstance(body, (event_body.SessionStarted, event_body.PolicyChanged)) and body.policy is not None:
            found = replace(found, policy=body.policy, policy_hash=event.policy, layers=body.layers)
        if isinstance(body, (event_body.SessionStarted, event_body.CatalogChanged)):
            found = replace(found, catalogue=body.catalogue)
        return found

    def require(self) -> tuple[Mapping[str, Json], tuple[ToolSpec, ...]]:
        """Return the policy and the tools; raise InvalidJson where no event says which hold."""
        if self.policy is None or self.catalogue is None:
            raise InvalidJson("no event before it says which policy and which tools hold")
        return self.policy, self.catalogue


LAYING: tuple[Kind, ...] = ("session_started", "policy_changed", "catalog_changed")
"""Kinds of the events that change what holds."""
_TOLD: tuple[Kind, ...] = ("task_started", "user_message", "model_response", "need_answered", "plan_confirmed")
JUDGING: tuple[Kind, ...] = (*LAYING, *_TOLD, "turn_judged")
"""Kinds of the events a turn is put together from."""


class RecordedTurn(Struct, frozen=True):
    """A judged turn of a log with everything needed to judge it again: the policy as JSON.

    `foregate` is the version whose gates judged it.
    """

    seq: int
    turn: Turn
    judgement: Judgement
    in_force: InForce
    time: str
    foregate: str = ""


def read_judged_turns(
    events: Iterable[Event], lookup: Lookup | None = None, start: InForce | None = None
) -> Iterator[RecordedTurn]:
    """Yield the judged turns among a session's events, in order; raise LookupError where an event is missing.

    Without `lookup` all events are kept to be found again; `start` is what holds where they do not begin at the first.
    """
    known: dict[int, Event] = {}
    holds = start or InForce()
    for event in events:
        if lookup is None:
            known[event.seq] = event
        if event.kind in LAYING:
            holds = holds.apply(event)
        if isinstance(event.body, TurnJudged):
            turn = rebuild_turn(event.body.turn, lookup or known.__getitem__)
            yield RecordedTurn(event.seq, turn, event.body.judgement, holds, event.time, event.foregate)


def find_event(log: Readable, session: str, seq: int) -> Event | None:
    """Return an event of a session, None where the log has none of this number; raise LogError for one unreadable."""
    return next(iter(log.events(session, after=seq - 1, until=seq)), None)


class EventWindow:
    """Finds events by number: the last ones that went by, and as many further ones in the log."""

    def __init__(self, log: Readable, session: str) -> None:
        self._passed: dict[int, Event] = {}

        @lru_cache(maxsize=_ROOM)
        def fetch_event(seq: int) -> Event | None:
            return find_event(log, session, seq)

        self._fetch_event = fetch_event

    def follow(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield `events`, keeping the last ones."""
        for event in events:
            self._passed[event.seq] = event
            if len(self._passed) > _ROOM:
                del self._passed[next(iter(self._passed))]
            yield event

    def __call__(self, seq: int) -> Event:
        """Return an event; raise LookupError where the log has none of this number."""
        if (found := self._passed.get(seq) or self._fetch_event(seq)) is None:
            raise LookupError(f"event {seq} is not there")
        return found


_NEEDS: tuple[Kind, ...] = ("need_raised", "need_answered")
_CAME: tuple[Kind, ...] = ("sandbox_ended", "tool_finished", "call_answered")
_FATES: tuple[Kind, ...] = (*_CAME, "outcome_unknown", "outcome_resolved", "effect_undone")
_TASK: tuple[Kind, ...] = ("user_message", "model_response", "task_paused", "task_ended")
KINDS: tuple[Kind, ...] = (*_TASK, "turn_judged", *_NEEDS, "tool_started", *_FATES)
"""The kinds of events an aftermath is made of."""

Outcome = Literal["sandboxed", "ran", "failed", "unknown", "resolved", "undone", "not_run", "shown", "looked"]
What = Literal[Outcome, "asked", "answered", "paused", "replied", "sent_again", "ended"]


class CallHistoryEntry(Struct, frozen=True):
    """One thing that happened: the event, what in a word, and the details that word has; `by` is who answered."""

    seq: int
    what: What
    call: str = ""
    who: str = ""
    code: str = ""
    text: str = ""
    by: Identity | None = None


def read_call_history(
    events: Iterable[Event], judged: int, gate: str, call: ToolCall | None
) -> Iterator[CallHistoryEntry]:
    """Yield what became of a call judged at event `judged`, from the events of its response on, until its task ends;
    after that only that its effect was undone. Of its questions those of `gate` count; of the same call sent again the
    first time, and the outcome."""
    ids = {call.id} if call is not None else set[str]()
    open_ = again = ended = False
    for event in events:
        seq, later = event.seq, event.seq > judged
        if ended and not isinstance(event.body, event_body.EffectUndone):
            continue
        match event.body:
            case NeedRaised(need=need) if need.gate in (gate, "loop") and not ids.isdisjoint(need.calls):
                open_ = True
                yield CallHistoryEntry(seq, "asked", who=need.who, code=need.code)
            case NeedAnswered(answer=answer, by=by) if open_ and answer.gate in (gate, "loop"):
                open_, value = False, answer.value or {}
                said = value.get("choice") or value.get("verdict") or ("a plan" if value else "")
                yield CallHistoryEntry(seq, "answered", who=answer.who, code=str(said), text=answer.error, by=by)
            case ModelResponded(continues=None) as body if later and call is not None and not again:
                if same := [recorded.id for recorded in body.calls if recorded.call.digest == call.digest]:
                    again = True
                    ids.add(same[0])
                    yield CallHistoryEntry(seq, "sent_again", same[0])
            case event_body.TaskPaused(reason="needs_input", question=question) if later:
                yield CallHistoryEntry(seq, "paused", text=question or "")
            case event_body.UserMessage(text=text) if later:
                yield CallHistoryEntry(seq, "replied", text=text)
            case event_body.TaskEnded(status=status, note=note) if later:
                ended = True
                yield CallHistoryEntry(seq, "ended", code=status, text=note)
            case event_body.CallBody() as body if later and body.call in ids:
                yield from _read_outcome(seq, body)
            case _:
                pass


def _read_outcome(seq: int, body: event_body.AnyCallBody) -> Iterator[CallHistoryEntry]:
    match body:
        case event_body.ToolStarted():
            pass
        case event_body.ToolFinished(call=call, ok=ok, content=content):
            yield CallHistoryEntry(seq, "ran", call) if ok else CallHistoryEntry(seq, "failed", call, text=content)
        case event_body.OutcomeUnknown(call=call, reason=reason):
            yield CallHistoryEntry(seq, "unknown", call, text=reason)
        case event_body.OutcomeResolved(call=call):
            yield CallHistoryEntry(seq, "resolved", call)
        case event_body.EffectUndone(call=call):
            yield CallHistoryEntry(seq, "undone", call)
        case event_body.SandboxEnded(call=call, counts=counts):
            yield CallHistoryEntry(seq, "sandboxed", call, text=describe_counts(counts))
        case event_body.CallAnswered(call=call, tool=tool, code=code, message=message, observed=observed):
            yield CallHistoryEntry(seq, "not_run", call, code=code, text=message)
            if observed is not None:
                what: Outcome = "shown" if observed.tool == tool else "looked"
                yield CallHistoryEntry(seq, what, call, text=observed.tool)
        case _:
            assert_never(body)
