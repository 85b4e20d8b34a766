"""Recording that tasks of a plan stand differently, and what a person chooses after one failed."""

from __future__ import annotations

from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.event import Actor, Draft
from foregate.schemas.plan_events import FillRequest, PlanStepChanged
from foregate.schemas.task_plan import FailureChoice, TaskStatus


async def record_change(
    session: Session,
    state: PlanState,
    status: TaskStatus,
    *steps: StepState,
    why: str = "",
    anew: bool = False,
    ask: FillRequest | None = None,
    final: str = "",
    choice: str = "",
    actor: Actor = "foregate",
) -> None:
    """Record where tasks stand, all at once; `anew` begins their next attempt. See PlanStepChanged for the rest."""
    bodies = [
        PlanStepChanged(
            plan=state.digest,
            step=step.task.id,
            status=status,
            reason=why or None,
            attempt=step.attempt + 1 if anew else 0,
            ask=ask,
            final=final,
            choice=choice,
        )
        for step in steps
    ]
    await session.record(*(Draft(body, actor) for body in bodies))


async def change_back(session: Session, state: PlanState, step: StepState, status: TaskStatus, why: str) -> None:
    """Record where a task stands after its changes were taken back, or before it is tried again.

    Why its failure ended the plan, and what a person chose then, stays.
    """
    await record_change(session, state, status, step, why=why, final=step.final, choice=step.choice)


async def decide(session: Session, state: PlanState, step: StepState, choice: FailureChoice) -> None:
    """Record what a person chose after a task failed; the plan then does it, also in another process."""
    final = ""
    if choice in ("stop", "roll_back"):
        final = f"task {step.task.id} failed ({step.reason}), and the person ended the plan"
    status: TaskStatus = "pending" if choice == "retry" else "failed"
    why = "retried" if choice == "retry" else step.reason
    await record_change(session, state, status, step, why=why, final=final, choice=choice, actor="person")
