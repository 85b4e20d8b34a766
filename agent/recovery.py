"""Going on after a process ended: nothing with an effect is ever run twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foregate.schemas import codec
from foregate.schemas.event import Draft
from foregate.schemas.tool_spec import catalogue_hash

if TYPE_CHECKING:
    from foregate.agent.session import Session


async def resume(session: Session) -> None:
    """Fold the session's log into the state, note what differs now, and park effects of unknown outcome."""
    for event in await session.log.read(session.lease.session):
        session.state.apply(event)
    state = session.state
    if state.policy_hash != session.policy.hash:
        body = {"policy": session.policy.model_dump(mode="json"), "before": state.policy_hash}
        await session.record(Draft("policy_changed", "foregate", body))
    catalogue = [codec.dump(spec) for spec in session.catalogue.values()]
    if state.catalogue_hash != catalogue_hash(catalogue):
        changed = {"catalogue": catalogue, "catalogue_hash": catalogue_hash(catalogue)}
        await session.record(Draft("catalog_changed", "foregate", changed))
    for call, started in list(state.in_flight.items()):
        if started.body["class"] != "pure":
            reason = "the process ended while this was running"
            body = {"call": call, "tool": started.body["tool"], "target": started.body["target"], "reason": reason}
            await session.record(Draft("outcome_unknown", "foregate", body))
    await session.log.settle(session.lease)
