"""Going on with a plan of the log at a terminal: opened, worked on, reported, closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from foregate.agent.planning.run.plan_report import PlanReport
from foregate.assembly.setting import Setting
from foregate.cli.plan.plan_work import PlanWork, work_of
from foregate.cli.terminal.colours import CARE
from foregate.cli.terminal.exit_codes import STATUS


async def gone_on(setting: Setting, go: Callable[[PlanWork], Awaitable[PlanReport | None]], as_json: bool) -> int:
    """Open the session, let `go` work on its plan, and return the exit code; None is a plan that was not confirmed."""
    work = await work_of(setting, as_json=as_json)
    try:
        await work.begin()
        report = await go(work)
        if report is None:
            work.screen.say("nothing ran", CARE)
            return STATUS["cancelled"]
        work.report(report, as_json)
        return STATUS[report.status]
    finally:
        await work.close()
