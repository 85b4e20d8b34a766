"""Going on after a process ended: nothing with an effect is ever run twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from foregate.schemas.call_events import CallAnswered, OutcomeUnknown, ToolFinished
from foregate.schemas.event import Draft, Event
from foregate.schemas.judging_events import TurnJudged
from foregate.schemas.session_events import PolicyChanged
from foregate.schemas.turn import Turn
from foregate.telemetry.audit.rebuild_turn import body_at, resolve

if TYPE_CHECKING:
    from foregate.agent.session.session import Session
    from foregate.evidence.state.task import OpenTurn

_CARRYING_OUT = ("turn_judged", "tool_started", "tool_finished", "outcome_unknown", "call_answered", "task_paused")
"""What may stand in the log after a judgement while it is carried out: nothing anybody else did or switched."""


PROCESS_ENDED = "the process ended while this was running"
"""Why an outcome is unknown of which nobody is left who might still bring it about."""


async def resume(session: Session) -> None:
    """Fold the session's log into the state, note what differs now, and park effects of unknown outcome."""
    for event in await session.log.read(session.lease.session):
        session.state.apply(event)
    state = session.state
    if state.policy_hash != session.policy.hash:
        policy = session.policy.model_dump(mode="json")
        body = PolicyChanged(policy=policy, layers=dict(session.layers), before=state.policy_hash)
        await session.record(Draft(body, "foregate"))
    changed = session.catalogue_changed
    if state.catalogue_hash != changed.catalogue_hash:
        await session.record(Draft(changed, "foregate"))
    for call, started in list(state.in_flight.items()):
        if started.side_effect != "pure":
            lost = OutcomeUnknown(call=call, tool=started.tool, target=started.target, reason=PROCESS_ENDED)
            await session.record(Draft(lost, "foregate"))
    await session.log.settle(session.lease)


async def restored(session: Session, open_turn: OpenTurn) -> bool:
    """Restore the facts an earlier process judged a turn on, so that it can be carried out; False when it lapsed.

    A call that was allowed and never started did not run, for `tool_started` is durable before any effect: its permit
    is unused, and the executor looks at the call's resources again as ever.
    """
    events = {event.seq: event for event in await session.log.read(session.lease.session)}
    turn = resolve(body_at(open_turn.judged, TurnJudged, events.__getitem__).turn, events.__getitem__)
    if lapsed(turn, (event for event in events.values() if event.seq > open_turn.judged), session.clock()):
        return False
    session.facts = session.prelude.facts(turn)
    return True


def lapsed(turn: Turn, since: Iterable[Event], now: str) -> bool:
    """Whether a judgement is no leave any more: a yes it rests on is too old, or something came in between.

    Policy, tools and switches changed, a message, an undo and a cancel all end it.
    """
    if any(answer.expires_at and now > answer.expires_at for answer in turn.answers):
        return True
    return any(event.kind not in _CARRYING_OUT or cancelled(event) for event in since)


def cancelled(event: Event) -> bool:
    """Whether an event says that a call was cancelled, running or not."""
    match event.body:
        case ToolFinished(error="cancelled") | OutcomeUnknown(reason="cancelled"):
            return True
        case CallAnswered(code="not_run_cancelled"):
            return True
        case _:
            return False
