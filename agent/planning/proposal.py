"""Proposing a plan: it is in the log before anybody is asked about it."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.agent.session import Session
from foregate.schemas import codec
from foregate.schemas.event import Actor, Draft
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import TaskPlan

FROM_FILE = "Carry out the plan I confirm."
"""What the person says who runs a plan from a file: nothing in the file counts as their words."""


async def propose(
    session: Session, plan: TaskPlan, *, actor: Actor = "planner", notes: Sequence[str] = (), number: int = 1
) -> None:
    """Record a plan, the how-manieth for its request; nothing of it runs before it is confirmed."""
    body: dict[str, Json] = {"proposal": codec.dump(plan), "digest": plan.digest}
    if number > 1:
        body["number"] = number
    if notes:
        body["notes"] = list(notes)
    await session.record(Draft("plan_proposed", actor, body))
    await session.log.settle(session.lease)
