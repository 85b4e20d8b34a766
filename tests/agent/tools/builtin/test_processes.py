"""Listing processes: real ones, found by what they are; those that work elsewhere keep their arguments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foregate.agent.tools.processes import RunningProcess, list_processes
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.tool_call import EvidenceKind, Origin

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
WAIT = "import sys; print(1, flush=True); sys.stdin.read()"


@contextmanager
def waiting(folder: Path, *words: str) -> Iterator[int]:
    """A process that works in a folder until its input closes."""
    command = [sys.executable, "-c", WAIT, *words]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


async def test_a_process_of_the_workspace_is_listed_with_its_command(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    with waiting(folder, "MARK-ed\nline\u202e") as pid:
        found = await list_processes(workspace, policy).run({"filter": "mark-ED"})
    header, line = found.content.splitlines()
    assert header == "pid  parent  state  command"
    assert line.startswith(f"{pid}  ")
    assert found.origin is Origin.EXTERNAL
    assert [record.kind for record in found.evidence] == [EvidenceKind.PROCESS_STATE]


async def test_a_process_elsewhere_is_listed_without_its_arguments(
    folder: Path, workspace: Workspace, policy: Policy, tmp_path: Path
) -> None:
    with waiting(tmp_path, "--password=MARK") as pid:
        tool = list_processes(workspace, policy)
        assert (await tool.run({"filter": "MARK"})).content == "no such process"
        assert f"\n{pid}  " in (await tool.run({})).content


def test_of_foregate_and_of_what_started_it_no_arguments_are_shown_wherever_they_work(folder: Path) -> None:
    look = (
        "from foregate.agent.tools.processes import list_running\n"
        "from foregate.agent.workspace.local import LocalWorkspace\n"
        "for process in list_running(LocalWorkspace('.')): print(process.pid, process.display_line)\n"
    )
    words = [sys.executable, "-XKEY=MARK", "-I", "-c", look]
    outer = f"import subprocess; subprocess.run({words}, check=True)"
    with waiting(folder, "MARK of another") as pid:
        ran = subprocess.run(
            [sys.executable, "-XKEY=MARK", "-I", "-c", outer], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        )
    shown = [line for line in ran.stdout.splitlines() if "MARK" in line]
    assert [line.split()[0] for line in shown] == [str(pid)]


async def test_a_limit_says_that_there_is_more(folder: Path, workspace: Workspace, policy: Policy) -> None:
    with waiting(folder, "MARK"), waiting(folder, "MARK"):
        found = await list_processes(workspace, policy).run({"filter": "MARK", "limit": 1})
    assert found.content.splitlines()[-1] == "there is more: only 1 of 2 processes are listed; use a filter"


def test_a_long_or_broken_command_is_one_short_line() -> None:
    shown = RunningProcess(1, 0, "S", "x", ("a\nb", "c" * 500, "\udcff")).display_line
    assert "\n" not in shown
    assert len(shown) == 203
