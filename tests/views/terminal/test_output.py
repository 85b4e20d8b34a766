"""The end of what a command said: the failure and a test runner's result are in it, nothing poses as a row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.schemas.event import Event
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.tool_call import Origin
from foregate.views.terminal.event_rows import Output, format_end, format_event, read_output
from foregate.views.terminal.layout import count_columns, is_hidden

FAILED = ToolFinished(
    call="c1.1",
    tool="run_command",
    target="pytest",
    ok=False,
    content="DeprecationWarning: a plugin\n"
    + "noise\n" * 40
    + "E       assert 1 == 2\n1 failed in 0.1s\n\nexit code 1",
    duration=2500,
    origin=Origin.WORKSPACE,
    evidence=(),
    changes=(),
    error="exit_code",
    exit_code=1,
)


def test_a_failed_command_shows_how_it_ended_and_its_last_lines() -> None:
    event = Event(1, "0", 3, "s", "2026-11-21T06:00:00.000000Z", "tool", "", "", FAILED, "")
    head, much, *lines = [row.plain for row in format_event(event, 80)]
    assert head == "  failed  run_command pytest, 2.5 s: exit code 1"
    assert much == "          the last 12 of 43 lines:"
    assert lines[-2:] == ["  | E       assert 1 == 2", "  | 1 failed in 0.1s"]
    assert len(lines) == 12


def test_a_cancelled_call_of_which_nothing_was_kept_is_no_failure_and_no_unknown() -> None:
    stopped = replace(FAILED, content="cancelled", error="cancelled", exit_code=None, duration=0)
    event = Event(1, "0", 3, "s", "2026-11-21T06:00:00.000000Z", "tool", "", "", stopped, "")
    (row,) = format_event(event, 80)
    assert row.plain == "  stopped run_command pytest: cancelled, nothing of it took effect"


@pytest.mark.parametrize(
    "line",
    [
        "1 failed, 3 passed in 0.12s",
        "===== 2 passed, 1 warning in 1.02s =====",
        "FAILED (failures=1)",
        "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        "ok  \texample.org/pkg\t0.012s",
        "FAIL\texample.org/pkg\t0.012s",
        "Tests:       1 failed, 4 passed, 5 total",
        "      Tests  1 failed | 3 passed (4)",
        "  3 passing (10ms)",
        "# pass 4",
        "10 examples, 0 failures",
    ],
)
def test_the_line_in_which_a_test_runner_sums_up_is_shown_wherever_it_stands(line: str) -> None:
    said = Output(f"begin\n{line}\n" + "noise\n" * 40)
    assert said.result == line.strip()
    assert [row.plain.split("|", 1)[-1].split() for row in format_end(said, 200, 4)][1] == line.replace(
        "\t", "\u2192   "
    ).split()


def test_an_ordinary_line_is_no_result() -> None:
    assert Output("OK then\nok so it goes\n3 files passed on\n").result == ""


def test_colours_of_a_runner_are_left_out_and_anything_else_is_made_visible() -> None:
    (row,) = format_end(Output("\x1b[32m1 passed\x1b[0m in 0.1s \x1b[2J\u202e"), 80, 4)
    assert row.plain == "  | 1 passed in 0.1s \\u{1B}[2J\\u{202E}"


def test_what_foregate_adds_to_an_output_stands_in_the_row_and_what_a_command_says_of_it_does_not() -> None:
    assert read_output(FAILED).how == "exit code 1"
    told = Output("all fine\nexit code 0")
    assert (told.how, told.lines[-1]) == ("", "exit code 0")


@given(st.text(max_size=400), st.integers(30, 100))
def test_every_line_stands_behind_a_bar_and_fits(text: str, width: int) -> None:
    for row in format_end(Output(text), width, 4):
        assert row.plain.startswith(("  | ", "          the last 4 of "))
        assert count_columns(row.plain) <= width
        assert not any(is_hidden(character) for character in row.plain)
