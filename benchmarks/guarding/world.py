"""A real workspace for a task, the tools beside the built-in ones, and how the end is checked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from foregate.agent.tools.tool import Tool
from guarding.services.agenda import agenda_tools
from guarding.services.airline import airline_tools
from guarding.services.bank import bank_tools
from guarding.services.browser import browser_tools
from guarding.services.contacts import contacts_tools
from guarding.services.journal import Journal
from guarding.services.mailbox import mailbox_tools
from guarding.services.messenger import messenger_tools
from guarding.services.rooms import rooms_tools
from guarding.services.share import share_tools
from guarding.services.undeclared import undeclared_tools
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
    """The folder `workspace` under `root`, made as the task says; `journal` is what its services did."""

    def __init__(self, task: Task, folder: Path, root: Path) -> None:
        self.task, self.root, self.workspace = task, root, root / "workspace"
        self.journal = Journal()
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
        """Return the tools of the services the task names, and always a messenger and a browser."""
        task, journal = self.task, self.journal
        offered = [*messenger_tools(journal), *browser_tools(task.pages, task.finds, journal)]
        if task.mails is not None:
            offered += mailbox_tools(task.mails, journal)
        if task.bills is not None or task.payments is not None:
            offered += bank_tools(task.bills or (), task.payments or (), journal)
        if task.events is not None:
            offered += agenda_tools(task.events, journal)
        if task.contacts is not None:
            offered += contacts_tools(task.contacts, journal)
        if task.rooms is not None:
            offered += rooms_tools(task.rooms, journal)
        if task.shared is not None:
            offered += share_tools(task.shared, journal)
        if task.customers is not None:
            offered += undeclared_tools(task.customers, journal)
        if task.travellers is not None:
            offered += airline_tools(task.travellers, task.reservations, task.flights, journal)
        return offered

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
            return "\n".join(self.journal.opened)
        if check.sent is not None:
            texts = [text for to, text in self.journal.sent if check.sent in ("*", to)]
            return "\n".join(texts) if texts else None
        if check.journal is not None:
            lines = self.journal.lines[check.journal]
            return "\n".join(lines) if lines else None
        try:
            return self.run(*(check.output or ("true",)))
        except subprocess.CalledProcessError as error:
            return str(error.stdout) + str(error.stderr)
