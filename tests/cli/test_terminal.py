"""The chat at a real pseudo-terminal, in a process of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.cli.terminal import private

FOREVER = 20


class Session:
    """A chat at a pseudo-terminal of 80 columns."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.master, slave = pty.openpty()
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "FOREGATE_HOME": str(home / "fg"), "TERM": "xterm"}
        environ |= {"COLUMNS": "80", "LINES": "40", "PROMPT_TOOLKIT_NO_CPR": "1"}
        command = [sys.executable, "-m", "foregate", "chat", "--workspace", str(folder)]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environ, close_fds=True)
        os.close(slave)
        self.seen = ""

    def until(self, text: str) -> str:
        """Read until `text` is shown; return what was shown since the last time."""
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], FOREVER)
            assert ready, f"{text!r} was never shown, but {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def end(self) -> int:
        """Wait for the end, reading what is still shown."""
        try:
            while os.read(self.master, 65536):
                pass
        except OSError:
            pass
        return self.process.wait(FOREVER)

    def close(self) -> None:
        """Leave nothing behind, whatever the test has come to."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def at(folder: Path, tmp_path: Path) -> Iterator[Session]:
    """A chat over a workspace with one file."""
    (folder / "b.txt").write_text("b\n")
    session = Session(folder, tmp_path)
    yield session
    session.close()


def test_keys_typed_before_a_sheet_is_shown_approve_nothing_and_a_y_after_it_does(at: Session, folder: Path) -> None:
    at.until("you>")
    at.type("run rm b.txt\ry\ry\r")
    shown = at.until("approve?")
    assert "CANNOT be undone" in shown
    assert (folder / "b.txt").exists()
    at.type("\r")
    at.until("Enter alone approves nothing")
    at.until("approve?")
    at.type("y\r")
    at.until("ran")
    at.until("you>")
    assert not (folder / "b.txt").exists()
    at.type("half a line\x03")
    at.until("you>")
    at.type("\x04")
    assert at.end() == 0


def test_ctrl_c_at_a_sheet_cancels_the_task_and_the_chat_goes_on(at: Session, folder: Path) -> None:
    at.until("you>")
    at.type("run rm b.txt\r")
    at.until("approve?")
    at.type("\x03")
    at.until("cancelled")
    at.until("you>")
    at.type("/quit\r")
    assert at.end() == 0
    assert (folder / "b.txt").exists()


def test_what_was_typed_is_kept_for_its_owner_only_or_not_at_all(tmp_path: Path) -> None:
    wide, link = tmp_path / "history", tmp_path / "link"
    wide.touch(mode=0o666)
    wide.chmod(0o644)
    link.symlink_to(wide)
    assert private(wide)
    assert wide.stat().st_mode & 0o777 == 0o600
    assert not private(link)
    assert not private(tmp_path)
