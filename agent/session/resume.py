"""Going on after a process ended: nothing with an effect is ever run twice."""

from __future__ import annotations

from foregate.agent.session.session import Session
from foregate.evidence.state.session import SessionState
from foregate.schemas.event import Draft
from foregate.schemas.event_body import OutcomeUnknown, PolicyChanged
from foregate.schemas.protocols import Log

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
