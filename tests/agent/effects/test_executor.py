"""The executor: one permit, one run, on what was judged, with a way back where one was promised."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from foregate.agent.loop.executor import STOPPED, NoPermit, execute
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.session.session import Session
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.event import Event
from foregate.schemas.event_body import CallAnswered, ToolFinished, ToolStarted
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolResult
from tests.conftest import OpenSession
from tests.events import B, bodies
from tests.policies import EVERYTHING_OFF, policy_with

POLICY = policy_with(EVERYTHING_OFF)


def more_tools(workspace: Workspace, policy: object = POLICY) -> list[Tool]:
    return [tool for tool in builtin_tools(workspace, POLICY) if tool.spec.name not in ("read_file", "edit_file")]


async def told(session: Session, kind: type[B]) -> list[B]:
    return bodies(await session.log.read(), kind)


def spying(tool: Tool, before: object) -> Tool:
    """Return the tool with something done in the moment between its judgement and its run."""

    async def run_late(arguments: Mapping[str, Json]) -> ToolResult:
        before()  # type: ignore[operator]
        return await tool.run(arguments)

    return dataclasses.replace(tool, run=run_late)


async def test_a_permit_is_for_one_call_and_one_run(
    folder: Path, workspace: Workspace, open_session: OpenSession
) -> None:
    (folder / "a.txt").write_text("x")
    session = await open_session(calls(("read_file", {"path": "a.txt"})), says("done"), policy=POLICY)
    seen = []
    session.subscribe(
        lambda event: seen.append(session.turns.compute_open_facts()) if event.kind == "turn_judged" else None
    )
    await run(session, "go")
    (started,) = await told(session, ToolStarted)
    facts, permit = next(iter(seen[0].values())), started.permit
    for wrong in (permit, replace(permit, judged=1), replace(permit, digest="0" * 64)):
        with pytest.raises(NoPermit):
            await execute(session, wrong, facts)
    assert len(await told(session, ToolStarted)) == 1


async def test_a_link_swapped_in_after_judging_reaches_nothing_else(
    folder: Path, workspace: Workspace, open_session: OpenSession
) -> None:
    (folder / "other.txt").write_text("other")
    (folder / "real.txt").write_text("real")
    (folder / "link").symlink_to("real.txt")

    def swap() -> None:
        (folder / "link").unlink()
        (folder / "link").symlink_to("other.txt")

    tools = [spying(tool, swap) if tool.spec.name == "write_file" else tool for tool in more_tools(workspace)]
    write = ("write_file", {"path": "link", "content": "new"})
    session = await open_session(calls(write), says("done"), policy=POLICY, tools=tools)
    await run(session, "go")
    assert (folder / "other.txt").read_text() == "other"
    assert "leads elsewhere" in (await told(session, ToolFinished))[0].content


async def test_a_file_written_between_judging_and_writing_is_not_lost(
    folder: Path, workspace: Workspace, open_session: OpenSession
) -> None:
    (folder / "a.txt").write_text("seen")
    tools = [
        spying(tool, lambda: (folder / "a.txt").write_text("precious")) if tool.spec.name == "write_file" else tool
        for tool in more_tools(workspace)
    ]
    session = await open_session(
        calls(("write_file", {"path": "a.txt", "content": "new"})), says("done"), policy=POLICY, tools=tools
    )
    await run(session, "go")
    assert (folder / "a.txt").read_text() == "precious"


async def test_the_before_image_is_stored_before_the_tool_runs(
    folder: Path, workspace: Workspace, open_session: OpenSession
) -> None:
    (folder / "a.txt").write_text("old")
    session = await open_session(
        calls(("write_file", {"path": "a.txt", "content": "new"})),
        says("done"),
        policy=POLICY,
        tools=more_tools(workspace),
    )
    stored = []

    def look(event: Event) -> None:
        if isinstance(event.body, ToolStarted):
            image = event.body.before[0].image
            stored.append((session.blobs.get(image), (folder / "a.txt").read_text()))

    session.subscribe(look)
    await run(session, "go")
    assert stored == [(b"old", "old")]


async def test_what_was_judged_reversible_does_not_run_without_a_copy(
    folder: Path, workspace: Workspace, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that cannot be kept when the call starts refuses the call; nothing is recorded as started."""
    from foregate.schemas.errors import WorkspaceError

    (folder / "a.txt").write_text("x")
    session = await open_session(
        calls(("delete_path", {"path": "a.txt"})), says("done"), policy=POLICY, tools=more_tools(workspace)
    )

    def refuse(path: str, **more: object) -> bytes:
        raise WorkspaceError("the copy could not be made")

    monkeypatch.setattr(workspace, "read", refuse)
    await run(session, "go")
    assert (folder / "a.txt").exists()
    assert await told(session, ToolStarted) == []
    answer = (await told(session, CallAnswered))[0]
    assert answer.code == "tool_failed"
    assert "could not be made" in answer.message


async def test_no_tool_returns_more_text_than_one_call_may(workspace: Workspace, open_session: OpenSession) -> None:
    async def flood(arguments: Mapping[str, Json]) -> ToolResult:
        return ToolResult(True, "ü" * 5_000_000)

    listed = next(tool for tool in more_tools(workspace) if tool.spec.name == "list_files")
    session = await open_session(
        calls(("list_files", {})), says("done"), policy=POLICY, tools=[dataclasses.replace(listed, run=flood)]
    )
    await run(session, "go")
    body = (await told(session, ToolFinished))[0]
    assert len(body.content) < 300_000
    assert body.dropped > 9_000_000


@pytest.mark.usefixtures("no_sandboxes")
async def test_a_cancelled_command_leaves_no_process_and_an_answered_call(
    folder: Path, workspace: Workspace, open_session: OpenSession
) -> None:
    os.mkfifo(folder / "ready")
    command = ("run_shell", {"command": "echo $$ > ready; sleep 1000"})
    tools = [tool for tool in builtin_tools(workspace, POLICY) if tool.spec.name == "run_shell"]
    session = await open_session(calls(command), policy=POLICY, tools=tools, person=ScriptedPerson(["yes"]))
    task = asyncio.create_task(run(session, "go"))
    pid = int(await asyncio.to_thread((folder / "ready").read_text))
    task.cancel()
    await asyncio.wait([task])
    assert not Path(f"/proc/{pid}").exists()
    assert session.state.in_flight == {}
    assert [parked.reason for parked in session.state.parked.values()] == [STOPPED]
