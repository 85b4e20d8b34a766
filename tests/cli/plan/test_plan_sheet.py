"""What the sheet of a plan says of time and order."""

from __future__ import annotations

from foregate.agent.planning.run.outlook import PlanPreview
from foregate.cli.plan.plan_sheet import format_summary, format_task
from tests.agent.planning.plans import call, plan, task


def test_the_sheet_says_how_long_the_plan_takes_and_what_a_task_waits_for() -> None:
    read = call("read_file", path="a.txt")
    wanted = plan(task(1, read), task(2, read), task(3, read, after=(1, 2)), estimated_duration=5)
    rows = [row.plain.split(maxsplit=1) for row in format_task(wanted.tasks[2], ())]
    assert ["after", "task 1, 2"] in rows
    rows = [row.plain.split(maxsplit=1) for row in format_summary(wanted, PlanPreview((), ()), 80)]
    assert ["time", "5 s, as the plan says"] in rows
