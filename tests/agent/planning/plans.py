"""Plans over the small world of the loop tests, and the shortest way to run one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from foregate.agent.loop.runner import take_step
from foregate.agent.planning.answering import PlanReport
from foregate.agent.planning.configuration import Configuration, load_configuration
from foregate.agent.planning.control import decide, follow_plan, preview_open_tasks, record_confirmation
from foregate.agent.planning.controller import PlanController
from foregate.agent.planning.planner import record_proposal
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.cli.demo import run_git
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.protocols import Model
from foregate.schemas.task_plan import FailureChoice, PlannedCall, PlanTask, TaskPlan

CONFIGURATION: Configuration = load_configuration(environ={"HOME": "/nowhere"})


def call(tool: str, **arguments: Any) -> PlannedCall:
    """Return a planned call."""
    return PlannedCall(tool, arguments)


def edit(path: str, old: str, new: str) -> PlannedCall:
    """Return a planned edit."""
    return call("edit_file", path=path, old=old, new=new)


def task(number: int, *calls: PlannedCall, after: tuple[int, ...] = (), **more: Any) -> PlanTask:
    """Return a task."""
    return PlanTask(number, reason=f"the reason of task {number}", calls=calls, depends_on=after, **more)


def plan(*tasks: PlanTask, **more: Any) -> TaskPlan:
    """Return a plan."""
    return TaskPlan("p1", "mend a.txt and b.txt", "mend the files", tasks, **more)


class PlanRun(PlanController):
    """Leads a session whose plan is confirmed; without a `planner` nobody is told the results."""

    def __init__(
        self,
        session: Session,
        state: PlanState,
        configuration: Configuration,
        model: Model | None = None,
        *,
        before: Callable[[PlanTask], Awaitable[bool]] | None = None,
        on_failure: Callable[[StepState], Awaitable[FailureChoice | None]] | None = None,
        planner: Model | None = None,
    ) -> None:
        if planner is None:
            silent = configuration.planning.model_copy(update={"answer": "never"})
            configuration = configuration.model_copy(update={"planning": silent})
        roles = {"planning": planner, "execution": model}
        super().__init__(session, configuration, lambda role: roles[role] or session.model, state=state)
        self.before, self.step, self.on_failure, session.plan_driver = before, before is not None, on_failure, self

    async def ask_before_task(self, task: PlanTask) -> bool:
        return await self.before(task) if self.before is not None else await super().ask_before_task(task)

    def begin(self) -> None:
        pausing = getattr(self, "pausing", False)  # a test may say so before the run
        super().begin()
        self.pausing = pausing

    async def confirm(self, **how: bool) -> RunResult:
        return RunResult("paused", "a further plan is confirmed by nobody here")

    async def ask_after_failure(self, step: StepState) -> RunResult | None:
        paused = await super().ask_after_failure(step)
        choice = await self.on_failure(step) if self.on_failure is not None else None
        if choice is None:
            return paused
        await decide(self.session, self.state, step, choice)
        return None

    async def advance(self) -> RunResult | None:
        """Let the loop take one step."""
        return await take_step(self.session)


async def confirmed(
    session: Session, wanted: TaskPlan, *, seen: bool = True, configuration: Configuration = CONFIGURATION, **more: Any
) -> PlanRun:
    """Return what leads a session in which this plan was proposed and confirmed."""
    state = await follow_plan(session)
    await record_proposal(session, wanted, configuration)
    looked = await preview_open_tasks(session, state, CONFIGURATION.execution.target_uses)
    await record_confirmation(session, state, looked, wanted.digest, seen=seen)
    return PlanRun(session, state, configuration, **more)


async def carried_out(session: Session, wanted: TaskPlan, **more: Any) -> PlanReport:
    """Return the report of a plan run to its end or pause."""
    return await (await confirmed(session, wanted, **more)).run()


def statuses(report: PlanReport | PlanState) -> list[str]:
    """Return the statuses of the tasks, in order."""
    if isinstance(report, PlanState):
        return [step.status for step in report.steps.values()]
    return [task.status for task in report.tasks]


def begin_repository(folder: Path) -> None:
    """Make a folder a repository with one commit of all that is in it."""
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    run_git(folder, "config", "user.name", "Ann")
    run_git(folder, "config", "user.email", "ann@example.org")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message", "Begin")
