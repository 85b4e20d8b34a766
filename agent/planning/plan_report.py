"""What a run of a plan came to."""

from __future__ import annotations

from msgspec import Struct

from foregate.agent.planning.plan_state import PlanState
from foregate.schemas.task_plan import TaskPlan, TaskResult


class PlanReport(Struct, frozen=True):
    """`status` is completed, failed, blocked, cancelled, budget_exhausted, or a pause: paused, needs_input,
    awaiting_approval. `reason` says what ended or paused the plan; `duration_ms` is in milliseconds.
    """

    status: str
    plan: TaskPlan
    tasks: tuple[TaskResult, ...]
    reason: str = ""
    duration_ms: int = 0
    session: str = ""
    dry_run: bool = False

    @property
    def paused(self) -> bool:
        """Whether the plan goes on with `resume`."""
        return self.status in ("paused", "needs_input", "awaiting_approval")


def report_of(state: PlanState, status: str, reason: str = "") -> PlanReport:
    """Return the report of a plan that stands as `state` says."""
    results = tuple(step.result for step in state.steps.values())
    worked = sum(result.duration_ms for result in results)
    return PlanReport(status, state.known, results, reason, worked, state.session, state.dry_run)
