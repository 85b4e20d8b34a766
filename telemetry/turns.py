"""From a recorded turn back to the turn the judge read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from foregate.schemas import codec
from foregate.schemas.event import Event, Kind
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.need import Answer
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import Said, Turn
from foregate.telemetry.readable import Readable

Lookup = Callable[[int], Event]
"""From an event number to the event."""


def resolve(stored: Mapping[str, Json], lookup: Lookup) -> Turn:
    """Return the turn a `turn_judged` body holds under `turn`, with what lies in other events brought back.

    Raises LookupError for an event that is not there, InvalidJson for one that cannot be read.
    """
    body = dict(stored)
    proposed = body.pop("proposed", None)
    if proposed is None:
        response = ModelResponse.from_json(lookup(body["response"]).body)
        limit = body.pop("judged_calls", len(response.calls))
        body["calls"], body["text"] = response.calls[:limit], response.text
    else:
        body["calls"] = tuple(ToolCall.parse(c["name"], c["arguments"], id=c["id"]) for c in proposed)
    body["user_messages"] = tuple(said(lookup(seq)) for seq in body.get("user_messages", ()))
    body["answers"] = tuple(answer(lookup(seq)) for seq in body.get("answers", ()))
    if "plan" in body:
        body["plan"] = plan(body["plan"], lookup)
    return codec.load(Turn, body)


def said(event: Event) -> Said:
    """Return the message a `user_message` event holds."""
    return Said(event.seq, event.body["text"], event.actor)


def answer(event: Event) -> Answer:
    """Return the answer a `need_answered` event holds."""
    return codec.load(Answer, {**event.body["answer"], "seq": event.seq})


def plan(reference: Mapping[str, Json], lookup: Lookup) -> PlanInForce:
    """Return the plan in force, from the event that accepted it and the uses made since."""
    event = lookup(reference["seq"])
    data = dict(event.body["plan"])
    data["seq"] = event.seq
    data["items"] = [{**item, "used": used} for item, used in zip(data["items"], reference["used"], strict=True)]
    return codec.load(PlanInForce, data)


class InForce(Struct, frozen=True):
    """What holds from some event on: the policy with its hash and what was recorded of its layers, and the tools."""

    policy: Json = None
    policy_hash: str = ""
    layers: Json = None
    catalogue: Json = None

    def after(self, event: Event) -> InForce:
        """Return what holds after an event of LAYING."""
        body = event.body
        found = self
        if "policy" in body:
            found = replace(found, policy=body["policy"], policy_hash=event.policy, layers=body.get("layers"))
        return replace(found, catalogue=body["catalogue"]) if "catalogue" in body else found


LAYING: tuple[Kind, ...] = ("session_started", "policy_changed", "catalog_changed")
"""Kinds of the events that change what holds."""
JUDGING: tuple[Kind, ...] = (
    *LAYING,
    "user_message",
    "model_response",
    "need_answered",
    "plan_confirmed",
    "turn_judged",
)
"""Kinds of the events a turn is put together from."""


class RecordedTurn(Struct, frozen=True):
    """A judged turn of a log with everything needed to judge it again: policy and catalogue as JSON."""

    seq: int
    turn: Turn
    judgement: Json
    in_force: InForce
    time: str


def recorded(
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
            holds = holds.after(event)
        if event.kind == "turn_judged":
            turn = resolve(event.body["turn"], lookup or known.__getitem__)
            judgement = event.body["judgement"]
            yield RecordedTurn(event.seq, turn, judgement, holds, event.time)


class Nearby:
    """Finds events by number: the last ones that went by, and further ones in the log, of which as many are kept."""

    def __init__(self, log: Readable, session: str, room: int = 256) -> None:
        self._log, self._session, self._room = log, session, room
        self._passed: dict[int, Event] = {}
        self._fetched: dict[int, Event] = {}

    def passing(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield `events`, keeping the last ones."""
        for event in events:
            self._keep(self._passed, event)
            yield event

    def __call__(self, seq: int) -> Event:
        """Return an event; raise LookupError where the log has none of this number."""
        found = self._passed.get(seq) or self._fetched.pop(seq, None)
        if found is None:
            found = next(iter(self._log.events(self._session, after=seq - 1, until=seq)), None)
        if found is None:
            raise LookupError(f"event {seq} is not there")
        if seq not in self._passed:
            self._keep(self._fetched, found)
        return found

    def _keep(self, place: dict[int, Event], event: Event) -> None:
        place[event.seq] = event
        if len(place) > self._room:
            del place[next(iter(place))]
