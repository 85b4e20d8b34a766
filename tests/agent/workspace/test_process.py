"""Processes: bounded output, a certain end, a small environment."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools.commands import run_command, run_shell
from foregate.agent.workspace.process import HeadTail, build_environment, run_program
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.tool_call import EvidenceKind, ToolResult, Trust
from tests.forever import FOREVER
from tests.policies import policy_with
from tests.processes import is_running


async def run(workspace: Workspace, policy: Policy, *argv: str, **more: object) -> ToolResult:
    return await run_command(workspace, policy).run({"argv": list(argv), **more})


async def shell(workspace: Workspace, policy: Policy, line: str) -> ToolResult:
    return await run_shell(workspace, policy).run({"command": line})


async def test_words_are_not_read_by_a_shell(workspace: Workspace, policy: Policy) -> None:
    result = await run(workspace, policy, "echo", "$(id)", ";", "`ls`", "*")
    assert result.content == "$(id) ; `ls` *\n"


async def test_a_flood_of_output_is_capped_and_stopped_in_time(workspace: Workspace, policy: Policy) -> None:
    policy = policy_with({"commands.timeout": 1, "files.max_output": 1000})
    result = await run(workspace, policy, "yes")
    assert (result.ok, result.error, result.unknown) == (False, "timeout", True)
    assert len(result.content) < 1200
    assert result.dropped > 10_000
    assert f"{result.dropped} bytes left out" in result.content


async def test_what_a_command_started_does_not_outlive_it(folder: Path, workspace: Workspace, policy: Policy) -> None:
    result = await shell(workspace, policy, ": > made; sleep 1000 & echo $!")
    assert result.ok
    assert not is_running(int(result.content))


async def test_a_cancelled_command_is_killed_with_its_children(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    os.mkfifo(folder / "ready")
    task = asyncio.create_task(shell(workspace, policy, "sleep 1000 & echo $$ $! > ready; wait"))
    words = await asyncio.to_thread((folder / "ready").read_text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [is_running(int(word)) for word in words.split()] == [False, False]


async def test_a_command_sees_only_listed_variables_and_an_empty_home(
    workspace: Workspace, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "canary")
    script = "import os; print(sorted(os.environ), os.listdir(os.environ['HOME']))"
    result = await run(workspace, policy, sys.executable, "-c", script)
    assert "API_TOKEN" not in result.content
    assert "'HOME'" in result.content
    assert result.content.endswith("[]\n")


async def test_a_command_inherits_no_descriptors_and_no_input(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    file = os.open(folder / "open", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(file, True)
    script = "import os, sys; print(len(os.listdir('/proc/self/fd')), repr(sys.stdin.read()))"
    result = await run(workspace, policy, sys.executable, "-c", script)
    os.close(file)
    assert result.content == "4 ''\n"


async def test_a_program_of_the_workspace_cannot_pose_as_one_that_only_looks(
    folder: Path, workspace: Workspace, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "bin").mkdir()
    for name in ("ls", "mine"):
        (folder / "bin" / name).write_text("#!/bin/sh\necho posing\n")
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:.:{os.environ['PATH']}")
    assert "posing" not in (await run(workspace, policy, "ls")).content
    assert "posing" in (await run(workspace, policy, "mine")).content
    assert "." not in build_environment(policy, workspace, "/", trusted_only=False)["PATH"].split(":")


async def test_cat_is_evidence_of_the_whole_content_and_ls_is_not(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    (folder / "a.txt").write_text("hello")
    record = (await run(workspace, policy, "cat", "a.txt")).evidence[0]
    assert (record.kind, record.hash) == (EvidenceKind.FILE_READ, workspace.look("a.txt", max_hash=9).hash)
    record = (await run(workspace, policy, "ls", "a.txt")).evidence[0]
    assert (record.kind, record.hash, record.trust) == (EvidenceKind.COMMAND_OUTPUT, "", Trust.INFERRED)


async def test_a_failed_or_cut_cat_is_no_evidence(folder: Path, workspace: Workspace, policy: Policy) -> None:
    (folder / "a.txt").write_text("hello" * 100)
    assert (await run(workspace, policy, "cat", "a.txt", "missing")).evidence == ()
    small = policy_with({"files.max_output": 20})
    assert (await run(workspace, small, "cat", "a.txt")).evidence == ()


@pytest.mark.parametrize(
    "words", [["cat", "/etc/passwd"], ["cat", "../x"], ["ls", "link"], ["cat", "--", "/etc/passwd"]]
)
async def test_a_look_at_something_outside_is_refused(
    folder: Path, workspace: Workspace, policy: Policy, words: list[str]
) -> None:
    (folder / "link").symlink_to("/etc")
    with pytest.raises(WorkspaceError, match="outside"):
        await run(workspace, policy, *words)


@pytest.mark.parametrize("cwd", ["..", "/", "link", "file", "missing"])
async def test_a_command_runs_only_in_folders_of_the_workspace(
    folder: Path, workspace: Workspace, policy: Policy, cwd: str
) -> None:
    (folder / "link").symlink_to("/")
    (folder / "file").write_text("")
    with pytest.raises(WorkspaceError):
        await run(workspace, policy, "pwd", cwd=cwd)
    (folder / "inside").mkdir()
    assert (await run(workspace, policy, "pwd", cwd="inside")).content.strip() == str(folder / "inside")


async def test_a_missing_program_a_bad_exit_and_a_signal_are_said(workspace: Workspace, policy: Policy) -> None:
    with pytest.raises(WorkspaceError, match="was not found"):
        await run(workspace, policy, "no-such-program")
    result = await shell(workspace, policy, "echo no >&2; exit 3")
    assert (result.ok, result.exit_code, result.content) == (False, 3, "no\n\nexit code 3")
    assert "ended by signal 9" in (await shell(workspace, policy, "kill -9 $$")).content


async def test_a_command_that_closes_its_output_is_still_waited_for(workspace: Workspace, policy: Policy) -> None:
    ran = await run_program(
        ["/bin/sh", "-c", "exec >&- 2>&-; exit 4"], workspace, cwd=".", environment={}, timeout=FOREVER, cap=10
    )
    assert ran.code == 4


@given(st.lists(st.binary(max_size=50)), st.integers(2, 40))
def test_a_stream_is_kept_the_same_however_it_is_cut_into_pieces(pieces: list[bytes], cap: int) -> None:
    one, many = HeadTail(cap), HeadTail(cap)
    one.feed(b"".join(pieces))
    for piece in pieces:
        many.feed(piece)
    assert one.parts() == many.parts()
