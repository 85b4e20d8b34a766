"""Plans made to mislead, to overload, or written carelessly: each is read as far as it can be, at a bounded cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.reader import read_plan
from foregate.agent.planning.validator import Validation, validate
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.task_plan import PlannedCall, PlanTask, TaskPlan
from foregate.schemas.tool_spec import build_catalogue
from foregate.views.terminal.plan_finding import format_plan_file

PLAN = json.dumps({"goal": "g", "tasks": [{"id": 1, "action": "git_status", "reason": "r"}]}, indent=1)


class Counting(LocalWorkspace):
    """A workspace that counts the parts of the paths it was asked about."""

    steps = 0

    def resolve(self, path: str, *, follow: bool = True) -> str:
        self.steps += 1 + path.count("/")
        return super().resolve(path, follow=follow)


def checked(workspace: Workspace, *calls: PlannedCall) -> Validation:
    catalogue = build_catalogue([tool.spec for tool in builtin_tools(workspace, default_policy())])
    tasks = tuple(PlanTask(n, reason=f"call {n}", calls=(call,)) for n, call in enumerate(calls, 1))
    return validate(TaskPlan("p", "q", "g", tasks), catalogue, workspace, default_configuration())


@pytest.mark.parametrize(
    "path",
    [
        "~",
        "~/x",
        "~root/x",
        "C:\\x",
        "c:/x",
        "\\\\host\\share",
        "..\\x",
        "src\\..\\..\\x",
        "file:///etc/passwd",
        "http://a/b",
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "write_file", "delete_path"])
def test_a_path_that_leads_outside_elsewhere_is_a_defect_unless_there_is_such_a_file(
    tmp_path: Path, tool: str, path: str
) -> None:
    more = {"content": "x"} if tool == "write_file" else {}
    call = PlannedCall(tool, {"path": path, **more})
    (defect,) = checked(LocalWorkspace(tmp_path), call).defects
    assert (defect.task, defect.field) == (1, "calls.1.arguments.path")
    (tmp_path / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path.lstrip("/")).write_text("")
    assert checked(LocalWorkspace(tmp_path), call).defects == ()


@pytest.mark.parametrize("path", ["a~b", "backup~", "c:x", "x.y:z", "a..\\b"])
def test_a_name_that_merely_holds_such_characters_is_a_name(tmp_path: Path, path: str) -> None:
    assert checked(LocalWorkspace(tmp_path), PlannedCall("write_file", {"path": path, "content": ""})).is_sound


def test_the_paths_of_a_plan_are_looked_up_to_a_bound_and_what_is_beyond_is_a_defect(tmp_path: Path) -> None:
    workspace = Counting(tmp_path)
    validation = checked(workspace, *[PlannedCall("read_file", {"path": f"{'a/' * 1500}{n}"}) for n in range(200)])
    assert validation.defects[0].problem == "the plan names too many paths to look this one up"
    assert workspace.steps < 20_000
    workspace = Counting(tmp_path)
    assert not checked(workspace, PlannedCall("git_add", {"paths": [f"x{n}" for n in range(50_000)]})).is_sound
    assert workspace.steps < 20_000


def test_a_plan_as_long_as_no_policy_allows_is_read_in_part_and_that_is_a_defect() -> None:
    reading = read_plan(json.dumps({"goal": "g", "tasks": [{"id": n + 1} for n in range(50_000)]}))
    assert reading.plan is not None
    assert len(reading.plan.tasks) == 20_000
    assert [one.field for one in reading.defects] == ["tasks"]
    calls = [{"tool": "git_status"}] * 30_000
    (defect,) = read_plan(
        json.dumps({"tasks": [{"reason": "r", "calls": calls}, {"action": "a", "reason": "s"}]})
    ).defects
    assert (defect.task, defect.field) == (1, "calls")


def test_of_many_keys_nobody_knows_only_some_are_named() -> None:
    assert len(read_plan(json.dumps({f"key{n}": 1 for n in range(10_000)})).defects) == 20


def test_the_nearest_name_is_looked_for_only_so_often() -> None:
    tasks = [{"id": n, "action": "git_status", "reason": "r", "reasn": n} for n in range(1, 1001)]
    defects = read_plan(json.dumps({"goal": "g", "tasks": tasks})).defects
    assert len(defects) == 1000
    guessed = [one for one in defects if "did you mean" in one.remedy]
    assert 0 < len(guessed) < 500


def test_a_large_plan_is_taken_as_json_and_not_as_yaml() -> None:
    text = "goal: g\ntasks:\n" + " - {action: git_status, reason: " + "r" * 200_000 + "}\n"
    (defect,) = read_plan(text).defects
    assert "JSON" in defect.problem
    assert read_plan(json.dumps({"goal": "g", "tasks": [{"action": "a", "reason": "r" * 200_000}]})).defects == ()


@pytest.mark.parametrize("number", [0, -1, -(10**9)])
def test_a_task_numbered_below_one_is_named_by_its_place(number: int) -> None:
    (defect,) = read_plan(json.dumps({"goal": "g", "tasks": [{"id": number, "action": "a", "reason": "r"}]})).defects
    assert (defect.task, defect.field) == (1, "id")


@pytest.mark.parametrize(
    "around",
    [
        "Here is the plan:\n{}\nTell me if that helps.",
        "{}\nTell me if that helps.",
        "<think>First a look: [git].</think>\n\n{}",
        "  ```json\n  {}\n  ```\n",
        "~~~json\n{}\n~~~",
    ],
)
@pytest.mark.parametrize("text", [PLAN, json.dumps(json.loads(PLAN))], ids=["spread", "one line"])
def test_the_one_json_value_among_lines_of_words_is_the_plan_and_that_is_said(around: str, text: str) -> None:
    reading = read_plan(around.replace("{}", text))
    assert reading.defects == ()
    assert reading.notes == ("the text around the plan was left out",)
    assert reading.plan == read_plan(PLAN).plan


@pytest.mark.parametrize(
    "text", [f"One:\n{PLAN}\nor\n{PLAN}", f"{PLAN}\n{PLAN}", f"So:\n{PLAN}\n{{", f"So:\n{PLAN[:-9]}"]
)
def test_of_several_values_or_a_broken_one_none_is_chosen(text: str) -> None:
    reading = read_plan(text)
    assert (reading.plan, len(reading.defects)) == (None, 1)


@pytest.mark.parametrize(
    "yaml",
    [
        "a: &a [x]\ntasks: *a",
        "tasks: !!python/object:os.system []",
        "tasks:\n  - <<: {id: 1}",
        "%YAML 1.1\n---\ntasks: []",
        "tasks: []\n---\ntasks: []",
        "tasks: []\ntasks: []",
        "? [tasks]\n: 1",
        "tasks: .nan",
    ],
)
def test_yaml_that_means_more_than_it_says_is_refused(yaml: str) -> None:
    reading = read_plan(yaml)
    assert (reading.plan, len(reading.defects)) == (None, 1)


@pytest.mark.parametrize(
    "name", ["re\u0430d_file", "READ_FILE", "read_file\0", "read_file\u200b", "\u202eread_file", "__class__", ""]
)
def test_a_tools_name_that_only_looks_like_one_is_nobodys(tmp_path: Path, name: str) -> None:
    value: Any = {"goal": "g", "tasks": [{"reason": "r", "calls": [{"tool": name, "args": {"path": "a"}}]}]}
    plan = read_plan(json.dumps(value)).plan
    assert plan is not None
    (defect,) = checked(LocalWorkspace(tmp_path), *plan.tasks[0].calls).defects
    assert defect.field == "calls.1.tool"
    assert defect.problem.isprintable()


TEXT = st.text(max_size=6)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=3)
CALLS = st.builds(PlannedCall, st.sampled_from(["read_file", "file_read", "grep", "nope", ""]), OBJECT, TEXT)
TASKS = st.builds(
    PlanTask,
    st.integers(1, 5),
    st.sampled_from(["read_file", "file_read", "", "git_status"]),
    TEXT,
    TEXT,
    TEXT,
    st.lists(st.integers(-3, 9), max_size=3).map(tuple),
    OBJECT,
    st.lists(CALLS, max_size=3).map(tuple),
    st.none() | OBJECT,
)


@given(st.lists(TASKS, max_size=4), TEXT, TEXT, OBJECT, st.booleans(), st.integers(0, 10**6))
def test_a_plan_that_was_read_is_the_same_after_it_is_written_and_read_again(
    tasks: list[PlanTask], query: str, goal: str, metadata: dict[str, Any], confirmation: bool, duration: int
) -> None:
    given_plan = TaskPlan(
        "p",
        query,
        goal,
        tuple(tasks),
        requires_confirmation=confirmation,
        metadata=metadata,
        estimated_duration=duration,
        on_failure="ask",
    )
    first = read_plan(format_plan_file(given_plan))
    assert first.defects == ()
    assert first.plan is not None
    again = read_plan(format_plan_file(first.plan))
    assert again.defects == ()
    assert again.plan == first.plan
    assert again.plan is not None
    assert again.plan.digest == first.plan.digest
