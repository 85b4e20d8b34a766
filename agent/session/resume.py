"""Going on after a process ended: nothing with an effect is ever run twice."""

from __future__ import annotations

from collections.abc import Iterable

from foregate.agent.session.session import Session, TurnInHand
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import OpenTurn
from foregate.schemas.event import Draft, Event, TurnJudged
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, PolicyChanged, ToolFinished
from foregate.schemas.protocols import Log
from foregate.schemas.turn import Turn
from foregate.telemetry.audit.rebuild_turn import find_body, rebuild_turn

_CARRYING_OUT = ("turn_judged", "tool_started", "tool_finished", "outcome_unknown", "call_answered", "task_paused")
"""What may stand in the log after a judgement while it is carried out: nothing anybody else did or switched."""


PROCESS_ENDED = "the process ended while this was running"
"""Why an outcome is unknown of which nobody is left who might still bring it about."""


async def fold_session(log: Log, session: str) -> SessionState:
    """Return the state that the log of a session leads to."""
    state = SessionState()
    for event in await log.read(session):
        state.apply(event)
    return state


async def resume(session: Session) -> None:
    """Note what differs from the log the session goes on with, and park effects of unknown outcome."""
    state = session.state
    if state.policy_hash != session.policy.hash:
        policy = session.policy.model_dump(mode="json")
        body = PolicyChanged(policy=policy, layers=dict(session.layers), before=state.policy_hash)
        await session.record(Draft(body, "foregate"))
    changed = session.catalogue_event
    if state.catalogue_hash != changed.catalogue_hash:
        await session.record(Draft(changed, "foregate"))
    for call, started in list(state.in_flight.items()):
        if started.side_effect != "pure":
            lost = OutcomeUnknown(call=call, tool=started.tool, target=started.target, reason=PROCESS_ENDED)
            await session.record(Draft(lost, "foregate"))
    await session.log.settle()


async def restore_turn(session: Session, open_turn: OpenTurn) -> TurnInHand | None:
    """Return a turn that was judged and not carried out, None where an earlier process judged it and it has lapsed.

    A call that was allowed and never started did not run, for `tool_started` is durable before any effect: its permit
    is unused, and the executor surveys the call's resources again as ever.
    """
    events = {event.seq: event for event in await session.log.read()}
    turn = rebuild_turn(find_body(open_turn.judged, TurnJudged, events.__getitem__).turn, events.__getitem__)
    since = (event for event in events.values() if event.seq > open_turn.judged)
    if open_turn.judged <= session.log.began_after and has_lapsed(turn, since, session.clock()):
        return None
    return TurnInHand(turn, session.prelude.facts(turn), open_turn.judgement, open_turn.judged)


def has_lapsed(turn: Turn, since: Iterable[Event], now: str) -> bool:
    """Whether a judgement gives no permission any more: a yes it rests on is too old, or something came in between.

    Policy, tools and switches changed, a message, an undo and a cancel all end it.
    """
    if any(answer.expires_at and now > answer.expires_at for answer in turn.answers):
        return True
    return any(event.kind not in _CARRYING_OUT or is_cancel(event) for event in since)


def is_cancel(event: Event) -> bool:
    """Whether an event says that a call was cancelled, running or not."""
    match event.body:
        case ToolFinished(error="cancelled") | OutcomeUnknown(reason="cancelled"):
            return True
        case CallAnswered(code="not_run_cancelled"):
            return True
        case _:
            return False
