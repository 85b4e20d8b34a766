"""Several processes of the command line in one home, at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forever import FOREVER

COMMAND = [sys.executable, "-Im", "foregate"]


class Chat:
    """A `foregate chat` in a process of its own, with lines for its person."""

    def __init__(self, folder: Path, environ: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "chat", *arguments],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def say(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def until(self, words: str) -> str:
        """Return what is shown up to the line with `words`; fails when the chat ends before."""
        assert self.process.stdout is not None
        shown = ""
        for line in self.process.stdout:
            shown += line
            if words in line:
                return shown
        raise AssertionError(f"`{words}` was never shown:\n{shown}")

    def leave(self) -> int:
        """End the chat and return its exit code."""
        self.process.communicate("/quit\n", timeout=FOREVER)
        return self.process.returncode


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own and no endpoint."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "FOREGATE_"))}
    return kept | {"FOREGATE_HOME": str(tmp_path / "home")}


@pytest.fixture
def two(tmp_path: Path, environ: dict[str, str]) -> Iterator[tuple[Chat, Chat]]:
    """Two chats open at once, each in a workspace of its own."""
    chats = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"teh {name}\n")
        chats.append(Chat(tmp_path / name, environ))
    yield chats[0], chats[1]
    for chat in chats:
        chat.process.kill()
        chat.process.communicate()


def foregate(environ: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FOREVER,
        check=False,
    )


def test_two_chats_in_one_home_both_work_and_a_second_process_on_a_session_is_told_who_holds_it(
    two: tuple[Chat, Chat], environ: dict[str, str], tmp_path: Path
) -> None:
    names = [chat.until("session").split()[-1] for chat in two]
    assert names[0] != names[1]
    for chat in two:
        chat.say("in a.txt replace teh with the")
    for chat in two:
        chat.until("ran     edit_file a.txt")
    assert [(tmp_path / name / "a.txt").read_text() for name in ("one", "two")] == ["the one\n", "the two\n"]
    for command in (("resume", names[0]), ("undo", names[0]), ("chat", "--resume", names[0])):
        second = foregate(environ, tmp_path, *command)
        assert (second.returncode, second.stdout) == (9, "")
        assert second.stderr.startswith(f"foregate: session `{names[0]}` is open in process {two[0].process.pid}")
        assert len(second.stderr.splitlines()) == 1
    assert [chat.leave() for chat in two] == [0, 0]
    for name in names:
        verified = foregate(environ, tmp_path, "audit", "verify", name)
        assert (verified.returncode, verified.stdout.startswith("verified: ")) == (0, True)
    assert foregate(environ, tmp_path, "undo", names[0]).returncode == 0
    assert (tmp_path / "one" / "a.txt").read_text() == "teh one\n"


def test_a_session_whose_chat_was_killed_is_free_for_the_next_process(
    two: tuple[Chat, Chat], environ: dict[str, str], tmp_path: Path
) -> None:
    name = two[0].until("session").split()[-1]
    two[0].say("in a.txt replace teh with the")
    two[0].until("ran     edit_file a.txt")
    two[0].process.kill()
    two[0].process.wait()
    assert foregate(environ, tmp_path, "audit", "verify", name).returncode == 0
    again = Chat(tmp_path, environ, "--resume", name)
    again.until(f"resumed {name}")
    assert again.leave() == 0
