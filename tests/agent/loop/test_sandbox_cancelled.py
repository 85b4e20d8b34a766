"""A command in a sandbox that a person cancels, or turns away from, leaves nothing: neither a change nor a folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.loop import machine_runner
from foregate.agent.loop.applying import apply_changes
from foregate.agent.loop.cancelling import turn_elsewhere
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.session.session import Session
from foregate.agent.tools.commands import run_shell
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.agent.workspace.confinement import find_folder
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.event import Event
from foregate.schemas.event_body import CallAnswered, ToolFinished, ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import Block
from foregate.schemas.protocols import Reply
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, ToolSpec
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.queries.verify import verify_session
from tests.conftest import OpenSession
from tests.events import bodies

POLICY = default_policy()
SECRET = "echo x > b.txt; echo KEY=1 > .env"
Play = Callable[..., Awaitable[Session]]


@pytest.fixture
def workspace(folder: Path, tmp_path: Path) -> Iterator[Workspace]:
    """The workspace over `folder`, its sandboxes beside it."""
    space = LocalWorkspace(folder, tmp_path / "sandboxes")
    if find_work_tier(space, POLICY)["tier"] != "full":
        pytest.skip("this machine has no sandboxes")
    yield space
    space.close()


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """The log, which verifies at the end."""
    made = MemoryLog()
    yield made
    found = verify_session(made, "s")
    assert found.ok, found.defects


@pytest.fixture
def begin(open_session: OpenSession, workspace: Workspace, log: MemoryLog) -> Play:
    """Opens a session in which the model sends these responses."""

    async def begun(*steps: Any, person: Any = None) -> Session:
        return await open_session(*steps, tools=[run_shell(workspace, POLICY)], person=person, log=log)

    return begun


def send(*lines: str) -> Any:
    return calls(*(("run_shell", {"command": line}) for line in lines))


async def cancel(work: asyncio.Task[Any]) -> Any:
    """Cancel a session's work and return what became of it."""
    stop_task(work)
    return (await work).status


async def until(there: Callable[[], object]) -> None:
    """Return once something is so; the run of the tests ends where that never happens."""
    while not there():  # noqa: ASYNC110 - nothing tells of a file
        await asyncio.sleep(0)


async def read(log: MemoryLog) -> list[Event]:
    return list(await log.read("s"))


def list_left(workspace: Workspace) -> list[Path]:
    return list(find_folder(workspace).glob("run-*"))


