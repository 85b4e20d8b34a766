"""An ended session is never written to again: what is done afterwards has a session of its own that names it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foregate import Agent
from foregate.agent.loop.undo import undo
from foregate.agent.session.linked import find_lineage
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.event_body import EffectUndone, SessionStarted
from foregate.schemas.message import ModelRequest
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from foregate.telemetry.queries.verify import verify_session
from foregate.testing import ScriptedModel, calls, says


class World:
    """A log, its stored bytes and a workspace, and what a session does there."""

    def __init__(self, folder: Path) -> None:
        self.log, self.blobs, self.folder = MemoryLog(), MemoryBlobs(), folder

    async def run(self, *texts: str, resume: str = "", model: ScriptedModel | None = None) -> str:
        """Do a task that writes each text to a file of its name; return the session's name."""
        steps = [
            calls(("write_file", {"path": f"{text}.txt", "content": text}), text=f"I write {text}.") for text in texts
        ]
        agent = Agent(
            model=model or ScriptedModel([*steps, says("done")]),
            workspace=self.folder,
            log=self.log,
            blobs=self.blobs,
            resume=resume,
        )
        async with agent:
            assert (await agent.run(f"write {' and '.join(f'{text}.txt' for text in texts)}")).status == "completed"
            return agent.session

    @asynccontextmanager
    async def open(self, name: str, *, end: bool = True, policy: Path | None = None) -> AsyncIterator[OpenSession]:
        """Open a session again, and leave it."""
        opened = await open_session(
            SessionOptions(model=ScriptedModel([]), resume=name, log=self.log, blobs=self.blobs, policy=policy)
        )
        yield opened
        await opened.close(end=end and opened.follows_ended)

    async def undo(self, name: str) -> bool:
        """Take back the last change of a session."""
        async with self.open(name) as opened:
            return (await undo(opened.session)).done

    @property
    def files(self) -> list[str]:
        """The files of the workspace."""
        return sorted(path.stem for path in self.folder.iterdir())


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world without sessions."""
    return World(tmp_path)


async def test_undo_of_an_ended_session_has_a_session_of_its_own_that_names_it(world: World) -> None:
    name = await world.run("a", "b")
    head = await world.log.head(name)
    assert await world.undo(name)
    assert world.files == ["a"]
    assert await world.log.head(name) == head
    further = f"{name}-2"
    assert await world.log.sessions() == [further, name]
    (first, *_, undone, ended) = world.log.events(further)
    assert isinstance(first.body, SessionStarted)
    link = first.body.follows
    assert link is not None
    assert (link.session, link.seq, link.hash) == (name, head.seq, head.hash)
    assert isinstance(undone.body, EffectUndone)
    assert undone.body.call.startswith(f"{name}:c")
    assert ended.kind == "session_ended"
    for one in (name, further):
        found = verify_session(world.log, one)
        assert (found.ok, found.proven) == (True, True)


@pytest.mark.parametrize("again", ["-2", ""])
async def test_undo_goes_on_through_the_sessions_that_follow_each_other(world: World, again: str) -> None:
    name = await world.run("a", "b")
    assert await world.undo(name)
    assert await world.undo(f"{name}{again}")
    assert world.files == []
    assert await world.log.sessions() == [f"{name}-3", f"{name}-2", name]
    assert not await world.undo(f"{name}-3"), "all was taken back"
    assert len(await world.log.sessions()) == 3, "an undo that is refused writes nothing"


async def test_who_only_looks_at_an_ended_session_writes_nothing(world: World) -> None:
    name = await world.run("a")
    (world.folder / "a.txt").write_text("somebody else wrote this")
    heads = {one: await world.log.head(one) for one in await world.log.sessions()}
    assert not await world.undo(name)
    async with world.open(name) as opened:
        assert [event.session for event in await opened.session.log.read_joined()][-1] == name
    assert {one: await world.log.head(one) for one in await world.log.sessions()} == heads


async def test_who_only_looks_at_an_open_session_under_another_policy_writes_nothing(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = await world.run("a")
    async with world.open(name, end=False) as opened:
        await undo(opened.session)
    assert not (await world.log.head(f"{name}-2")).ended
    policy = tmp_path_factory.mktemp("policy") / "p.yaml"
    policy.write_text("limits: {turns: 7}\n")
    head = await world.log.head(f"{name}-2")
    async with world.open(name, policy=policy) as opened:
        assert opened.name == f"{name}-2"
        assert opened.session.policy.limits.turns == 7
    assert await world.log.head(f"{name}-2") == head
    await world.run("b", resume=name)
    kinds = [event.kind for event in world.log.events(f"{name}-2", after=head.seq)]
    assert kinds[0] == "task_started", "under the policy it was recorded with, nothing has to be noted"


async def test_who_talks_on_in_an_ended_session_is_understood_and_judged_by_the_new_log_alone(world: World) -> None:
    name = await world.run("a")
    heard: list[ModelRequest] = []

    class Listening(ScriptedModel):
        async def respond(self, request: ModelRequest, *more: object) -> object:  # type: ignore[override]
            heard.append(request)
            return await super().respond(request, *more)  # type: ignore[arg-type]

    model = Listening([calls(("write_file", {"path": "b.txt", "content": "b"}), text="I write b."), says("done")])
    assert await world.run("b", resume=name, model=model) == f"{name}-2"
    roles = [message.role for message in heard[0].messages]
    assert roles.count("system") == 1
    assert "write a.txt" in [message.text for message in heard[0].messages if message.role == "user"]
    assert world.files == ["a", "b"]
    found = verify_session(world.log, f"{name}-2")
    assert (found.ok, found.proven) == (True, True)
    assert await world.undo(name)
    assert world.files == ["a"]


async def test_a_name_that_was_taken_and_never_begun_is_taken_again(world: World) -> None:
    name = await world.run("a")
    await world.log.release(await world.log.claim(f"{name}-2", create=True))
    assert (await find_lineage(world.log, name)).name == f"{name}-2"
    assert await world.undo(name)
    assert next(event.kind for event in world.log.events(f"{name}-2")) == "session_started"
