"""Fixtures: calls that were made in a session whose log is then opened again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session.session import Session
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.agent.workspace import local
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.event_body import ToolFinished
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from tests.agent.effects.changes import Call
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, policy_with

Do = Callable[..., Awaitable[Session]]


@pytest.fixture(scope="module")
def no_power_cut() -> Iterator[None]:
    """Nothing waits for the disk, where nothing needs to outlast more than a process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local, "sync_file_system", lambda fd: None)
        yield


@pytest.fixture
def do(workspace: Workspace) -> Do:
    """Runs calls in a session over the built-in tools, and returns the session as opened again from its log."""
    policy = policy_with(EVERYTHING_OFF)

    async def done(*wanted: Call, tools: Sequence[Tool] = ()) -> Session:
        log, blobs = MemoryLog(), MemoryBlobs()
        box = Toolbox([*builtin_tools(workspace, policy), *tools])

        async def opened(model: ScriptedModel, *, create: bool) -> Session:
            return Session(
                log=log,
                lease=await log.claim("s", create=create),
                blobs=blobs,
                model=model,
                tools=box,
                policy=policy,
                workspace=workspace,
            )

        first = await opened(ScriptedModel([*(calls(call) for call in wanted), says("done")]), create=True)
        await first.start()
        outcome = await run(first, "go")
        assert outcome.status == "completed", outcome
        finished = bodies(await log.read("s"), ToolFinished)
        assert [(body.tool, body.ok) for body in finished] == [(name, True) for name, _ in wanted], finished
        await log.release(first.log.lease)
        again = await opened(ScriptedModel([]), create=False)
        for event in await log.read("s"):
            again.state.apply(event)
        return again

    return done
