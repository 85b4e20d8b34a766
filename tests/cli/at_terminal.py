"""A command at a real pseudo-terminal of 80 columns, in a process of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.forever import FOREVER

FOREGATE = (sys.executable, "-Im", "foregate")


class AtTerminal:
    """A `foregate` command, or the `program` named, whose person sits at a pseudo-terminal, with its own home."""

    def __init__(
        self, folder: Path, home: Path, *arguments: str, program: Sequence[str] = FOREGATE, path: str = ""
    ) -> None:
        self.master, slave = pty.openpty()
        environ = {
            "PATH": path + os.environ["PATH"],
            "HOME": str(home),
            "FOREGATE_HOME": str(home / "fg"),
            "TERM": "xterm",
        }
        environ |= {"COLUMNS": "80", "LINES": "40", "PROMPT_TOOLKIT_NO_CPR": "1"}
        command = [*program, *arguments]
        begin = partial(os.login_tty, slave) if program is not FOREGATE else None  # a shell wants one of its own
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=environ, preexec_fn=begin
        )
        os.close(slave)
        self.seen = ""

    def until(self, text: str) -> str:
        """Read until `text` is shown; return what was shown since the last time."""
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], FOREVER)
            more = self._read() if ready else ""
            assert more, f"{text!r} was never shown, but {self.seen!r}"
            self.seen += more
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def answer(self, question: str, text: str) -> str:
        """Wait for a question and type the answer to it; return what was shown before."""
        shown = self.until(question)
        self.type(f"{text}\r")
        return shown

    def end(self) -> int:
        """Wait for the end, reading what is still shown, and return the exit code."""
        while select.select([self.master], [], [], FOREVER)[0] and (more := self._read()):
            self.seen += more
        return self.process.wait(FOREVER)

    def _read(self) -> str:
        try:
            return os.read(self.master, 65536).decode(errors="replace")
        except OSError:
            return ""  # the process has ended

    def close(self) -> None:
        """Kill what is left of the process."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)
