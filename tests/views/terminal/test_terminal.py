"""The chat at a real pseudo-terminal, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from foregate.assembly.home import Home
from foregate.schemas.event_body import TaskEnded
from tests.cli.at_terminal import FOREGATE, AtTerminal
from tests.events import bodies

NEW_PROMPT = "\x1b[?2004h"
"""What a prompt begins with: from here on, pasted text is marked."""


class Session(AtTerminal):
    """A chat at a pseudo-terminal."""

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(folder, home, "chat", "--workspace", str(folder))

    def prompted(self) -> None:
        """Wait for a new prompt: between two of them, as the old one is drawn for the last time, Ctrl-D is lost."""
        self.until(NEW_PROMPT)
        self.until("you>")


@pytest.fixture
def at(folder: Path, tmp_path: Path) -> Iterator[Session]:
    """A chat over a workspace with one file."""
    (folder / "b.txt").write_text("b\n")
    session = Session(folder, tmp_path)
    yield session
    session.close()


def test_keys_typed_before_a_sheet_is_shown_approve_nothing_and_a_y_after_it_does(at: Session, folder: Path) -> None:
    at.until("you>")
    at.type("run echo x > .envrc\ry\ry\r")
    shown = at.until("approve?")
    assert "echo x > .envrc" in shown
    assert not (folder / ".envrc").exists()
    at.type("\r")
    at.until("Enter alone approves nothing")
    at.until("approve?")
    at.type("y\r")
    at.until("ran")
    at.until("you>")
    assert (folder / ".envrc").exists()
    at.type("half a line\x03")
    at.prompted()
    at.type("\x04")
    assert at.end() == 0


def test_ctrl_c_at_a_sheet_cancels_the_task_and_the_chat_goes_on(at: Session, folder: Path) -> None:
    at.until("you>")
    at.type("run echo x > .envrc\r")
    at.until("approve?")
    at.type("\x03")
    at.until("cancelled")
    at.until("you>")
    at.type("/quit\r")
    assert at.end() == 0
    assert not (folder / ".envrc").exists()


@pytest.mark.parametrize("typed", ["run echo x > .envrc", "run sleep 1000"])
async def test_ctrl_c_is_the_persons_word_in_the_log_and_the_session_goes_on(
    typed: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "b.txt").write_text("b\n")
    with closing(AtTerminal(folder, tmp_path, "chat", "--workspace", str(folder), program=[*FOREGATE])) as at:
        at.until("you>")
        at.type(f"{typed}\r")
        at.until("approve?" if "echo" in typed else "run_command sleep 1000")
        at.type("\x03")
        at.until("no change was completed")
        at.until(NEW_PROMPT)
        at.until("you>")
        at.type("read b.txt\r")
        at.until("read_file")
        at.until(NEW_PROMPT)
        at.until("you>")
        at.type("/quit\r")
        assert at.end() == 0
    with closing(Home(tmp_path / "fg").open_log()) as store:
        (name,) = await store.sessions()
        ends = bodies(await store.read(name), TaskEnded)
    assert [(one.status, one.note) for one in ends] == [("cancelled", "the person cancelled"), ("completed", "")]


def test_ctrl_c_ends_a_run_with_the_exit_code_of_a_cancelled_task(folder: Path, tmp_path: Path) -> None:
    command = "run", "--workspace", str(folder), "run sleep 1000"
    with closing(AtTerminal(folder, tmp_path, *command, program=[*FOREGATE])) as at:
        at.until("run_command sleep 1000")
        at.type("\x03")
        at.until("no change was completed")
        assert at.end() == 130


def test_several_lines_pasted_or_typed_with_alt_enter_are_one_message(at: Session, folder: Path) -> None:
    at.until("you>")
    at.type('\x1b[200~create one.txt with "1"\ncreate two.txt with "2"\x1b[201~')
    at.until("...>")
    assert not (folder / "one.txt").exists()
    at.type('\x1b\rcreate three.txt with "3"\r')
    at.until("I understood 3 things")
    at.until("you>")
    assert [(folder / f"{name}.txt").read_text() for name in ("one", "two", "three")] == ["1\n", "2\n", "3\n"]


def test_a_pasted_answer_of_several_lines_approves_nothing(at: Session, folder: Path) -> None:
    at.until("you>")
    at.type("run echo x > .envrc\r")
    at.until("approve?")
    at.type("\x1b[200~y\ny\x1b[201~\r")
    at.until("y, s, p, n or d")
    at.until("approve?")
    assert not (folder / ".envrc").exists()
    at.type("\x04")
    at.until("left open")


def test_escape_sequences_that_are_pasted_are_shown_and_not_obeyed(at: Session) -> None:
    at.until("you>")
    at.type("\x1b[200~\x1b]0;title\x07 zzz\x1b[201~")
    assert "\x1b]0;title" not in at.until("zzz")
    at.type("\r")
    assert "\x1b]0;title" not in at.until("\\u{1B}]0")


def test_tab_completes_the_call_a_command_takes_back_and_a_path(at: Session, folder: Path) -> None:
    at.until("you>")
    for name in ("one", "two"):
        at.type(f'create {name}.txt with "x"\r')
        at.until("Done")
        at.until("you>")
    at.type("/undo \t")
    at.until("write_file two.txt")
    at.until("write_file one.txt")
    at.type("\t\t\r")
    shown = at.until("undo this? (y)")
    assert "write_file one.txt (c" in shown
    assert "1 line removed" in shown
    at.type("y\r")
    at.until("you>")
    assert [(folder / f"{name}.txt").exists() for name in ("one", "two")] == [False, True]
    at.type("read b\t")
    at.until(".txt")
    at.type("\r")
    at.until("b.txt:")


def test_what_is_typed_while_something_works_appears_at_the_prompt_and_not_among_what_is_shown(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "fg").mkdir(mode=0o700)
    (tmp_path / "fg/policy.yaml").write_text("commands: {read_only: {sleep: {options: []}}}\n")  # it asks nowhere
    with closing(Session(folder, tmp_path)) as at:
        at.until("you>")
        at.type("run sleep 1\r")
        at.until("run_command sleep 1")
        at.type("ahead")
        assert "ahead" not in at.until("you>")
        at.until("ahead")


def test_messages_are_remembered_but_not_what_the_policy_calls_sensitive(at: Session, tmp_path: Path) -> None:
    for text in ("read b.txt", "read sk-abcdefghijklmnopqrstuvwxyz", "hello"):
        at.until("you>")
        at.type(f"{text}\r")
    at.until("you>")
    at.type("\x1b[A")
    at.until("hello")
    at.type("\x03")
    at.prompted()
    at.type("\x04")
    assert at.end() == 0
    kept = (tmp_path / "fg" / "history").read_text()
    assert ("+read b.txt" in kept, "+hello" in kept, "sk-abc" in kept) == (True, True, False)
