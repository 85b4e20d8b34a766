"""Whole requests, planned and filled in over real HTTP, on a real workspace with a real repository."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.models.scripted import ScriptedPerson
from foregate.agent.planning.answering import PlanReport
from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.control import follow_plan, preview_open_tasks, record_confirmation
from foregate.agent.planning.planner import make_plan
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.demo import run_git
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, message
from tests.agent.models.openai.test_model import model_at
from tests.agent.planning.plans import PlanRun, begin_repository

CODE = "def main():\n    return add(1, 2)\n\n\ndef add(a, b):\n    return a - b\n"
TEST = "from code_under_test import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "code_under_test.py").write_text(CODE)
    (folder / "test_code.py").write_text(TEST)
    begin_repository(folder)
    return folder


def wire_task(number: int, why: str, *calls: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """Return a task as it travels."""
    listed = [{"tool": tool, "arguments": json.dumps(given), "description": None} for tool, given in calls]
    blank = {"action": None, "target": None, "expected_outcome": None, "params": None, "when": None, "depends_on": []}
    blank["may_fail"] = None
    return {"id": number, "reason": why, "calls": listed or None, **blank, **more}


def wire_plan(goal: str, *tasks: Mapping[str, Any]) -> Reply:
    """Return the planner's answer."""
    about = {"estimated_duration": None, "requires_confirmation": True, "metadata": None}
    return message(json.dumps({"goal": goal, "tasks": list(tasks), **about}))


def wants(name: str, given: Mapping[str, Any]) -> Reply:
    """Return a native call."""
    function = {"name": name, "arguments": json.dumps(given)}
    return message(None, finish="tool_calls", tool_calls=[{"id": "c", "type": "function", "function": function}])


async def done(folder: Path, request: str, answers: Sequence[Reply], person: Sequence[Any] = ()) -> PlanReport:
    """Return the report of a request that was planned, confirmed as seen and run."""
    async with ScriptedServer(*answers) as server:
        model = model_at(server)
        opened = await open_session(
            SessionOptions(
                workspace=folder, model=model, log=MemoryLog(), person=ScriptedPerson(list(person)), environ={}
            )
        )
        session, configuration = opened.session, default_configuration()
        state = await follow_plan(session)
        planning = await make_plan(session, request, model, configuration)
        assert planning.plan is not None, planning.defects
        looked = await preview_open_tasks(session, state)
        await record_confirmation(session, state, looked, state.digest, seen=True)
        report = await PlanRun(session, state, configuration).run()
        await opened.close()
        await model.close()
        if len(server.requests) > 1 and planning.tries > 1:
            again = server.requests[1]["messages"][-1]["content"]
            assert json.loads(again)["defects"], "the second request names what was wrong with the first plan"
        planned = [body for body in server.requests if "tools" not in body]
        filled = [body for body in server.requests if "tools" in body]
        assert {(body["temperature"], body["max_tokens"]) for body in planned} == {(0.3, 4000)}
        assert {(body["temperature"], body["max_tokens"]) for body in filled} <= {(0.1, 2000)}
    return report


