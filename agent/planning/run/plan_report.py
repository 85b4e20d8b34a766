"""What a run of a plan came to."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.planning.format.configuration import FormattingSection
from foregate.evidence.state.plan import PlanState
from foregate.schemas.task_plan import TaskPlan, TaskResult


class PlanReport(Struct, frozen=True):
    """`status` is completed, failed, blocked, cancelled, budget_exhausted, or a pause: paused, needs_input,
    awaiting_approval. `reason` says what ended or paused the plan; `duration_ms` is in milliseconds.

    `answer` is what the planning model said to the results, `unanswered` why it said nothing that could be used.
    `further` is the plan it proposed next, which no one has confirmed yet.
    """

    status: str
    plan: TaskPlan
    tasks: tuple[TaskResult, ...]
    reason: str = ""
    duration_ms: int = 0
    session: str = ""
    dry_run: bool = False
    answer: str = ""
    unanswered: str = ""
    further: TaskPlan | None = None

    @property
    def is_paused(self) -> bool:
        """Whether the plan goes on with `resume`."""
        return self.status in ("paused", "needs_input", "awaiting_approval")


def build_report(state: PlanState, formatting: FormattingSection, status: str, reason: str = "") -> PlanReport:
    """Return the report of a plan that stands as `state` says, its outputs and thoughts as `formatting` wants them."""
    results = tuple(_shape_result(step.result, formatting) for step in state.steps.values())
    worked = sum(result.duration_ms for result in results)
    return PlanReport(status, state.current_plan, results, reason, worked, state.session, state.dry_run)


def _shape_result(result: TaskResult, formatting: FormattingSection) -> TaskResult:
    responses = tuple(replace(response, data=formatting.cut(response.data)) for response in result.responses)
    return replace(result, responses=responses, reasoning=result.reasoning if formatting.include_reasoning else "")


def render_summary(report: PlanReport) -> str:
    """Return the report as the text the session's task ends with."""
    told = ", ".join(f"{count} {status}" for status, count in Counter(task.status for task in report.tasks).items())
    return " ".join(filter(None, (f"Plan `{report.plan.goal[:200]}`: {told}.", report.reason, report.unanswered)))
