"""A plan with other values is another plan, and says from which it comes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.planning.other_values import describe_new_values, read_settings, with_values
from foregate.schemas.errors import UsageError
from foregate.schemas.task_plan import TaskPlan
from foregate.schemas.tool_spec import Effect, ToolSpec
from tests.agent.planning.plans import call, edit, plan, task

TOOL = ToolSpec(
    "fetch",
    "Fetch.",
    {
        "type": "object",
        "properties": {
            "url": {"type": "string"},
            "times": {"type": "integer", "maximum": 9},
            "headers": {"$ref": "#/$defs/map"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["url"],
        "$defs": {"map": {"type": "object", "additionalProperties": {"type": "string"}}},
    },
    Effect.OBSERVATION,
)
KNOWN = {"fetch": TOOL}
PLAN = plan(
    task(1, call("fetch", url="http://a/")),
    task(2, edit("a.txt", "teh", "the"), call("send", to="ann", many=[1])),
    task(3, action="write_file", target="c.txt", params={"mode": "short", "deep.name": 1}),
)


def given(*settings: str, of: TaskPlan = PLAN) -> dict[str, Any]:
    """Return the values texts set."""
    return read_settings(of, settings, KNOWN)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("1.url=http://b/?x=1=2", "http://b/?x=1=2"),
        ("1.url=17", "17"),
        ('1.url="17"', "17"),
        ("1.url=null", "null"),
        ("1.url=", ""),
        ("1.calls.1.times=3", 3),
        ("1.times=30", "30"),
        ("1.times=three", "three"),
        ('1.headers={"a": "b"}', {"a": "b"}),
        ('1.headers={"a": 1}', '{"a": 1}'),
        ("1.note=null", None),
        ("2.calls.2.many=[2, 3]", [2, 3]),
        ("2.calls.2.to=[2, 3]", "[2, 3]"),
        ("2.calls.1.old={", "{"),
        ("3.params.mode=true", "true"),
        ("3.params.deep.name=2", 2),
        ("3.target=d.txt", "d.txt"),
        ("3.target=1", "1"),
    ],
)
def test_a_value_is_json_where_that_fits_what_is_wanted_there_and_text_otherwise(setting: str, value: Any) -> None:
    assert list(given(setting).values()) == [value]
    assert type(next(iter(given(setting).values()))) is type(value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("9.url=x",), "`9.url` names no task; the plan has tasks 1 to 3"),
        (("path=x",), "`path` names no task"),
        (("1.uri=x",), "did you mean `1.url`? task 1 has `1.url`, `1.times`, `1.headers`, `1.note`"),
        (("2.to=x",), "task 2 has `2.calls.1.path`, `2.calls.1.old`, `2.calls.1.new`, `2.calls.2.to`"),
        (("2.calls.3.to=x",), "leads nowhere in the plan"),
        (("2.target=x",), "leads nowhere in the plan"),
        (("3.params.other=x",), "task 3 has `3.target`, `3.params.mode`"),
        (("1.url",), "sets nothing; write PATH=VALUE"),
        (("=x",), "sets nothing"),
        (("1.url=x", "1.url=y"), "`1.url` is set twice"),
    ],
)
def test_what_leads_nowhere_is_one_sentence_that_names_what_there_is(settings: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        given(*settings)
    assert says in str(refused.value)


def test_two_paths_to_one_place_and_a_target_that_is_no_text_are_refused() -> None:
    with pytest.raises(UsageError, match=r"`1\.calls\.1\.url` is set twice"):
        with_values(PLAN, given("1.url=x", "1.calls.1.url=y"), KNOWN)
    with pytest.raises(UsageError, match="the target of task 3 is text"):
        with_values(PLAN, {"3.target": 1})


def test_the_copy_differs_in_what_was_set_and_says_what_it_comes_from() -> None:
    values = given("1.times=3", "2.calls.2.to=bob", "3.target=d.txt", "3.params.mode=long")
    made = with_values(PLAN, values, KNOWN, source="s/1")
    assert made.tasks[0].calls[0].arguments == {"url": "http://a/", "times": 3}
    assert made.tasks[1].calls == (PLAN.tasks[1].calls[0], call("send", to="bob", many=[1]))
    assert (made.tasks[2].target, made.tasks[2].params) == ("d.txt", {"mode": "long", "deep.name": 1})
    assert made.metadata["derived_from"] == {
        "plan": "p1",
        "digest": PLAN.digest,
        "set": ["1.calls.1.times", "2.calls.2.to", "3.target", "3.params.mode"],
        "source": "s/1",
    }
    assert made.id != PLAN.id
    assert made.digest != PLAN.digest
    assert made.goal == f"{PLAN.goal} (with other values)"
    assert with_values(made, {"1.url": "x"}).goal == made.goal
    assert replace(made, id=PLAN.id, goal=PLAN.goal, metadata=PLAN.metadata, tasks=PLAN.tasks) == PLAN


def test_even_the_values_a_plan_has_already_make_another_plan() -> None:
    assert with_values(PLAN, {"1.url": "http://a/"}).digest != PLAN.digest


def test_what_was_set_is_said_with_what_was_there() -> None:
    assert describe_new_values(PLAN, given("1.times=3", "3.target=d.txt"), KNOWN) == (
        "`1.calls.1.times` is now 3 (was left out)",
        '`3.target` is now "d.txt" (was "c.txt")',
    )


def test_without_the_tools_only_arguments_that_are_there_can_be_set() -> None:
    assert with_values(PLAN, {"1.url": "x"}).tasks[0].calls[0].arguments == {"url": "x"}
    with pytest.raises(UsageError, match="leads nowhere in the plan"):
        with_values(PLAN, {"1.times": 3})
