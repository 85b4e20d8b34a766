"""Proposing a plan: it is in the log before anybody is asked about it."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.agent.session.session import Session
from foregate.schemas.event import Actor, Draft
from foregate.schemas.plan_events import PlanProposed
from foregate.schemas.task_plan import TaskPlan

FROM_FILE = "Carry out the plan I confirm."
"""What the person says who runs a plan from a file: nothing in the file counts as their words."""


async def record_proposal(
    session: Session, plan: TaskPlan, *, actor: Actor = "planner", notes: Sequence[str] = (), number: int = 1
) -> None:
    """Record a plan, the how-manieth for its request; nothing of it runs before it is confirmed."""
    proposed = PlanProposed(proposal=plan, digest=plan.digest, number=number, notes=tuple(notes))
    await session.record(Draft(proposed, actor))
    await session.log.settle()
