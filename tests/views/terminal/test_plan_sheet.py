"""What the sheet of a plan says of time and order."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.control import follow_plan, preview_open_tasks
from foregate.agent.planning.outlook import PlanPreview, describe_call
from foregate.agent.planning.planner import record_proposal
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.views.terminal.plan_sheet import format_plan_sheet, format_summary, format_task
from tests.agent.planning.plans import call, plan, task


def test_the_sheet_says_how_long_the_plan_takes_and_what_a_task_waits_for() -> None:
    read = call("read_file", path="a.txt")
    wanted = plan(task(1, read), task(2, read), task(3, read, after=(1, 2)), estimated_duration=5)
    rows = [row.plain.split(maxsplit=1) for row in format_task(wanted.tasks[2], ())]
    assert ["after", "task 1, 2"] in rows
    rows = [row.plain.split(maxsplit=1) for row in format_summary(wanted, PlanPreview((), ()), 80)]
    assert ["time", "5 s, as the plan says"] in rows


@pytest.mark.parametrize(
    ("line", "deletes"),
    [
        ("rm -rf build", True),
        ("rm -rf build | cat", True),
        ("ls build | xargs rm", True),
        ("echo done && rm -rf build", True),
        ("test -d build || rm -rf build", True),
        ("find build -name '*.o' -exec rm {} +", True),
        ("find build -name '*.o' -delete", True),
        ("sh -c 'cd build && rm a.o'", True),
        ('for f in build/*; do rm "$f"; done', True),
        ("echo $(rm -rf build)", True),
        ("git clean -fd | cat", True),
        ("touch build/a | cat", False),
        ("echo rm -rf build > notes.txt", False),
    ],
)
async def test_a_command_line_of_which_any_part_deletes_is_shown_as_one_that_deletes(
    line: str, deletes: bool, folder: Path
) -> None:
    (folder / "build").mkdir()
    setting = SessionOptions(workspace=folder, model=RehearsalModel(), log=MemoryLog(), environ={})
    opened = await open_session(setting)
    state = await follow_plan(opened.session)
    await record_proposal(opened.session, plan(task(1, call("run_shell", command=line))), default_configuration())
    looked = await preview_open_tasks(opened.session, state)
    (shown,) = [row.plain for row in format_plan_sheet(state, looked) if row.plain.split()[:1] == ["effect"]]
    assert (" and it deletes" in shown) is deletes
    assert describe_call(looked.calls[0]).get("deletes", False) is deletes  # type: ignore[union-attr]
    await opened.close()
