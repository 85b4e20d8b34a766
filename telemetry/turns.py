"""From a recorded turn back to the turn the judge read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from foregate.schemas import codec
from foregate.schemas.event import Event
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.need import Answer
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import Said, Turn

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


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A judged turn of a log with everything needed to judge it again: policy and catalogue as JSON."""

    seq: int
    turn: Turn
    judgement: Json
    policy: Json
    catalogue: Json


def recorded(events: Iterable[Event]) -> Iterator[RecordedTurn]:
    """Yield the judged turns of a session's events, in order; raise LookupError where an event is missing."""
    known: dict[int, Event] = {}
    policy = catalogue = None
    for event in events:
        known[event.seq] = event
        policy = event.body.get("policy", policy) if event.kind in ("session_started", "policy_changed") else policy
        if event.kind in ("session_started", "catalog_changed"):
            catalogue = event.body["catalogue"]
        if event.kind == "turn_judged":
            turn = resolve(event.body["turn"], known.__getitem__)
            yield RecordedTurn(event.seq, turn, event.body["judgement"], policy, catalogue)
