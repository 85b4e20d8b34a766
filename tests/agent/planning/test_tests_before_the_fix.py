"""The plan that runs a failing test, mends the code and runs the test again: it ends, and one yes covers its tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.reader import Reading, read_plan
from foregate.agent.planning.validator import Validation, validate_reading
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import build_catalogue
from tests.agent.models.openai.scripted_server import message
from tests.agent.planning.plans import statuses
from tests.agent.planning.test_worked_examples import done, wants

TARGET = "integration_test::test_login"
STEPS = (
    ("read_file", "tests/integration_test.rs", "Understand what the test is checking"),
    ("run_test", TARGET, "See the actual error message"),
    ("read_file", "src/login.rs", "Examine the login function being tested"),
    ("edit_file", "src/login.rs", "Fix the null pointer dereference"),
    ("run_test", TARGET, "Verify the fix works"),
)
CARGO, MAKE = ["cargo", "test", "test_login"], ["make", "test"]


def write_plan(*steps: tuple[str, str, str]) -> str:
    """Return a plan of these steps (action, target, reason), each after the one before."""
    tasks = [
        {"id": at, "action": action, "target": target, "reason": why, "depends_on": [at - 1] if at > 1 else []}
        for at, (action, target, why) in enumerate(steps, 1)
    ]
    return json.dumps({"plan_id": "plan-abc123", "query": "Debug it", "goal": "Fix test_login", "tasks": tasks})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in (
        ("tests/integration_test.rs", "assert!(login())\n"),
        ("src/login.rs", "return null\n"),
        ("Makefile", "test:\n\t@grep -q true src/login.rs\n"),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def check(folder: Path, text: str) -> Validation:
    """Return what reading and validating a plan gives in a folder."""
    workspace = LocalWorkspace(folder)
    catalogue = build_catalogue([tool.spec for tool in builtin_tools(workspace, default_policy())])
    reading: Reading = read_plan(text, catalogue=catalogue)
    assert reading.plan is not None
    return validate_reading(reading, reading.plan, catalogue, workspace, default_configuration())


def test_tests_that_are_run_again_after_an_edit_may_fail_the_first_time_only(project: Path) -> None:
    found = check(project, write_plan(*STEPS))
    assert found.is_sound
    assert [task.id for task in found.plan.tasks if task.may_fail] == [2]


@pytest.mark.parametrize("steps", [(STEPS[1], STEPS[3]), (STEPS[1], STEPS[4]), (STEPS[3], STEPS[1])])
def test_tests_that_are_not_run_again_after_an_edit_may_not_fail(
    project: Path, steps: tuple[tuple[str, str, str], ...]
) -> None:
    assert not any(task.may_fail for task in check(project, write_plan(*steps)).plan.tasks)


@pytest.mark.parametrize(
    ("files", "target", "argv"),
    [
        (("Makefile",), TARGET, MAKE),
        (("Cargo.toml",), TARGET, CARGO),
        (("Cargo.toml",), "", ["cargo", "test"]),
        (("pytest.ini", "test_a.py"), "test_a.py::test_b", ["python3", "-m", "pytest", "test_a.py::test_b"]),
        (("pytest.ini",), "test_a.py::test_b", ["python3", "-m", "pytest"]),
    ],
)
def test_the_command_the_files_ask_for_stands_in_the_plan(
    tmp_path: Path, files: tuple[str, ...], target: str, argv: list[str]
) -> None:
    for name in files:
        (tmp_path / name).write_text("test:\n\ttrue\n")
    found = check(tmp_path, write_plan(("run_tests", target, "See it")))
    (call,) = found.plan.tasks[0].calls
    assert (call.tool, call.arguments) == ("run_tests", {"argv": argv})
    wider = f"it runs more than `{target}`"
    assert any(wider in note for note in found.notes) is (bool(target) and argv[-1] not in (target, "test_login"))


def test_where_no_file_says_a_command_the_model_fills_it_in(tmp_path: Path) -> None:
    assert check(tmp_path, write_plan(("run_tests", "", "See it"))).plan.tasks[0].calls == ()


async def test_the_plan_ends_with_the_mended_code_and_only_the_edit_is_filled_in(project: Path) -> None:
    mended = {"path": "src/login.rs", "old": "null", "new": "true"}
    answers = [
        message(write_plan(*STEPS)),
        wants("edit_file", mended),
    ]
    report = await done(project, "Debug the failing integration test", answers)
    assert statuses(report) == ["done"] * 5
    assert (project / "src/login.rs").read_text() == "return true\n"
