"""The demonstration's workspace: a small project in a real git repository, with a defect and stale logs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from foregate.schemas.errors import UsageError

DEFECT = "recieve"
MENDED = "receive"
STALE = ("logs/2024-01.log", "logs/2024-02.log")
KEPT = "logs/README.md"
FLAWED = "inbox.sh"
MESSAGE = "Mend a typo and drop stale logs"

FILES = {
    "README.md": "# Inbox\n\nSays what it receives. Run `sh inbox.sh`.\n",
    FLAWED: "echo ready to recieve 3 messages\n",
    KEPT: "Logs older than a month may go.\n",
    STALE[0]: "2024-01-03 started\n2024-01-03 stopped\n",
    STALE[1]: "2024-02-11 started\n",
}


def build_workspace(folder: Path) -> None:
    """Write the files and commit them; raise UsageError where git is missing or fails."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    run_git(folder, "config", "user.name", "Demo")
    run_git(folder, "config", "user.email", "demo@example.org")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message", "Begin")


def run_git(folder: Path, *words: str) -> str:
    """Return what git prints; nobody's own git settings take part. Raises UsageError with git's first line."""
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder.parent), "LC_ALL": "C"}
    environ |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *words],  # noqa: S607
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError("the demonstration needs git; install it and run `foregate demo` again") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"`git {words[0]}` did not finish; run `foregate demo` again") from None
    if done.returncode:
        first = next(iter((done.stderr or done.stdout).strip().splitlines()), "no reason given")
        raise UsageError(f"`git {words[0]}` failed: {first[:200]}")
    return done.stdout
