"""Sessions that go on with one that has ended: what they know of it, and the events of all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from foregate.evidence.reads import Earlier
from foregate.evidence.state.session import SessionState
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import CallBody, Checkpoint
from foregate.schemas.model_response import RecordedCall
from foregate.schemas.session_link import name_call


def begin_further(state: SessionState, seq: int = 1) -> None:
    """Leave in the state of an ended session what the one that follows it knows, as by its first event `seq`.

    What was observed has to be looked at again, and what was granted to be granted again: both are known by events that
    the log of that session does not hold. Switches stay as they are, and that log begins with them.
    """
    for known in (state.atoms, state.written):
        known.forget_events(seq)
    state.ledger.forget_all(seq)
    state.heard = {seq: f"session {state.session}"} if state.heard else {}
    state.outside_since = min(state.outside_since, seq)
    parked = ((name_call(state.session, call), lost) for call, lost in state.parked.items())
    state.parked = {call: replace(lost, call=call) for call, lost in parked}
    state.grants, state.permissions, state.shared, state.question = [], (), None, None
    state.earlier, state.tasks = Earlier(), 0
    state.in_flight.clear()


def join_events(events: Iterable[Event], own: str) -> Iterator[Event]:
    """Yield the events of several sessions, oldest first, as the session `own` names their calls.

    Calls are named by the number of an event, which is another one in each session. So those of other sessions carry
    the name of their session, as in what `own` records of them.
    """
    return (event if event.session == own else _name_calls(event) for event in events)


def _name_calls(event: Event) -> Event:
    session, body = event.session, event.body
    match body:
        case ModelResponded():
            calls = tuple(_name(session, call) for call in body.calls)
            program = body.program and replace(
                body.program, calls=tuple(_name(session, call) for call in body.program.calls)
            )
            return replace(event, body=replace(body, calls=calls, program=program))
        case Checkpoint():
            return replace(event, body=replace(body, undo=name_call(session, body.undo)))
        case CallBody():
            return replace(event, body=replace(body, call=name_call(session, body.call)))
        case _:
            return event


def _name(session: str, call: RecordedCall) -> RecordedCall:
    return replace(call, id=name_call(session, call.id), wire_id=call.wire_id or call.id)
