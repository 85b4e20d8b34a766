"""What a person chooses after a task of a plan failed."""

from __future__ import annotations

from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.event import Draft
from foregate.schemas.plan_events import PlanStepChanged
from foregate.schemas.task_plan import FailureChoice


async def decide(session: Session, state: PlanState, step: StepState, choice: FailureChoice) -> None:
    """Record what a person chose after a task failed; the plan then does it, also in another process."""
    again, final = choice == "retry", ""
    if choice in ("stop", "roll_back"):
        final = f"task {step.task.id} failed ({step.reason}), and the person ended the plan"
    body = PlanStepChanged(
        plan=state.digest,
        step=step.task.id,
        status="pending" if again else "failed",
        reason="retried" if again else step.reason,
        final=final,
        choice=choice,
    )
    await session.record(Draft(body, "person"))
