"""What a person chooses after a task of a plan failed."""

from __future__ import annotations

from foregate.agent.planning.plan_state import PlanState, StepState
from foregate.agent.session import Session
from foregate.schemas.event import Draft
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import FailureChoice


async def decide(session: Session, state: PlanState, step: StepState, choice: FailureChoice) -> None:
    """Record what a person chose after a task failed; the plan then does it, also in another process."""
    body: dict[str, Json] = {"plan": state.digest, "step": step.task.id, "choice": choice}
    match choice:
        case "retry":
            body |= {"status": "pending", "reason": "retried"}
        case "go_on":
            body |= {"status": "failed", "reason": step.reason}
        case "stop" | "roll_back":
            ended = f"task {step.task.id} failed ({step.reason}), and the person ended the plan"
            body |= {"status": "failed", "reason": step.reason, "final": ended}
    await session.record(Draft("plan_step_changed", "person", body))
