"""Conditions over earlier results: read, refused, and never true because nobody knows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.planning.condition import describe_condition, evaluate, find_named_tasks, find_problems
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.task_plan import TaskCallResult, TaskResult

RESULTS = {
    1: TaskResult(1, "done", responses=(TaskCallResult(True, "one\n\ntwo *\n", exit_code=0),)),
    2: TaskResult(2, "failed", responses=(TaskCallResult(False, "no", ("it failed",), 3),)),
    3: TaskResult(3, "skipped"),
    4: TaskResult(4, "done", responses=(TaskCallResult(True, ""),)),
    5: TaskResult(5, "done", responses=(TaskCallResult(True, "some", dropped=9),)),
}
UNCOMMITTED = {"task": 1, "lines_at_least": 2}
"""`git_status` says the branch in its first line, and one more line for each change."""


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (UNCOMMITTED, "task 1 gives at least 2 lines"),
        (
            {"task": 2, "status": ["done", "failed"], "exit_code": 1},
            "task 2 is done or failed and ends its command with exit code 1",
        ),
        (
            {"any": [{"task": 1, "line": "a*"}, {"not": {"task": 2, "output_contains": 'x" is done'}}]},
            '(task 1 has a line like "a*") or (not (task 2 says "x\\" is done"))',
        ),
    ],
)
def test_a_condition_is_said_in_words_and_no_text_in_it_ends_before_its_end(when: Any, words: str) -> None:
    assert describe_condition(when) == words


@pytest.mark.parametrize(
    ("when", "held"),
    [
        (None, True),
        ({"task": 1, "status": "done"}, True),
        ({"task": 2, "status": ["done", "failed"]}, True),
        ({"task": 3, "status": "done"}, False),
        ({"task": 1, "exit_code": 0}, True),
        ({"task": 2, "exit_code": [1, 2]}, False),
        ({"task": 1, "output_contains": "two"}, True),
        ({"task": 5, "output_contains": "some"}, True),
        ({"task": 1, "output_contains": "Two"}, False),
        ({"task": 1, "line": "t?o*"}, True),
        ({"task": 1, "line": "wo"}, False),
        ({"task": 1, "lines_at_least": 2}, True),
        ({"task": 1, "lines_at_least": 3}, False),
        ({"task": 4, "lines_at_least": 1}, False),
        ({"task": 1, "status": "done", "exit_code": 1}, False),
        ({"not": {"task": 1, "exit_code": 1}}, True),
        ({"all": [{"task": 1, "status": "done"}, {"task": 2, "status": "failed"}]}, True),
        ({"any": [{"task": 1, "status": "failed"}, {"task": 2, "status": "done"}]}, False),
        ({"any": [{"not": {"task": 1, "status": "failed"}}, {"task": 2, "status": "done"}]}, True),
    ],
)
def test_a_condition_is_answered_by_the_results(when: Any, held: bool) -> None:
    assert list(find_problems(when)) == [] or when is None
    answer, reason = evaluate(when, RESULTS)
    assert answer is held
    assert reason


@pytest.mark.parametrize(
    "question",
    [
        {"task": 9, "status": "done"},
        {"task": 3, "output_contains": "x"},
        {"task": 3, "lines_at_least": 0},
        {"task": 4, "exit_code": 0},
        {"task": 5, "output_contains": "else"},
    ],
)
def test_what_nobody_knows_is_false_and_its_opposite_as_well(question: dict[str, Any]) -> None:
    true = {"task": 1, "status": "done"}
    for when in (question, {"not": question}, {"any": [true, question]}, {"any": [true, {"not": question}]}):
        answer, reason = evaluate(when, RESULTS)
        assert not answer
        assert "cannot be answered" in reason


@pytest.mark.parametrize(
    "when",
    [
        {},
        [],
        "done",
        {"task": 1},
        {"status": "done"},
        {"task": 0, "status": "done"},
        {"task": True, "status": "done"},
        {"task": 1, "status": "fine"},
        {"task": 1, "exit_code": "0"},
        {"task": 1, "output_contains": ""},
        {"task": 1, "line": "x" * 2000},
        {"task": 1, "lines_at_least": -1},
        {"task": 1, "stauts": "done"},
        {"not": {"task": 1}},
        {"all": []},
        {"any": {"task": 1, "status": "done"}},
        {"all": [{"task": 1, "status": "done"}], "task": 1},
        {"any": [{"task": 1, "status": "done"}] * 100},
    ],
)
def test_a_condition_that_cannot_be_read_is_named_and_never_holds(when: Any) -> None:
    assert list(find_problems(when))
    assert evaluate(when, RESULTS)[0] is False


def test_a_misspelt_question_is_answered_with_the_nearest() -> None:
    assert ("`output_contain` is unknown", "did you mean `output_contains`?") in list(
        find_problems({"task": 1, "output_contain": "x"})
    )


def test_a_condition_nested_deeper_than_allowed_is_refused_without_going_down() -> None:
    when: dict[str, Any] = {"task": 1, "status": "done"}
    for _ in range(50_000):
        when = {"not": when}
    assert list(find_problems(when)) == [("the condition has too many parts", "ask at most 64 things, nested 8 deep")]
    assert evaluate(when, RESULTS)[0] is False
    assert find_named_tasks(when) == set()


def test_the_tasks_a_condition_asks_about_are_named_however_it_is_nested() -> None:
    assert find_named_tasks({"all": [{"task": 2, "status": "done"}, {"not": {"any": [{"task": 5, "line": "x"}]}}]}) == {
        2,
        5,
    }


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 5) | st.text(max_size=3) | st.sampled_from(["done", "failed"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["task", "status", "exit_code", "line", "lines_at_least", "all", "any", "not", "x"]), inner
        )
    ),
)


@given(ANYTHING)
def test_no_condition_raises_and_one_with_problems_never_holds(when: Any) -> None:
    wrong = list(find_problems(when))
    answer, _ = evaluate(when, RESULTS)
    assert not (wrong and answer) or when is None
    find_named_tasks(when)


def repository(folder: Path) -> None:
    """Make a repository with one committed file `a`."""
    (folder / "a").write_text("one\n")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "main"], ["add", "a"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)


@pytest.mark.parametrize("changed", [True, False])
async def test_if_there_are_uncommitted_changes_is_true_exactly_when_there_are(tmp_path: Path, changed: bool) -> None:
    repository(tmp_path)
    if changed:
        (tmp_path / "a").write_text("two\n")
    tools = {tool.spec.name: tool for tool in builtin_tools(LocalWorkspace(tmp_path), default_policy())}
    said = await tools["git_status"].run({})
    result = TaskResult(1, "done", responses=(TaskCallResult(said.ok, said.content),))
    assert evaluate(UNCOMMITTED, {1: result})[0] is changed
