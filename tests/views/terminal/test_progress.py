"""How far long work has come is shown on a terminal, and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from foregate.views.terminal import progress
from foregate.views.terminal.progress import show_pieces, show_steps

Show = Callable[[bool], io.StringIO]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Makes a text of what is shown on standard error, as a terminal or not."""

    def begin(is_terminal: bool) -> io.StringIO:
        out = io.StringIO()
        console = Console(file=out, force_terminal=is_terminal, width=80, _environ={"TERM": "xterm"})
        monkeypatch.setattr("rich.console.Console", lambda stderr: console)
        return out

    return begin


def test_work_of_many_pieces_is_shown_until_all_are_done_and_again_for_further_work(show: Show) -> None:
    out = show(True)
    with show_pieces("judging") as tell:
        tell(1, 20)
        tell(20, 20)
        first = out.getvalue()
        assert "judging" in first
        assert "/20" in first
        assert first.endswith("\x1b[2K"), "it is gone"
        tell(1, 30)
    assert "/30" in out.getvalue().removeprefix(first)


def test_nothing_is_shown_of_little_work_and_where_nobody_sees_it(show: Show) -> None:
    for is_terminal, whole in ((True, 7), (False, 5000)):
        out = show(is_terminal)
        with show_pieces("judging") as tell:
            for done in range(whole + 1):
                tell(done, whole)
        with show_steps("verifying", whole) as go_on:
            go_on(whole // 2)
        assert out.getvalue() == ""


def test_steps_add_up(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_WORTH_SHOWING", 10)
    out = show(True)
    with show_steps("verifying", 10) as go_on:
        go_on(4)
        go_on(3)
    assert "7/10" in out.getvalue()


def test_what_fails_leaves_nothing_on_the_terminal(show: Show) -> None:
    out = show(True)

    def fail() -> None:
        with show_pieces("judging") as tell:
            tell(1, 20)
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        fail()
    assert out.getvalue().endswith("\x1b[2K")
