"""What a program changed in its sandbox, as it is given to the gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.workspace.confinement import find_folder, make_upper
from foregate.agent.workspace.process import run_and_wait
from foregate.agent.workspace.work_sandbox import (
    collect_changes,
    discard_sandbox,
    find_work_tier,
    open_work_sandbox,
)
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy


def work(workspace: Workspace, policy: Policy, line: str, *, installs: bool) -> dict[str, str]:
    """Return the paths a line of the shell changed, each with what is there now."""
    plan = open_work_sandbox(workspace, policy, make_upper(find_folder(workspace)))
    environment = {"PATH": "/usr/bin:/bin", "HOME": plan["home"]}
    ran = run_and_wait(["sh", "-ec", line], workspace, ".", environment, 20, 1000, True, plan)
    assert ran.code == 0, ran.out.text()
    found = collect_changes(workspace, policy, plan, installs)
    discard_sandbox(found)
    return {change.path: change.after.kind for change in found.changes}


def test_what_one_command_left_in_an_environment_comes_with_what_another_installs_there(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    if find_work_tier(workspace, policy)["tier"] != "full":
        pytest.skip("this machine has no sandbox that keeps anything")
    (folder / "a.txt").write_text("one\n")
    first = "mkdir -p .venv/bin; echo a > .venv/a; echo x > .venv/x"
    assert work(workspace, policy, first, installs=False) == {}
    second = "cat .venv/a > .venv/b; rm .venv/x; echo two > a.txt"
    assert work(workspace, policy, second, installs=True) == {
        ".venv": "directory",
        ".venv/a": "file",
        ".venv/b": "file",
        ".venv/bin": "directory",
        "a.txt": "file",
    }
