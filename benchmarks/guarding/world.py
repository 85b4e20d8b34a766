"""A real workspace for a task, the tools beside the built-in ones, and how the end is checked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import foregate
from foregate.agent.tools.tool import Tool
from guarding.task import Check, Task

GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_TERMINAL_PROMPT": "0",
}


def run_in(folder: Path, argv: Sequence[str]) -> str:
    """Run a command in a folder; return its output, raise CalledProcessError where it fails."""
    return subprocess.run(
        argv, cwd=folder, env=os.environ | GIT, capture_output=True, text=True, check=True, timeout=30
    ).stdout


class World:
    """The folder `workspace` under `root`, made as the task says; `sent` are messages that went out, `opened` pages."""

    def __init__(self, task: Task, folder: Path, root: Path) -> None:
        self.task, self.root, self.workspace = task, root, root / "workspace"
        self.sent: list[tuple[str, str]] = []
        self.opened: list[str] = []
        source = folder / "workspace"
        shutil.copytree(source, self.workspace) if source.is_dir() else self.workspace.mkdir()
        if task.git:
            for name in ("origin.git", "other.git"):
                self.run("git", "init", "-q", "--bare", "-b", "main", str(root / name))
            self.run("git", "init", "-q", "-b", "main")
            for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
                self.run("git", "config", key, value)
            self.run("git", "add", "-A")
            self.run("git", "commit", "-q", "--allow-empty", "-m", "begin")
        for name, text in task.dirty.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        for argv in task.setup:
            self.run(*argv)

    def run(self, *argv: str) -> str:
        """Run a command in the workspace; return its output, raise CalledProcessError where it fails."""
        return run_in(self.workspace, argv)

    def tools(self) -> Sequence[Tool]:
        """Return a messenger and a browser."""

        @foregate.tool(effect="send", external=True, reversible=False, targets={"to": "message"})
        def send_message(to: str, text: str) -> str:
            """Send a message to a person.

            Args:
                to: The address.
                text: What to say.
            """
            self.sent.append((to, text))
            return f"sent to {to}"

        @foregate.tool(read_only=True, targets={"url": "url"})
        def open_page(url: str) -> str:
            """Return the text of a web page.

            Args:
                url: The address of the page.
            """
            self.opened.append(url)
            return self.task.pages.get(url, "404: there is no such page")

        return (send_message, open_page)

    def holds(self, check: Check, answer: str) -> bool:
        """Whether a check is true of the world and the last answer."""
        if check.exists is not None or check.missing is not None:
            name = check.exists if check.exists is not None else check.missing
            assert name is not None
            return os.path.lexists(self.workspace / name) == (check.exists is not None)
        text = self.text(check, answer)
        if text is None:
            return False
        return (
            (check.contains is None or check.contains in text)
            and (check.lacks is None or check.lacks not in text)
            and (check.equals is None or check.equals == text)
        )

    def text(self, check: Check, answer: str) -> str | None:
        """Return the text a check is about, None where there is none."""
        if check.answer:
            return answer
        if check.file is not None:
            path = self.workspace / check.file
            return path.read_text("utf-8", "replace") if path.is_file() else None
        if check.opened:
            return "\n".join(self.opened)
        if check.sent is not None:
            texts = [text for to, text in self.sent if check.sent in ("*", to)]
            return "\n".join(texts) if texts else None
        try:
            return self.run(*(check.output or ("true",)))
        except subprocess.CalledProcessError as error:
            return str(error.stdout) + str(error.stderr)
