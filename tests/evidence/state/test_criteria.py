"""Criteria of a plan against what finished calls observed: exactly their object, by the kind of call that can tell."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

from foregate.evidence.state.plan_in_force import check_criterion
from foregate.evidence.state.task import TaskState, build_observations
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.plan import Criterion, PlanInForce
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Origin, Trust
from foregate.schemas.tool_spec import Resource, ResourceKind

Kind = Literal["file_exists", "file_contains", "command_succeeds", "http_status"]


def criterion(check: Kind | None, target: str | None, expected: str | None = None) -> Criterion:
    """Return a typed criterion."""
    return Criterion(text="it is so", check=check, target=target, expected=expected)


def finished(tool: str, target: str, content: str = "", *, ok: bool = True, **more: int) -> ToolFinished:
    """Return the body of a finished call; `more` are its `dropped` and its `exit_code`."""
    body = ToolFinished(
        call="c1.1",
        tool=tool,
        target=target,
        ok=ok,
        content=content,
        duration=0,
        origin=Origin.WORKSPACE,
        evidence=(),
        changes=(),
    )
    return replace(body, **more)


CAT = criterion("file_contains", "a.txt", "the cat")
TEST = criterion("command_succeeds", "make test")
HTTP = criterion("http_status", "https://example.org/x")


@pytest.mark.parametrize(
    ("wanted", "body", "result"),
    [
        (criterion("file_exists", "a.txt"), finished("read_file", "a.txt"), "met"),
        (criterion("file_exists", "./a.txt"), finished("read_file", "a.txt"), "met"),
        (criterion("file_exists", "a.txt"), finished("read_file", "a.txt", ok=False), "failed"),
        (CAT, finished("read_file", "a.txt", "see the cat"), "met"),
        (CAT, finished("read_file", "a.txt", "see teh cat"), "failed"),
        (CAT, finished("read_file", "a.txt", "see", dropped=10), None),
        (CAT, finished("read_file", "b.txt", "the cat"), None),
        (CAT, finished("write_file", "a.txt", "the cat"), None),
        (TEST, finished("run_command", "make test", exit_code=0), "met"),
        (TEST, finished("run_command", "make 'test'", exit_code=0), "met"),
        (TEST, finished("run_command", "make test", exit_code=2), "failed"),
        (TEST, finished("run_command", "make test", ok=False, exit_code=0), "failed"),
        (TEST, finished("run_command", "make", exit_code=0), None),
        (TEST, finished("run_command", "make test --dry-run", exit_code=0), None),
        (TEST, finished("run_command", "make 'test", exit_code=0), None),
        (HTTP, finished("http_request", "https://example.org/x", exit_code=200), "met"),
        (HTTP, finished("http_request", "https://example.org/x", exit_code=404), "failed"),
        (HTTP, finished("http_request", "https://example.org/y", exit_code=200), None),
        (criterion("http_status", "https://example.org/x", "404"),
         finished("http_request", "https://example.org/x", exit_code=404), "met"),
        (criterion(None, "a.txt"), finished("read_file", "a.txt"), None),
        (criterion("file_exists", None), finished("read_file", ""), None),
    ],
)  # fmt: skip
def test_a_call_tells_of_a_criterion_what_it_observed_of_exactly_its_object(
    wanted: Criterion, body: ToolFinished, result: str | None
) -> None:
    assert check_criterion(wanted, body) == result


def seen(tool: str, *found: EvidenceRecord, content: str = "", ok: bool = True) -> ToolFinished:
    """Return the body of a call that showed something of files."""
    return replace(finished(tool, "whatever", content, ok=ok), evidence=found)


A, B = (Resource(ResourceKind.FILE, f"{name}.txt") for name in "ab")
OWN = EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, A, "f" * 64, own_change=True)
LISTED = EvidenceRecord(EvidenceKind.COMMAND_OUTPUT, A, "", Trust.INFERRED)
SHOWN, SHOWN_B = (EvidenceRecord(EvidenceKind.FILE_READ, resource, resource.id) for resource in (A, B))
PART = replace(SHOWN, trust=Trust.INFERRED)


@pytest.mark.parametrize(
    ("check", "body", "result"),
    [
        ("file_exists", seen("list_files", LISTED), "met"),
        ("file_exists", seen("run_command", SHOWN), "met"),
        ("file_exists", seen("write_file", OWN), "met"),
        ("file_exists", seen("delete_file", replace(OWN, hash="")), None),
        ("file_exists", seen("list_files"), None),
        ("file_exists", seen("ask_far_away", replace(LISTED, origin=Origin.EXTERNAL)), None),
        ("file_contains", seen("run_command", SHOWN, content="see the cat"), "met"),
        ("file_contains", seen("run_command", PART, content="see the cat"), "met"),
        ("file_contains", seen("run_command", SHOWN, SHOWN_B, content="see the cat"), None),
        ("file_contains", seen("run_command", SHOWN, content="nothing"), None),
        ("file_contains", seen("run_command", SHOWN, content="see the cat", ok=False), None),
        ("file_contains", seen("write_file", OWN, content="wrote the cat"), None),
        ("file_contains", replace(seen("read_file", PART, content="lines 1 to 2"), target="a.txt"), None),
    ],
)
def test_any_call_that_shows_the_file_settles_what_is_promised_of_it(
    check: Kind, body: ToolFinished, result: str | None
) -> None:
    assert check_criterion(criterion(check, "a.txt", "the cat"), body) == result


def test_the_status_of_a_call_that_changes_a_page_is_never_that_the_page_fails_to_answer_with() -> None:
    made = finished("http_request", "https://example.org/x", exit_code=201)
    assert check_criterion(HTTP, made, changed=True) is None
    assert check_criterion(criterion("http_status", "https://example.org/x", "201"), made, changed=True) == "met"


def test_a_command_that_changes_something_settles_that_it_succeeds_until_something_else_changes() -> None:
    task = TaskState(1, 0, "")
    task.plan, task.last_change = PlanInForce(1, "go", (), criteria=(TEST,)), 7
    task.note_finished_call(7, finished("run_command", "make test", exit_code=0), side_effect=True)
    assert task.find_result(TEST) == "met"
    task.last_change = 9
    assert task.find_result(TEST) is None


def test_a_file_named_like_a_command_does_not_stand_for_its_run() -> None:
    assert check_criterion(TEST, finished("read_file", "make test")) is None


def test_what_a_call_can_settle_is_looked_for_once_and_what_stands_in_words_alone_never() -> None:
    task = TaskState(1, 0, "")
    criteria = (criterion("file_exists", "a.txt"), CAT, TEST, HTTP, criterion(None, None))
    task.plan = PlanInForce(1, "go", (), criteria=criteria)
    assert [(call.name, dict(call.arguments or {})) for call in build_observations(task)] == [
        ("read_file", {"path": "a.txt"}),
        ("run_command", {"argv": ["make", "test"]}),
        ("http_request", {"method": "GET", "url": "https://example.org/x"}),
    ]
    assert build_observations(TaskState(1, 0, "")) == []
