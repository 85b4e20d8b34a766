"""Validating plans: everything wrong is named at once, every path leads inside, and no plan makes it raise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.planning.configuration import Configuration, default_configuration
from foregate.agent.planning.reader import read_plan
from foregate.agent.planning.validator import Validation, validate
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.task_plan import PlannedCall, PlanTask, TaskPlan
from foregate.schemas.tool_spec import ToolSpec, build_catalogue

Check = Callable[..., Validation]


def configured(**validation: Any) -> Configuration:
    configuration = default_configuration()
    return configuration.model_copy(update={"validation": configuration.validation.model_copy(update=validation)})


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Check:
    """Validates tasks against a workspace with some files, two of one name, and a link that leads out of it."""
    root = tmp_path_factory.mktemp("workspace")
    for path in ("main.py", "src/auth/login.py", "src/a/same.py", "src/b/same.py", ".git/config"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x\n")
    (root / "out").symlink_to("/etc")
    (root / "inner").symlink_to("src/auth")
    workspace = LocalWorkspace(root)
    catalogue = build_catalogue([tool.spec for tool in builtin_tools(workspace, default_policy())])
    catalogue["broken"] = ToolSpec("broken", "", {"type": "nonsense"})
    catalogue["half"] = ToolSpec("half", "", {"title": "\ud800"})

    def checked(*tasks: PlanTask, **validation: Any) -> Validation:
        plan = TaskPlan("plan-1", "q", "g", tasks)
        return validate(plan, catalogue, workspace, configured(**validation))

    return checked


def reads(number: int, path: str = "main.py", **more: Any) -> PlanTask:
    return PlanTask(number, "read_file", path, f"look {number}", **more)


def calls(number: int, tool: str, **arguments: Any) -> PlanTask:
    return PlanTask(number, reason=f"call {number}", calls=(PlannedCall(tool, arguments),))


def found(validation: Validation) -> list[tuple[int, str]]:
    assert all(one.problem and one.remedy for one in validation.defects + validation.warnings)
    return [(one.task, one.field) for one in validation.defects]


def test_a_plan_with_nothing_wrong_is_sound_and_stays_as_it_is(check: Check) -> None:
    read = (PlannedCall("read_file", {"path": "main.py"}),)
    edit = calls(2, "edit_file", path="main.py", old="x", new="y")
    tasks = (reads(1, calls=read), edit, reads(3, depends_on=(1, 2), calls=read))
    validation = check(*tasks)
    assert validation.is_sound
    assert validation.plan.tasks == tasks
    assert validation.warnings == ()
    assert validation.notes == ()


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        (reads(1), {"path": "main.py"}),
        (reads(1, "login.py"), {"path": "src/auth/login.py"}),
        (reads(1, params={"max_bytes": 9}), {"path": "main.py", "max_bytes": 9}),
        (PlanTask(1, "search_text", "src", "look", params={"query": "x"}), {"path": "src", "pattern": "x"}),
        (PlanTask(1, "list_files", "src", "look"), {"path": "src"}),
        (PlanTask(1, "git_status", ".", "look"), {"path": "."}),
    ],
)
def test_a_read_that_is_said_in_full_stands_in_the_plan_as_its_call(
    check: Check, task: PlanTask, arguments: dict[str, Any]
) -> None:
    assert check(task).plan.tasks[0].calls == (PlannedCall(task.action, arguments),)


@pytest.mark.parametrize(
    "task",
    [
        reads(1, "*.py"),
        reads(1, "src"),
        reads(1, "later.py"),
        reads(1, ""),
        reads(1, params={"colour": "red"}),
        PlanTask(1, "search_text", "src", "look"),
        PlanTask(1, "git_status", "the repository", "look"),
        PlanTask(1, "edit_file", "main.py", "mend"),
        PlanTask(1, "delete_path", "main.py", "clear"),
    ],
)
def test_what_is_not_said_in_full_or_changes_something_is_left_to_the_model(check: Check, task: PlanTask) -> None:
    assert check(task).plan.tasks[0].calls == ()


@pytest.mark.parametrize(
    ("tasks", "defects"),
    [
        ((), [(0, "tasks")]),
        ((reads(1), reads(3)), [(3, "id")]),
        ((reads(0),), [(0, "id")]),
        ((reads(1), reads(1, "src")), [(1, "id")]),
        ((reads(1, depends_on=(1,)),), [(1, "depends_on")]),
        ((reads(1, depends_on=(2,)), reads(2)), [(1, "depends_on")]),
        ((reads(1, depends_on=(7,)),), [(1, "depends_on")]),
        ((reads(1), reads(2, depends_on=(1, 1))), [(2, "depends_on")]),
        ((reads(1, depends_on=(2,)), reads(2, depends_on=(1,))), [(1, "depends_on"), (1, "depends_on")]),
        ((reads(1), replace(reads(1), id=2)), [(2, "task")]),
        ((PlanTask(1),), [(1, "action")]),
        ((PlanTask(1, "raed_file", "main.py"),), [(1, "action")]),
        ((calls(1, "raed_file", path="main.py"),), [(1, "calls.1.tool")]),
        ((calls(1, ""),), [(1, "calls.1.tool")]),
        ((calls(1, "read_file"),), [(1, "calls.1.arguments")]),
        ((calls(1, "read_file", path=3, max_bytes="x", more=1),), [(1, "calls.1.arguments")] * 3),
        ((calls(1, "broken"),), [(1, "calls.1.arguments")]),
        ((calls(1, "half"),), [(1, "calls.1.arguments")]),
        ((replace(reads(1), calls=(PlannedCall("git_status"),) * 2),), [(1, "calls.2")]),
        ((calls(1, "read_file", path="../x"),), [(1, "calls.1.arguments.path")]),
        ((calls(1, "write_file", path="/etc/x", content=""),), [(1, "calls.1.arguments.path")]),
        ((calls(1, "read_file", path="out/passwd"),), [(1, "calls.1.arguments.path")]),
        ((calls(1, "read_file", path="a\0b"),), [(1, "calls.1.arguments.path")]),
        ((calls(1, "git_add", paths=["main.py", "../x", "../y"]),), [(1, "calls.1.arguments.paths")] * 2),
        ((reads(1, "../x"),), [(1, "target")]),
        ((reads(1, "../*.py"),), [(1, "target")]),
        ((reads(1, "/etc/*"),), [(1, "target")]),
        ((reads(1, when={"task": 1, "status": "done"}),), [(1, "when")]),
        ((reads(1), reads(2, when={"task": 1, "stauts": "done"})), [(2, "when"), (2, "when")]),
    ],
    ids=range(29),
)
def test_each_thing_that_is_wrong_is_named_by_task_and_field(
    check: Check, tasks: tuple[PlanTask, ...], defects: list[tuple[int, str]]
) -> None:
    assert found(check(*tasks)) == defects


def test_the_nearest_tool_is_named(check: Check) -> None:
    (defect,) = check(calls(1, "raed_file", path="main.py")).defects
    assert defect.remedy == "did you mean `read_file`?"


def test_every_circle_is_one_defect_that_names_its_tasks(check: Check) -> None:
    waits = {1: (3,), 2: (1,), 3: (2,), 4: (), 5: (6,), 6: (5,), 7: (6,)}
    validation = check(*(reads(number, depends_on=waits[number]) for number in waits))
    circles = [one.problem for one in validation.defects if "circle" in one.problem]
    assert circles == [
        "the tasks 1, 2, 3 wait for each other in a circle",
        "the tasks 5, 6 wait for each other in a circle",
    ]


def test_a_chain_longer_than_allowed_is_a_defect_of_its_last_task(check: Check) -> None:
    tasks = [reads(number, depends_on=(number - 1,) if number > 1 else ()) for number in range(1, 12)]
    assert found(check(*tasks[:10])) == []
    assert found(check(*tasks)) == [(11, "depends_on")]
    assert found(check(*tasks, max_task_depth=11)) == []


def test_more_tasks_than_allowed_are_a_defect_of_the_plan(check: Check) -> None:
    assert found(check(reads(1), reads(2), max_tasks=1)) == [(0, "tasks")]


def test_an_action_nobody_knows_is_a_warning_only_where_the_model_may_choose_the_tool(check: Check) -> None:
    validation = check(PlanTask(1, "improve", "main.py"), allow_tool_fallback=True)
    assert validation.is_sound
    assert [one.field for one in validation.warnings] == ["action"]
    assert not check(calls(1, "improve"), allow_tool_fallback=True).is_sound


def test_a_part_of_a_path_is_resolved_to_the_only_file_it_can_mean_and_that_is_said(check: Check) -> None:
    validation = check(reads(1, "login.py"), calls(2, "edit_file", path="auth/login.py", old="x", new="y"))
    assert validation.is_sound
    assert validation.plan.tasks[0].target == "src/auth/login.py"
    assert validation.plan.tasks[1].calls[0].arguments["path"] == "src/auth/login.py"
    assert validation.notes == (
        "task 1: the path `login.py` is `src/auth/login.py`, the only one that ends so",
        "task 2: the path `auth/login.py` is `src/auth/login.py`, the only one that ends so",
    )


def test_a_path_that_is_written_another_way_is_said_as_it_is(check: Check) -> None:
    validation = check(reads(1, "./src/../main.py"), reads(2, "inner/login.py"))
    assert [task.target for task in validation.plan.tasks] == ["main.py", "src/auth/login.py"]
    assert len(validation.notes) == 2


@pytest.mark.parametrize(
    "task",
    [
        calls(1, "delete_path", path="login.py"),
        calls(1, "move_path", source="login.py", destination="x.py"),
        calls(1, "write_file", path="login.py", content=""),
        PlanTask(1, "delete_path", "login.py", "r"),
    ],
)
def test_nothing_is_made_moved_or_deleted_under_a_name_the_plan_does_not_write(check: Check, task: PlanTask) -> None:
    validation = check(task)
    assert validation.plan.tasks == (task,)
    assert validation.notes == ()


def test_a_part_of_a_path_that_may_be_several_files_stays_and_they_are_named(check: Check) -> None:
    validation = check(reads(1, "same.py"))
    assert validation.plan.tasks[0].target == "same.py"
    assert "`src/a/same.py`, `src/b/same.py`" in validation.warnings[0].problem


def test_what_an_earlier_task_makes_is_never_taken_for_another_file(check: Check) -> None:
    validation = check(calls(1, "write_file", path="login.py", content=""), reads(2, "login.py"))
    assert validation.is_sound
    assert validation.plan.tasks[1].target == "login.py"
    assert validation.warnings == ()


@pytest.mark.parametrize("target", ["*.rs", "nothing.py", "http://here/", "tests::test_login", "a\nb", "same.py"])
def test_an_odd_target_is_a_warning_and_a_defect_only_where_targets_are_strict(check: Check, target: str) -> None:
    validation = check(reads(1, target))
    assert validation.is_sound
    assert [(one.task, one.field) for one in validation.warnings] == [(1, "target")]
    assert found(check(reads(1, target), strict_targets=True)) == [(1, "target")]


def test_a_glob_that_matches_and_a_file_a_command_may_make_are_not_odd(check: Check) -> None:
    command = calls(1, "run_command", argv=["make"])
    assert check(reads(1, "src/**/*.py"), strict_targets=True).warnings == ()
    assert check(command, reads(2, "made.txt"), reads(3, "*.log"), strict_targets=True).is_sound


def test_a_target_of_a_tool_that_takes_no_path_is_not_looked_up(check: Check) -> None:
    validation = check(PlanTask(1, "run_shell", "rm -rf ../*", "r"), PlanTask(2, "http_request", "http://x/", "r"))
    assert validation.is_sound
    assert validation.warnings == validation.notes == ()


def test_validating_changes_nothing_in_the_workspace(check: Check, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    catalogue = build_catalogue([tool.spec for tool in builtin_tools(LocalWorkspace(tmp_path), default_policy())])
    tasks = (calls(1, "write_file", path="new/b", content=""), calls(2, "delete_path", path="a"))
    assert validate(TaskPlan("p", "", "", tasks), catalogue, LocalWorkspace(tmp_path), default_configuration()).is_sound
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


INJURIES: dict[str, tuple[str, Callable[[PlanTask], PlanTask]]] = {
    "self": ("depends_on", lambda task: replace(task, depends_on=(task.id,))),
    "missing": ("depends_on", lambda task: replace(task, depends_on=(999,))),
    "action": ("action", lambda task: replace(task, action="nonsense")),
    "tool": ("calls.1.tool", lambda task: replace(task, calls=(PlannedCall("nonsense"),))),
    "arguments": ("calls.1.arguments", lambda task: replace(task, calls=(PlannedCall("read_file"),))),
    "outside": ("target", lambda task: replace(task, target="../x")),
    "condition": ("when", lambda task: replace(task, when={"task": 1})),
}


@given(st.lists(st.sampled_from([None, *INJURIES]), min_size=2, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_plan_with_any_number_of_independent_defects_reports_all_of_them_and_no_other(
    check: Check, injuries: list[str | None]
) -> None:
    tasks, wanted = [reads(1)], []
    for number, name in enumerate(injuries, 2):
        task = reads(number)
        if name is not None:
            where, injure = INJURIES[name]
            task = injure(task)
            wanted.append((number, where))
        tasks.append(task)
    assert found(check(*tasks)) == wanted


TEXTS = st.text(max_size=6) | st.sampled_from(
    ["read_file", "edit_file", "main.py", "../x", "*", "\0", "\ud800", "a/" * 3000]
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.lists(TEXTS, max_size=2)
MAPPINGS = st.dictionaries(st.sampled_from(["path", "paths", "task", "status", "not", "all", "argv"]) | TEXTS, VALUES)
TASK = st.builds(
    PlanTask,
    id=st.integers(-1, 6),
    action=TEXTS,
    target=TEXTS,
    reason=TEXTS,
    depends_on=st.lists(st.integers(-1, 6), max_size=4).map(tuple),
    params=MAPPINGS,
    calls=st.lists(st.builds(PlannedCall, TEXTS, MAPPINGS), max_size=2).map(tuple),
    when=st.none() | MAPPINGS,
)


@given(st.lists(TASK, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_plan_makes_validating_raise(check: Check, tasks: list[PlanTask]) -> None:
    validation = check(*tasks)
    assert [task.id for task in validation.plan.tasks] == [task.id for task in tasks]
    assert all(one.problem.isprintable() for one in validation.defects)


PLAN = {
    "goal": "g",
    "tasks": [
        {"id": 1, "action": "read_file", "target": "main.py", "reason": "see"},
        {
            "id": 2,
            "reason": "change",
            "depends_on": [1],
            "when": {"task": 1, "status": "done"},
            "calls": [{"tool": "edit_file", "arguments": {"path": "main.py", "old": "x", "new": "y"}}],
        },
    ],
}


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_mutation_of_a_valid_plans_text_makes_reading_or_validating_raise(check: Check, data: st.DataObject) -> None:
    text = json.dumps(PLAN)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        text = (
            text[:start] + data.draw(st.text(max_size=3) | st.sampled_from(['"', "{", "]", "-1", "null"])) + text[end:]
        )
    reading = read_plan(text)
    if reading.plan is None:
        assert reading.defects
    else:
        check(*reading.plan.tasks)


def test_ten_thousand_tasks_are_refused_and_still_named_one_by_one(check: Check) -> None:
    tasks = [reads(n, f"x{n}/*/y{n}", depends_on=(n % 10_000 + 1,)) for n in range(1, 10_001)]
    tasks[5] = replace(tasks[5], action="nonsense")
    validation = check(*tasks)
    assert (0, "tasks") in found(validation)
    assert (6, "action") in found(validation)
    assert next(one for one in validation.defects if "circle" in one.problem).task == 1


def test_the_plan_of_the_documentation_is_sound(check: Check) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "plans.md").read_text("utf-8")
    reading = read_plan(page.split("```yaml\n")[1].split("```")[0])
    assert reading.plan is not None
    assert reading.defects == ()
    validation = check(*reading.plan.tasks)
    assert validation.is_sound
    assert validation.warnings == ()