async def test_a_failing_test_is_debugged(project: Path) -> None:
    """pytest fails before and passes after; the fix is only known once the code was read, so the model fills it in."""
    run = {"argv": [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_code.py"]}
    report = await done(
        project,
        "debug the failing test test_code.py",
        [
            wire_plan(
                "Make test_code.py pass",
                wire_task(1, "Read the test.", ("file_read", {"path": "test_code.py"})),
                wire_task(2, "See how it fails.", ("run_test", run)),
                wire_task(3, "Read the code.", ("read_file", {"path": "code_under_test.py"})),
                wire_task(
                    4,
                    "Mend it.",
                    action="edit_file",
                    target="code_under_test.py",
                    depends_on=[1, 3],
                    when=json.dumps({"all": [{"task": 2, "exit_code": 1}, {"task": 2, "line": "*assert -1 == 3*"}]}),
                ),
                wire_task(5, "Run the test again.", ("run_test", run), depends_on=[4]),
            ),
            wants("edit_file", {"path": "code_under_test.py", "old": "a - b", "new": "a + b"}),
        ],
    )
    assert [task.status for task in report.tasks] == ["done"] * 5, report
    assert report.status == "completed"
    before, after = report.tasks[1].responses[0], report.tasks[4].responses[0]
    assert (before.exit_code, "1 failed" in before.data) == (1, True)
    assert (after.exit_code, "1 passed" in after.data) == (0, True)
    assert "return a + b" in (project / "code_under_test.py").read_text()
    assert run_git(project, "diff", "--name-only").split() == ["code_under_test.py"]


async def test_each_step_may_hang_on_the_failing_run_before_it(project: Path) -> None:
    """Run, analyse, read, mend, run again: the first run fails, which is what the second step is there for."""
    run = {"argv": [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_code.py"]}
    report = await done(
        project,
        "debug the failing test test_code.py",
        [
            wire_plan(
                "Make test_code.py pass",
                wire_task(1, "See how it fails.", ("run_test", run)),
                wire_task(2, "Find out why.", action="analyze_error", depends_on=[1]),
                wire_task(3, "Read the code.", ("read_file", {"path": "code_under_test.py"}), depends_on=[2]),
                wire_task(4, "Mend it.", action="edit_file", target="code_under_test.py", depends_on=[3]),
                wire_task(5, "Run the test again.", ("run_test", run), depends_on=[4]),
            ),
            message("The function subtracts where the test adds."),
            wants("edit_file", {"path": "code_under_test.py", "old": "a - b", "new": "a + b"}),
        ],
    )
    assert [task.status for task in report.tasks] == ["done"] * 5, report
    first = report.tasks[0].responses[0]
    assert (first.ok, first.exit_code, "1 failed" in first.data) == (False, 1, True)
    assert report.tasks[1].summary == "The function subtracts where the test adds."
    assert report.status == "completed"


async def test_a_test_that_passes_leaves_nothing_to_mend(project: Path) -> None:
    (project / "code_under_test.py").write_text(CODE.replace("a - b", "a + b"))
    run = {"argv": [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_code.py"]}
    report = await done(
        project,
        "debug the failing test test_code.py",
        [
            wire_plan(
                "Make test_code.py pass",
                wire_task(1, "See how it fails.", ("run_test", run)),
                wire_task(2, "Mend it.", action="edit_file", when=json.dumps({"task": 1, "status": "failed"})),
            )
        ],
    )
    assert [task.status for task in report.tasks] == ["done", "skipped"], report
    assert report.status == "completed"


async def test_a_docstring_is_added_by_a_plan_of_steps_with_foreign_names(project: Path) -> None:
    """An endpoint without strict forms answers in words, with the steps, actions and names of another agent."""
    steps = [
        {
            "step_number": 1,
            "description": "Find main",
            "actions": [
                {"tool_name": "read_file", "arguments": {"file_path": "code_under_test.py"}, "description": "All of it"}
            ],
        },
        {
            "step_number": 2,
            "description": "Write its docstring",
            "actions": [
                {
                    "tool_name": "edit_file",
                    "arguments": {
                        "file_path": "code_under_test.py",
                        "old_text": "def main():\n",
                        "new_text": 'def main():\n    """Add."""\n',
                    },
                    "description": "Put it under the def",
                }
            ],
            "depends_on": 1,
        },
    ]
    plan = json.dumps({"steps": steps, "estimated_duration": "3 seconds", "requires_confirmation": True})
    request = "read code_under_test.py and add a docstring to main"
    report = await done(project, request, [message(f"I would do this:\n\n```json\n{plan}\n```\n")])
    assert report.status == "completed", report
    assert [call.description for task in report.plan.tasks for call in task.calls] == [
        "All of it",
        "Put it under the def",
    ]
    tree = ast.parse((project / "code_under_test.py").read_text())
    main = next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "main")
    assert ast.get_docstring(main) == "Add."


async def test_a_plan_cut_off_at_its_tokens_says_so_instead_of_being_half_read(project: Path) -> None:
    whole = wire_plan("Read it", wire_task(1, "Read.", ("read_file", {"path": "test_code.py"})))
    cut = message(whole.body["choices"][0]["message"]["content"], finish="length")
    async with ScriptedServer(*[cut] * 3) as server:
        model = model_at(server)
        opened = await open_session(SessionOptions(workspace=project, model=model, log=MemoryLog(), environ={}))
        planning = await make_plan(opened.session, "read the test", model, default_configuration())
        await opened.close()
        await model.close()
    assert planning.plan is None
    assert "models.planning.max_tokens" in planning.question


async def test_a_docstring_is_added_after_a_first_plan_that_names_a_tool_nobody_has(project: Path) -> None:
    edit = {"path": "code_under_test.py", "old": "def main():\n", "new": 'def main():\n    """Add."""\n'}
    tasks = (
        wire_task(1, "Read the code.", ("read_file", {"path": "code_under_test.py"})),
        wire_task(2, "Add the docstring.", ("edit_file", edit), depends_on=[1]),
    )
    report = await done(
        project,
        "read code_under_test.py and add a docstring to main",
        [
            wire_plan("Document main", wire_task(1, "Read.", ("peruse_file", {"path": "code_under_test.py"}))),
            wire_plan("Document main", *tasks),
        ],
    )
    assert report.status == "completed", report
    assert '"""Add."""' in (project / "code_under_test.py").read_text()


@pytest.mark.parametrize("changed", [True, False])
async def test_uncommitted_changes_are_committed_only_where_there_are_any(project: Path, changed: bool) -> None:
    if changed:
        (project / "new.txt").write_text("new\n")
    report = await done(
        project,
        "if there are uncommitted changes, commit them",
        [
            wire_plan(
                "Commit what is not committed",
                wire_task(1, "See what has changed.", ("git_status", {})),
                wire_task(
                    2,
                    "Commit it.",
                    ("git_add", {"paths": ["."]}),
                    ("git_commit", {"message": "Keep the changes"}),
                    depends_on=[1],
                    when=json.dumps({"task": 1, "lines_at_least": 2}),
                ),
            )
        ],
    )
    assert [task.status for task in report.tasks] == ["done", "done" if changed else "skipped"], report
    assert ("Keep the changes" in run_git(project, "log", "--format=%s")) == changed
    assert len(run_git(project, "log", "--format=%s").splitlines()) == 1 + changed
    assert run_git(project, "status", "--porcelain") == ""
    assert changed or report.tasks[1].error