class Silent:
    """A person who is asked and says nothing."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def answer(self, need: Need) -> Reply | None:
        self.asked.set()
        await asyncio.Event().wait()
        return None


async def test_of_a_command_that_is_cancelled_while_it_runs_nothing_is_left(
    begin: Play, workspace: Workspace, folder: Path, log: MemoryLog
) -> None:
    session = await begin(send("echo x > b.txt; exec sleep 1000"))
    work = asyncio.ensure_future(run(session, "make it"))
    await until(lambda: list(find_folder(workspace).glob("run-*/upper/b.txt")))
    assert await cancel(work) == "cancelled"
    assert list(folder.iterdir()) == list_left(workspace) == []
    assert [(one.ok, one.error) for one in bodies(await read(log), ToolFinished)] == [(False, "cancelled")]


async def test_of_a_command_that_is_cancelled_while_a_person_is_asked_nothing_is_left(
    begin: Play, workspace: Workspace, folder: Path, log: MemoryLog
) -> None:
    person = Silent()
    session = await begin(send(SECRET), person=person)
    work = asyncio.ensure_future(run(session, "make it"))
    await person.asked.wait()
    assert len(list_left(workspace)) == 1
    assert await cancel(work) == "cancelled"
    assert list(folder.iterdir()) == list_left(workspace) == []
    assert [one.code for one in bodies(await read(log), CallAnswered)] == ["not_run_cancelled"]


async def test_what_is_being_applied_when_it_is_cancelled_is_applied_to_its_end(
    begin: Play, workspace: Workspace, folder: Path, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, applying, cancelled = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def apply(*arguments: Any) -> ToolResult:
        loop.call_soon_threadsafe(applying.set)
        asyncio.run_coroutine_threadsafe(cancelled.wait(), loop).result()
        return apply_changes(*arguments)

    monkeypatch.setattr(machine_runner, "apply_changes", apply)
    session = await begin(send("echo x > b.txt; mkdir c; echo y > c/d.txt"))
    work = asyncio.ensure_future(run(session, "make it"))
    await applying.wait()
    stop_task(work)
    await asyncio.sleep(0)
    cancelled.set()
    assert (await work).status == "cancelled"
    assert ((folder / "b.txt").read_text(), (folder / "c/d.txt").read_text()) == ("x\n", "y\n")
    assert [one.ok for one in bodies(await read(log), ToolFinished)] == [True]
    assert list_left(workspace) == []


@pytest.mark.parametrize("number", range(1, 8))
async def test_a_session_that_is_cancelled_at_any_event_has_all_of_a_command_or_nothing(
    number: int, begin: Play, workspace: Workspace, folder: Path, log: MemoryLog
) -> None:
    session = await begin(send(SECRET), says("done"), person=ScriptedPerson(["yes"]))
    started: list[Event] = []

    def listen(event: Event) -> None:
        if started or event.kind == "tool_started":
            started.append(event)
        if len(started) == number:
            stop_task(work)

    session.log.subscribe(listen)
    work = asyncio.ensure_future(run(session, "make it"))
    status = (await work).status
    if status == "cancelled":
        await run(session, "say that it is over")
    files = sorted(path.name for path in folder.iterdir())
    assert files in ([], [".env", "b.txt"])
    done = [one for one in bodies(await read(log), ToolFinished) if one.ok]
    assert len(done) == bool(files)
    assert list_left(workspace) == []


async def test_turning_to_something_else_throws_away_what_a_sandbox_waits_to_have_confirmed(
    begin: Play, workspace: Workspace, folder: Path, log: MemoryLog
) -> None:
    session = await begin(send(SECRET), says("as you like"), person=ScriptedPerson([None]))
    assert (await run(session, "make it")).status == "awaiting_approval"
    assert len(list_left(workspace)) == 1
    await turn_elsewhere(session)
    assert (await run(session, "leave it, say something")).status == "completed"
    assert list(folder.iterdir()) == list_left(workspace) == []
    assert [one.code for one in bodies(await read(log), CallAnswered)] == ["not_run_cancelled"]


async def test_two_commands_in_parallel_blocks_work_one_after_the_other_and_both_are_applied(
    begin: Play, folder: Path, log: MemoryLog, workspace: Workspace
) -> None:
    order = Block("parallel", (0, 1))
    response = replace(send("echo x > b.txt", "echo y > c.txt"), order=order)
    await run(await begin(response, says("done")), "make them")
    assert sorted(path.name for path in folder.iterdir()) == ["b.txt", "c.txt"]
    started = [event.body.applies is None for event in await read(log) if isinstance(event.body, ToolStarted)]
    assert started == [True, False, True, False]
    assert list_left(workspace) == []


class Waiting:
    """A person who says yes once `reading` is set, and a tool that only looks, and returns once the person is asked."""

    def __init__(self) -> None:
        self.asked, self.reading, self.count = asyncio.Event(), asyncio.Event(), 0

    async def answer(self, need: Need) -> Reply:
        self.count += 1
        assert self.count == 1, "they are asked again"
        self.asked.set()
        await self.reading.wait()
        return Reply("yes")

    async def look(self, arguments: Mapping[str, Any]) -> ToolResult:
        await self.asked.wait()
        return ToolResult(True, "seen")

    def take_event(self, event: Event) -> None:
        if isinstance(event.body, ToolStarted) and event.body.tool == "read_file":
            self.reading.set()


async def test_a_look_that_starts_while_a_person_is_asked_about_a_sandbox_leaves_the_question_open(
    open_session: OpenSession, folder: Path, log: MemoryLog, workspace: Workspace
) -> None:
    (folder / "a.txt").write_text("kept\n")
    person = Waiting()
    nature = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
    look = Tool(ToolSpec("look", "Look.", {"type": "object"}, Effect.OBSERVATION, nature, (), "python"), person.look)
    three = (("run_shell", {"command": SECRET}), ("look", {}), ("read_file", {"path": "a.txt"}))
    response = replace(calls(*three), order=Block("parallel", (0, Block("sequential", (1, 2)))))
    tools = [run_shell(workspace, POLICY), look]
    session = await open_session(response, says("done"), tools=tools, person=person, log=log)
    session.log.subscribe(person.take_event)
    await run(session, "make it")
    assert sorted(path.name for path in folder.iterdir()) == [".env", "a.txt", "b.txt"]
    assert list_left(workspace) == []
