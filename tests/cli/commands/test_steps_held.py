"""What a person chose at the sheet of a plan holds in the process that goes on with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.at_terminal import AtTerminal

Started = Callable[..., AtTerminal]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace of two files, and beside it a plan of a task for each: it is read and edited."""
    made = tmp_path / "ws"
    made.mkdir()
    tasks = []
    for number, name in enumerate(("a.txt", "b.txt"), 1):
        (made / name).write_text("teh\n")
        edit = {"path": name, "old": "teh", "new": "the"}
        calls = [{"tool": "read_file", "arguments": {"path": name}}, {"tool": "edit_file", "arguments": edit}]
        tasks.append({"id": number, "reason": f"fix {name}", "calls": calls})
    (tmp_path / "plan.json").write_text(json.dumps({"goal": "fix both", "tasks": tasks}))
    return made


@pytest.fixture
def start(folder: Path, tmp_path: Path) -> Iterator[Started]:
    """Starts a command at a terminal of its own in the workspace."""
    started: list[AtTerminal] = []

    def at(*arguments: str) -> AtTerminal:
        started.append(AtTerminal(folder, tmp_path, *arguments))
        return started[-1]

    yield at
    for one in started:
        one.close()


@pytest.fixture
def paused(start: Started, tmp_path: Path, folder: Path) -> None:
    """A plan whose person wanted to be asked before each task, let the first run, and refused the second."""
    first = start("execute", str(tmp_path / "plan.json"))
    first.answer("run this plan?", "s")
    first.answer("Run task 1?", "y")
    first.answer("Run task 2?", "n")
    assert first.end() == 10
    assert [(folder / name).read_text() for name in ("a.txt", "b.txt")] == ["the\n", "teh\n"]


def test_a_task_that_was_refused_is_asked_about_again_by_the_process_that_resumes(
    paused: None, start: Started, folder: Path
) -> None:
    again = start("plans", "resume", "last")
    again.answer("Run task 2?", "n")
    assert again.end() == 10
    assert (folder / "b.txt").read_text() == "teh\n"
    last = start("plans", "resume", "last")
    last.answer("Run task 2?", "y")
    assert last.end() == 0
    assert (folder / "b.txt").read_text() == "the\n"
    assert start("audit", "verify", "last").end() == 0


def test_a_chat_that_takes_the_session_up_asks_before_the_task_as_well(
    paused: None, start: Started, folder: Path
) -> None:
    chat = start("chat", "--resume", "last")
    chat.answer("Run task 2?", "y")
    chat.until("you>")
    assert (folder / "b.txt").read_text() == "the\n"


def test_steps_asked_for_on_the_command_line_hold_like_those_chosen_at_the_sheet(
    start: Started, tmp_path: Path, folder: Path
) -> None:
    first = start("execute", str(tmp_path / "plan.json"), "--step")
    first.answer("run this plan?", "y")
    first.answer("Run task 1?", "n")
    assert first.end() == 10
    again = start("plans", "resume", "last")
    again.answer("Run task 1?", "n")
    assert again.end() == 10
    assert (folder / "a.txt").read_text() == "teh\n"


def test_ctrl_c_at_the_sheet_runs_nothing_and_ends_the_plan(start: Started, tmp_path: Path, folder: Path) -> None:
    one = start("execute", str(tmp_path / "plan.json"))
    one.until("run this plan?")
    one.type("\x03")
    assert one.end() == 130
    assert "nothing ran" in one.seen
    assert (folder / "a.txt").read_text() == "teh\n"
