"""Plans over the small world of the loop tests, and the shortest way to run one."""

from __future__ import annotations

from typing import Any

from foregate.agent.planning.ask.planner import record_proposal
from foregate.agent.planning.format.configuration import Configuration, load_configuration
from foregate.agent.planning.run.control import follow_plan, preview_open_tasks, record_confirmation
from foregate.agent.planning.run.plan_report import PlanReport
from foregate.agent.planning.run.run_plan import PlanRun
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState
from foregate.schemas.task_plan import PlannedCall, PlanTask, TaskPlan

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


async def confirmed(session: Session, wanted: TaskPlan, *, seen: bool = True, **more: Any) -> PlanRun:
    """Return a run of a plan that was proposed and confirmed in this session."""
    state = await follow_plan(session)
    await record_proposal(session, wanted)
    looked = await preview_open_tasks(session, state, CONFIGURATION.execution.target_uses)
    await record_confirmation(session, state, looked, wanted.digest, seen=seen)
    return PlanRun(session, state, CONFIGURATION, **more)


async def carried_out(session: Session, wanted: TaskPlan, **more: Any) -> PlanReport:
    """Return the report of a plan run to its end or pause."""
    return await (await confirmed(session, wanted, **more)).run()


def statuses(report: PlanReport | PlanState) -> list[str]:
    """Return the statuses of the tasks, in order."""
    if isinstance(report, PlanState):
        return [step.status for step in report.steps.values()]
    return [task.status for task in report.tasks]
