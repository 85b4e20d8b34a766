"""A tool of one's own starts programs confined as its session is, and they end with the call."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import Step, calls, says
from foregate.agent.tools.python_tool import tool
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.agent.workspace.confined_program import allow_programs, run_confined
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.workspace import MemoryWorkspace, Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import UsageError, WorkspaceError
from foregate.schemas.event_body import ToolFinished
from tests.conftest import OpenSession
from tests.events import bodies
from tests.forever import FOREVER
from tests.policies import EVERYTHING_OFF, policy_with

LOOSE = policy_with(EVERYTHING_OFF)
Call = Callable[..., Any]


@pytest.fixture
def full(workspace: Workspace) -> None:
    """Skip where this machine has no sandboxes."""
    probe = find_tier(workspace, default_policy())
    if probe["tier"] != "full":
        pytest.skip(f"no sandbox here: {probe['reason']}; {probe['cure']}")


async def call_in_session(open_session: OpenSession, function: Call, *more: Step) -> ToolFinished:
    """Have a session call a function of no arguments as a tool; return how the call ended."""
    made = tool(name="try_it", description="Try it.", read_only=True, external=False)(function)
    session = await open_session(calls(("try_it", {})), *more, tools=[made], policy=LOOSE)
    await run(session, "try it")
    (ended,) = bodies(await session.log.read(), ToolFinished)
    return ended


@pytest.mark.usefixtures("full")
async def test_what_a_tool_starts_reads_the_workspace_and_reaches_nothing_else(
    open_session: OpenSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREGATE_TEST_CANARY", "canary")
    (folder / "a.txt").write_text("words\n")
    (folder / ".env").write_text("secret\n")
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.setblocking(False)
        line = (
            "cat a.txt; cat .env; echo x > new; echo x > ../new; env; echo $HOME/*; "
            f"bash -c 'echo x > /dev/tcp/127.0.0.1/{listener.getsockname()[1]}'; exit 3"
        )
        found: list[CompletedProcess[str]] = []
        ended = await call_in_session(
            open_session, lambda: found.append(run_confined(["sh", "-c", line])), says("done")
        )
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert ended.ok, ended.content
    (ran,) = found
    assert ran.returncode == 3
    assert ran.stdout.startswith("words\n")
    assert "secret" not in ran.stdout + ran.stderr
    assert "canary" not in ran.stdout
    assert ran.stdout.endswith("/*\n"), "HOME is empty"
    assert "Read-only file system" in ran.stderr
    assert sorted(os.listdir(folder)) == [".env", "a.txt"]
    assert not (folder.parent / "new").exists()


@pytest.mark.usefixtures("full")
async def test_with_write_it_changes_the_workspace_and_no_protected_file(
    open_session: OpenSession, folder: Path
) -> None:
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("mine\n")

    async def change() -> str:
        line = "echo x > new; echo x > .git/config; mv .git .x"
        return (await asyncio.to_thread(run_confined, ["sh", "-c", line], write=True)).stderr

    ended = await call_in_session(open_session, change, says("done"))
    assert ended.content.count("Read-only file system") == 1
    assert "mv: " in ended.content
    assert (folder / "new").read_text() == "x\n"
    assert (folder / ".git/config").read_text() == "mine\n"


@pytest.mark.usefixtures("full")
async def test_with_write_no_folder_around_a_protected_file_is_moved_aside_for_another(
    open_session: OpenSession, folder: Path
) -> None:
    (folder / "a/b/.git/hooks").mkdir(parents=True)
    (folder / ".github/workflows").mkdir(parents=True)
    (folder / ".github/workflows/ci.yml").write_text("mine\n")
    line = (
        "mv .github old; mkdir -p .github/workflows; echo x > .github/workflows/ci.yml; mv a old; mv a/b a/c; "
        "mkdir -p a/b/.git/hooks; echo x > a/b/.git/hooks/pre-commit; echo x > a/b/new; mv a/b/new new"
    )

    async def change() -> str:
        return (await asyncio.to_thread(run_confined, ["sh", "-c", line], write=True)).stderr

    ended = await call_in_session(open_session, change, says("done"))
    assert ended.content.count("Device or resource busy") == 3
    assert sorted(os.listdir(folder)) + os.listdir(folder / "a") == [".github", "a", "new", "b"]
    assert (folder / ".github/workflows/ci.yml").read_text() == "mine\n"
    assert os.listdir(folder / "a/b/.git/hooks") == []
    assert (folder / "new").read_text() == "x\n"


@pytest.mark.usefixtures("full")
async def test_a_program_that_takes_too_long_or_is_not_there_is_a_failure_that_names_it(
    open_session: OpenSession, workspace: Workspace
) -> None:
    with pytest.raises(TimeoutExpired, match="'sleep', '600'") as caught, allow_programs(workspace, LOOSE):
        run_confined(["sleep", "600"], timeout=0.1)
    assert caught.value.timeout == 0.1
    ended = await call_in_session(open_session, lambda: run_confined(["no-such-program"]), says("done"))
    assert (ended.error, "`no-such-program` was not found" in ended.content) == ("WorkspaceError", True)
    ended = await call_in_session(open_session, lambda: run_confined(["ls"], cwd="none"), says("done"))
    assert "cannot run a program in `none`" in ended.content


@pytest.mark.usefixtures("full")
async def test_what_a_call_started_ends_when_the_call_is_cancelled_and_nothing_starts_after_it(
    open_session: OpenSession, folder: Path
) -> None:
    said: list[str] = []
    finished = threading.Event()

    def start() -> None:
        for words in (["sh", "-c", "echo x > started; exec sleep 600"], ["touch", "later"]):
            try:
                run_confined(words, write=True, timeout=FOREVER)
            except WorkspaceError as error:
                said.append(str(error))
        finished.set()

    running = asyncio.create_task(call_in_session(open_session, start))
    async with asyncio.timeout(FOREVER):
        while not (folder / "started").exists():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)
    stop_task(running)
    assert (await running).error == "cancelled"
    assert await asyncio.to_thread(finished.wait, 30)
    assert said == [
        "`sh` was ended, as the call is over that wanted it",
        "`touch` was not started, as the call is over that wanted it",
    ]
    assert not (folder / "later").exists()


def test_without_a_session_or_a_sandbox_nothing_is_started_and_a_sentence_says_why() -> None:
    with pytest.raises(UsageError, match="in a tool that a session runs"):
        run_confined(["ls"])
    with allow_programs(MemoryWorkspace({}), default_policy()):
        with pytest.raises(WorkspaceError, match="`ls` was not started, as nothing confines it here"):
            run_confined(["ls"])
        with pytest.raises(UsageError, match="a list of words"):
            run_confined("ls -l")
