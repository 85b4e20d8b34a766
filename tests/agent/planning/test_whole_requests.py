"""Two requests in the words people use, from plan to report: with the rehearsal model and with a scripted one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foregate import Agent
from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.cli.demo import run_git
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.models.openai.scripted_server import message
from tests.agent.planning.plans import begin_repository, statuses
from tests.agent.planning.test_worked_examples import done

READ = "Read the main.rs file"
COMMIT = "Check if there are uncommitted changes, and if so, commit them"
CODE = 'fn main() { println!("hello"); }\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "FOREGATE_MODEL", "FOREGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "main.rs").write_text(CODE)
    begin_repository(folder)
    return folder


def say_task(number: int, action: str, target: str | None, **more: Any) -> dict[str, Any]:
    """Return a task with every key it may have."""
    blank = {"reason": f"{action} it", "expected_outcome": "It is known", "depends_on": [], "params": None}
    return {"id": number, "action": action, "target": target, **blank, **more}


def say_plan(query: str, *tasks: dict[str, Any]) -> str:
    """Return a plan as a planning model writes it."""
    return json.dumps({"plan_id": "plan-1", "query": query, "goal": query, "tasks": list(tasks), "metadata": None})


async def rehearse(folder: Path, request: str) -> Any:
    """Return the report of a request that the rehearsal model plans and carries out."""
    async with Agent(model=RehearsalModel(), workspace=folder, log=MemoryLog()) as agent:
        planning = await agent.plan(request)
        assert planning.plan is not None, planning.defects
        assert planning.question == ""
        return await agent.execute(planning.plan, confirmed=True)


def list_commits(folder: Path) -> int:
    return len(run_git(folder, "log", "--format=%s").splitlines())


async def test_the_rehearsal_model_reads_the_file(project: Path) -> None:
    report = await rehearse(project, READ)
    assert (report.status, statuses(report)) == ("completed", ["done"])
    assert CODE in report.tasks[0].responses[0].data


async def test_a_scripted_planner_is_the_only_one_asked_to_read_the_file(project: Path) -> None:
    report = await done(project, READ, [message(say_plan(READ, say_task(1, "read_file", "main.rs")))])
    assert (report.status, statuses(report)) == ("completed", ["done"])
    assert CODE in report.tasks[0].responses[0].data


@pytest.mark.parametrize("changed", [True, False])
async def test_the_rehearsal_model_commits_only_what_there_is(project: Path, changed: bool) -> None:
    if changed:
        (project / "main.rs").write_text(f"{CODE}// more\n")
    report = await rehearse(project, COMMIT)
    assert (report.status, statuses(report)) == ("completed", ["done", "done" if changed else "skipped"])
    assert list_commits(project) == 1 + changed
    assert run_git(project, "status", "--porcelain") == ""


@pytest.mark.parametrize("changed", [True, False])
async def test_a_scripted_model_commits_only_what_there_is_under_the_names_it_knows(
    project: Path, changed: bool
) -> None:
    if changed:
        (project / "main.rs").write_text(f"{CODE}// more\n")
    only = {"depends_on": [1], "when": {"task": 1, "lines_at_least": 2}}
    plan = say_plan(
        COMMIT,
        say_task(1, "git_status", None, calls=[{"tool": "git_status", "args": {}}]),
        say_task(2, "git_add", ".", calls=[{"tool": "git_add", "args": {"paths": ["."]}}], **only),
        say_task(3, "git_commit", None, depends_on=[2]),
    )
    filled = message(
        '```json\n{"tool": "git_commit", "args": {"message": "Say more"}, "reasoning": "All is staged"}\n```'
    )
    report = await done(project, COMMIT, [message(plan), *([filled] if changed else [])])
    after = ["done", "done"] if changed else ["skipped", "aborted"]
    assert statuses(report) == ["done", *after], report
    assert list_commits(project) == 1 + changed
