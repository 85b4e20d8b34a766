"""Reading plans: every shape in use, nothing passed over in silence, and no text that makes it raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.planning.planner import WirePlan, parse_wire_plan
from foregate.agent.planning.reader import Reading, read_plan
from foregate.schemas import strict_json
from foregate.schemas.strict_schema import strict_schema
from foregate.schemas.task_plan import PlannedCall, PlanTask, TaskPlan
from foregate.schemas.tool_spec import ToolSpec

TASKS: dict[str, Any] = {
    "plan_id": "plan-abc123",
    "query": "Debug the failing test",
    "goal": "Find and fix the bug",
    "tasks": [
        {
            "id": 1,
            "action": "read_file",
            "target": "tests/test_login.py",
            "reason": "See what it checks",
            "expected_outcome": "The assertions",
            "depends_on": [],
            "params": None,
        },
        {
            "id": 2,
            "action": "run_test",
            "target": "test_login",
            "reason": "See the error",
            "depends_on": [1],
            "params": '{"verbose": true}',
        },
    ],
}
STEPS: dict[str, Any] = {
    "steps": [
        {
            "step_number": 1,
            "description": "Read main.py",
            "actions": [{"tool_name": "file_read", "arguments": {"file_path": "main.py"}, "description": "See it"}],
            "depends_on": None,
        },
        {
            "step_number": 2,
            "description": "Add the docstring",
            "actions": [
                {
                    "tool_name": "edit_file",
                    "arguments": '{"file_path": "main.py", "old_text": "a", "new_text": "b"}',
                    "description": "Replace it",
                }
            ],
            "depends_on": 1,
        },
    ],
    "estimated_duration": "3 seconds",
    "requires_confirmation": True,
}
SHORT: dict[str, Any] = {
    "steps": [{"description": "List", "tool": "fs_list", "args": {"glob": "*.py"}}, {"tool": "git_status"}]
}


def plan_of(value: Any, **more: Any) -> TaskPlan:
    reading = read_plan(value if isinstance(value, str) else json.dumps(value), **more)
    assert reading.plan is not None, reading.defects
    assert reading.defects == ()
    return reading.plan


def test_a_plan_of_tasks_is_read_as_it_is_written() -> None:
    plan = plan_of(TASKS)
    assert (plan.id, plan.query, plan.goal) == ("plan-abc123", "Debug the failing test", "Find and fix the bug")
    assert plan.tasks == (
        PlanTask(1, "read_file", "tests/test_login.py", "See what it checks", "The assertions"),
        PlanTask(2, "run_tests", "test_login", "See the error", depends_on=(1,), params={"verbose": True}),
    )
    assert read_plan(json.dumps(TASKS)).notes == ("task 2: the action `run_test` is our `run_tests`",)


def test_a_plan_of_steps_keeps_each_calls_description_and_resolves_foreign_names() -> None:
    reading = read_plan(json.dumps(STEPS), query="Read main.py and add a docstring")
    plan = plan_of(STEPS, query="Read main.py and add a docstring")
    assert plan.estimated_duration == 3
    assert plan.goal == plan.query == "Read main.py and add a docstring"
    assert plan.tasks[0].calls == (PlannedCall("read_file", {"path": "main.py"}, "See it"),)
    assert plan.tasks[1].calls == (PlannedCall("edit_file", {"path": "main.py", "old": "a", "new": "b"}, "Replace it"),)
    assert plan.tasks[1].depends_on == (1,)
    assert plan.tasks[1].reason == "Add the docstring"
    assert "task 1: the tool `file_read` is our `read_file`" in reading.notes
    assert "task 2: the parameter `old_text` of `edit_file` is `old`" in reading.notes
    assert "the goal was missing; it is the request" in reading.notes


def test_steps_with_a_tool_of_their_own_are_tasks_with_one_call() -> None:
    reading = read_plan(json.dumps(SHORT))
    plan = plan_of(SHORT)
    assert [task.id for task in plan.tasks] == [1, 2]
    assert plan.tasks[0].calls == (PlannedCall("list_files", {"glob": "*.py", "recursive": True}, "List"),)
    assert plan.tasks[1].calls == (PlannedCall("git_status"),)
    assert plan.tasks[1].reason == "git_status"
    assert "tasks 1, 2: the number was missing; it is the place in the list" in reading.notes
    assert "task 2: the reason was missing" in reading.notes


def test_a_bare_list_is_the_tasks_of_a_plan() -> None:
    assert [task.action for task in plan_of([{"action": "read_file"}]).tasks] == ["read_file"]


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Here it is:\n```\n{}\n```\nDone.", "\ufeff {} \n"])
def test_json_is_read_bare_and_in_one_code_block(around: str) -> None:
    assert plan_of(around.replace("{}", json.dumps(TASKS))) == plan_of(TASKS)


@pytest.mark.parametrize("around", ["{}", "```yaml\n{}```", "So:\n\n```\n{}\n```"])
def test_yaml_is_read_bare_and_in_one_code_block(around: str) -> None:
    text = "goal: g\ntasks:\n  - action: write_file\n    target: a.txt\n    reason: |\n      with\n      ``` inside\n"
    plan = plan_of(around.replace("{}", text) if around != "{}" else text)
    assert plan.tasks[0].reason == "with\n``` inside\n"


def test_a_tool_of_that_very_name_is_never_taken_for_ours() -> None:
    grep = ToolSpec("grep", "", {"type": "object", "properties": {"query": {}}}, provenance="mcp:x")
    read_file = ToolSpec("read_file", "", {"properties": {"file_path": {}}}, provenance="builtin")
    other = ToolSpec("edit_file", "", {"properties": {}}, provenance="mcp:x")
    catalogue = {"grep": grep, "read_file": read_file, "edit_file": other}
    calls = [
        {"tool": "grep", "args": {"query": "x"}},
        {"tool": "read_file", "args": {"file_path": "x"}},
        {"tool": "edit_file", "args": {"old_text": "x"}},
    ]
    task = plan_of([{"calls": calls, "reason": "r"}], catalogue=catalogue).tasks[0]
    assert [[call.tool, call.arguments] for call in task.calls] == [[one["tool"], one["args"]] for one in calls]


def test_a_parameter_given_under_both_names_is_left_for_the_schema_to_refuse() -> None:
    calls = [{"tool": "read_file", "args": {"file_path": "x", "path": "y"}}]
    assert plan_of([{"calls": calls, "reason": "r"}]).tasks[0].calls[0].arguments == {"file_path": "x", "path": "y"}


def test_the_same_plan_has_the_same_id_and_a_name_that_is_none_is_replaced() -> None:
    assert plan_of(SHORT).id == plan_of(SHORT).id != plan_of(STEPS).id
    assert plan_of({**TASKS, "plan_id": "../../etc"}).id.startswith("plan-")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(7, 7), ("5 seconds", 5), ("2 min", 120), ("1 hour", 3600), ("soon", 0), (-1, 0), (True, 0), (None, 0)],
)
def test_a_duration_is_in_seconds_or_unknown(value: Any, seconds: int) -> None:
    assert plan_of({"estimated_duration": value, **SHORT}).estimated_duration == seconds


@pytest.mark.parametrize(
    ("change", "task", "where"),
    [
        ({"depnds_on": [1]}, 1, "depnds_on"),
        ({"id": "one"}, 1, "id"),
        ({"id": 10**9}, 1, "id"),
        ({"depends_on": ["1"]}, 1, "depends_on"),
        ({"depends_on": True}, 1, "depends_on"),
        ({"params": "{"}, 1, "params"),
        ({"params": [1]}, 1, "params"),
        ({"when": "yes"}, 1, "when"),
        ({"calls": "read_file"}, 1, "calls"),
        ({"calls": [3]}, 1, "calls.1"),
        ({"calls": [{"tool": "a", "arguments": '{"a": 1, "a": 2}'}]}, 1, "calls.1.arguments"),
        ({"calls": [{"tool": ["a"]}]}, 1, "calls.1.tool"),
        ({"calls": [{"tool": "a"}], "tool": "b"}, 1, "calls"),
        ({"description": "again"}, 1, "description"),
        ({"reason": 5}, 1, "reason"),
    ],
)
def test_what_cannot_be_read_in_a_task_is_a_defect_at_its_field(change: dict[str, Any], task: int, where: str) -> None:
    reading = read_plan(json.dumps({"goal": "g", "tasks": [{"action": "read_file", "reason": "r", **change}]}))
    assert reading.plan is not None
    assert [(one.task, one.field) for one in reading.defects] == [(task, where)]
    assert all(one.problem and one.remedy for one in reading.defects)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"tasks": "none"}, "tasks"),
        ({"tasks": [1]}, "task"),
        ({"version": 2}, "version"),
        ({"version": True}, "version"),
        ({"requires_confirmation": "no"}, "requires_confirmation"),
        ({"on_failure": "ignore"}, "on_failure"),
        ({"on_failure": ["stop"]}, "on_failure"),
        ({"metadata": "x"}, "metadata"),
        ({"steps": []}, "steps"),
        ({"gaol": "x"}, "gaol"),
    ],
)
def test_what_cannot_be_read_in_a_plan_is_a_defect_at_its_field(change: dict[str, Any], where: str) -> None:
    reading = read_plan(json.dumps({**TASKS, **change}))
    assert reading.plan is not None
    assert [one.field for one in reading.defects] == [where]
    assert reading.plan.requires_confirmation


def test_a_misspelt_key_is_refused_with_the_nearest_known_one() -> None:
    (defect,) = read_plan('{"goal": "g", "tasks": [{"action": "read_file", "reason": "r", "depend_on": 1}]}').defects
    assert defect.remedy == "did you mean `depends_on`?"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "I cannot do that.",
        "3",
        '{"tasks": [',
        '{"tasks": [], "tasks": []}',
        "tasks: []\ntasks: []",
        "a: &x 1\nb: *x",
        "```\n```",
        "```\n{}\n```\n```\n{}\n```",
        "```\n{}",
        "[" * 100_000,
        "- " * 100_000,
        '{"a": "\\ud800"}',
        "\ud800",
        '{"goal": "\ud800"}',
        "a" * 300_000,
        "{" + " " * (9 * 1024 * 1024) + "}",
        '{"goal": NaN}',
        "\0",
    ],
    ids=range(20),
)
def test_a_text_that_holds_no_plan_has_one_defect_and_a_remedy(text: str) -> None:
    reading = read_plan(text)
    assert reading.plan is None
    assert [one.task for one in reading.defects] == [0]
    assert reading.defects[0].remedy
    assert len(reading.defects[0].problem) <= 400


def test_names_that_do_not_print_are_escaped_in_what_is_said() -> None:
    text = json.dumps({"tasks": [{"action": "a", "reason": "r", "\x1b[2J\u202e": 1, "id": "\x1b]0;x"}]})
    said = repr([(one.problem, one.field, one.remedy) for one in read_plan(text).defects])
    assert "\\\\x1b" in said or "\\\\u001b" in said
    assert all(one.field.isprintable() and one.problem.isprintable() for one in read_plan(text).defects)


def test_ten_thousand_tasks_are_read_and_their_notes_are_few() -> None:
    reading = read_plan(json.dumps([{"tool": "grep", "args": {"pattern": str(number)}} for number in range(10_000)]))
    assert reading.plan is not None
    assert len(reading.plan.tasks) == 10_000
    assert max(map(len, reading.notes)) < 500


KEYS = sorted({"plan_id", "metadata", "version", "on_failure", "calls", "when", *TASKS, *STEPS, *TASKS["tasks"][0]})
KEYS += ["may_fail"]
KEYS += [*STEPS["steps"][0], *SHORT["steps"][0]]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=2),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)


def readable(reading: Reading) -> None:
    assert reading.plan is not None or reading.defects
    if reading.plan is not None:
        assert strict_json.load(TaskPlan, strict_json.parse(json.dumps(strict_json.dump(reading.plan)))) == reading.plan
        assert reading.plan.id
        assert reading.plan.digest


@given(JSON | st.builds(lambda tasks: {"tasks": tasks}, st.lists(JSON, max_size=3)))
def test_whatever_json_holds_it_is_a_plan_or_has_defects_and_never_raises(value: Any) -> None:
    readable(read_plan(json.dumps(value)))
    readable(parse_wire_plan(json.dumps(value), query="q"))


@given(st.text())
def test_whatever_a_text_holds_it_is_a_plan_or_has_defects_and_never_raises(text: str) -> None:
    readable(read_plan(text, query=text))


@pytest.mark.parametrize("depth", range(25, 66, 5))
@pytest.mark.parametrize("as_text", [True, False])
def test_a_plan_that_was_read_however_deep_can_be_written_and_read_again(depth: int, as_text: bool) -> None:
    value: Any = {"a": "x"}
    for _ in range(depth):
        value = {"a": value}
    arguments = json.dumps(value) if as_text else value
    readable(read_plan(json.dumps([{"tool": "a", "args": arguments, "reason": "r"}])))


def objects(schema: Any) -> list[dict[str, Any]]:
    found = [schema] if isinstance(schema, dict) and "properties" in schema else []
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return found + [one for value in inner for one in objects(value)]


def test_on_the_wire_every_key_is_required_and_no_other_is_allowed() -> None:
    assert len(objects(strict_schema(WirePlan))) == 3
    for schema in objects(strict_schema(WirePlan)):
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False
    assert "patternProperties" not in json.dumps(strict_schema(WirePlan))


def test_a_plan_from_the_wire_is_read_with_nulls_and_json_text_and_has_no_name_of_its_own() -> None:
    call = {"tool": "read_file", "arguments": '{"path": "a"}', "description": None}
    task: dict[str, Any] = dict.fromkeys(objects(strict_schema(WirePlan))[1]["required"])
    task |= {"id": 1, "reason": "r", "depends_on": [], "calls": [call], "when": '{"task": 1, "status": "done"}'}
    plan = {"goal": "g", "tasks": [task], "estimated_duration": None, "requires_confirmation": False, "metadata": "{}"}
    reading = parse_wire_plan(json.dumps(plan), query="what was asked")
    assert reading.plan is not None
    assert reading.defects == reading.notes == ()
    assert reading.plan.query == "what was asked"
    assert reading.plan.requires_confirmation is False
    assert reading.plan.tasks[0].calls == (PlannedCall("read_file", {"path": "a"}),)
    assert reading.plan.tasks[0].when == {"task": 1, "status": "done"}
    forged = parse_wire_plan(json.dumps({**plan, "plan_id": "theirs", "query": "theirs"}), query="what was asked")
    assert forged.plan == reading.plan


@pytest.mark.parametrize(
    "later",
    [
        {"id": 2, "action": "analyze_error", "reason": "r", "depends_on": [1]},
        {"id": 2, "action": "edit_file", "reason": "r", "when": {"not": {"any": [{"task": 1, "exit_code": 0}]}}},
    ],
)
@pytest.mark.parametrize(("said", "may"), [(None, True), (False, False), (True, True)])
def test_a_task_whose_failure_a_later_one_looks_at_may_fail_unless_it_says_otherwise(
    later: dict[str, Any], said: bool | None, may: bool
) -> None:
    first = {"id": 1, "tool": "run_tests", "args": {}, "reason": "r", "may_fail": said}
    reading = read_plan(json.dumps({"goal": "g", "tasks": [first, later]}))
    assert reading.plan is not None
    assert [task.may_fail for task in reading.plan.tasks] == [may, False]
    assert (said is None) == any("may end with an error" in note for note in reading.notes)


def test_whether_a_task_may_fail_is_yes_or_no() -> None:
    reading = read_plan(json.dumps({"goal": "g", "tasks": [{"id": 1, "action": "run_tests", "may_fail": "perhaps"}]}))
    assert [(defect.task, defect.field) for defect in reading.defects] == [(1, "may_fail")]
