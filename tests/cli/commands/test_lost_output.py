"""Standard output that is closed, full, or no longer read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from foregate.views.terminal.exit_codes import COMPLETED, ERROR, STATUS
from tests.cli.conftest import Cli, parse_lines

COMMAND = [sys.executable, "-Im", "foregate"]
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
CLOSED = (
    "foregate: standard output cannot be written (it is closed); what should stand there is lost, so send it elsewhere"
)
WITHOUT_ROOM = CLOSED.replace("it is closed", "No space left on device")


def run_shell(redirected: str, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:  # noqa: A002
    """Run a command whose streams a shell has redirected."""
    script = f'"$@" {redirected}'
    return subprocess.run(["sh", "-c", script, "sh", *COMMAND, *arguments], capture_output=True, text=True, input=input)


@contextmanager
def nobody_reading() -> Iterator[int]:
    """Yield a pipe whose reader has gone already."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def run_unread(*arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:  # noqa: A002
    with nobody_reading() as pipe:
        return subprocess.run(
            [*COMMAND, *arguments], stdout=pipe, stderr=subprocess.PIPE, text=True, input=input, check=False
        )


def read_states(cli: Cli) -> Sequence[str]:
    """Return how the tasks of the log stand, and fail where a log is not sound."""
    listed = parse_lines(cli("audit", "list", "--json")[1])
    assert all(cli("audit", "verify", about["session"])[0] == 0 for about in listed)
    return [about["state"] for about in listed]


@pytest.mark.parametrize(
    ("redirected", "sentence"), [(">&-", CLOSED), pytest.param("> /dev/full", WITHOUT_ROOM, marks=FULL)]
)
@pytest.mark.parametrize("arguments", [("--help",), ("audit", "list"), ("audit", "show", "last"), ("doctor",)])
def test_a_command_that_cannot_print_ends_with_one_sentence(
    cli: Cli, arguments: tuple[str, ...], redirected: str, sentence: str
) -> None:
    cli("run", "read a.txt")
    ended = run_shell(redirected, *arguments)
    assert (ended.returncode, ended.stderr.splitlines()) == (ERROR, [sentence])


def test_a_command_that_only_prints_ends_in_silence_where_its_reader_left(cli: Cli) -> None:
    cli("run", "read a.txt")
    ended = run_unread("audit", "list")
    assert (ended.returncode, ended.stderr) == (ERROR, "")


@pytest.mark.parametrize("form", ["--events", "--json"])
def test_a_task_whose_output_nobody_reads_is_done_all_the_same(cli: Cli, form: str) -> None:
    ended = run_unread("run", form, "in a.txt replace teh with the")
    assert (ended.returncode, ended.stderr) == (COMPLETED, "")
    assert Path("a.txt").read_text() == "the cat\n"
    assert read_states(cli) == ["completed"]


def test_the_exit_code_of_an_unread_task_is_its_status(cli: Cli) -> None:
    Path("unsure.yaml").write_text("uncertainty:\n  threshold: 1\n")
    assert run_unread("run", "--policy", "unsure.yaml", "clean up").returncode == STATUS["needs_input"]


@pytest.mark.parametrize(
    ("redirected", "sentence"), [(">&-", CLOSED), pytest.param("> /dev/full", WITHOUT_ROOM, marks=FULL)]
)
def test_a_task_whose_answer_cannot_be_written_is_done_and_the_loss_is_an_error(
    cli: Cli, redirected: str, sentence: str
) -> None:
    ended = run_shell(redirected, "run", "--json", "in a.txt replace teh with the")
    assert (ended.returncode, ended.stderr.splitlines()) == (ERROR, [sentence])
    assert Path("a.txt").read_text() == "the cat\n"
    assert read_states(cli) == ["completed"]


@pytest.mark.parametrize("redirected", ["<&- >&- 2>&-", pytest.param("> /dev/full 2> /dev/full", marks=FULL)])
def test_a_task_without_any_stream_writes_nothing_into_the_log_but_events(cli: Cli, redirected: str) -> None:
    run_shell(redirected, "run", "--events", "in a.txt replace teh with the")
    assert Path("a.txt").read_text() == "the cat\n"
    assert read_states(cli) == ["completed"]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_chat_that_nobody_reads_begins_no_task(cli: Cli, form: tuple[str, ...]) -> None:
    ended = run_unread("chat", *form, input="in a.txt replace teh with the\n")
    assert (ended.returncode, ended.stderr) == (COMPLETED, "")
    assert Path("a.txt").read_text() == "teh cat\n"
    assert read_states(cli) == ["ended"]
