"""What a turn takes whose looks are taken while its response arrives, against one that waits for all of it.

The model sends three reads and goes on writing for as long again; each read takes half of what a call takes to be sent.
The other row is a response without a look, for which following the calls must cost nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from figures import Report

from foregate.agent.loop.runner import run, run_child_task
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.session import Session
from foregate.agent.tools.files import read_file
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import Follower, ModelResponse
from foregate.schemas.tool_call import ToolResult
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog

SENT, READ = 0.04, 0.02
"""Seconds a call takes to be sent, and a read to be done."""
FILES = {f"{name}.txt": b"some text\n" for name in "abc"}
ROUNDS = 11


class Slow:
    """A model that sends a look at each file, then words for as long again, and then an answer."""

    name = "slow"

    def __init__(self, looks: bool) -> None:
        self._wanted = [("read_file", {"path": name}) for name in FILES] if looks else []
        self._asked = False

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the looks, then the answer."""
        if self._asked or not self._wanted:
            await asyncio.sleep(SENT)
            return says("that is all")
        self._asked = True
        response = calls(*self._wanted)
        for call in response.calls:
            await asyncio.sleep(SENT)
            if isinstance(on_text, Follower):
                on_text.call(call)
        await asyncio.sleep(SENT * len(response.calls))
        return response


async def taken(*, looks: bool, early: bool) -> float:
    """Return the seconds a task takes."""
    policy, workspace = default_policy(), MemoryWorkspace(FILES)
    reading: Tool = read_file(workspace, policy)  # type: ignore[arg-type]

    async def slowly(arguments: Mapping[str, Any]) -> ToolResult:
        await asyncio.sleep(READ)
        return await reading.run(arguments)

    log = MemoryLog()
    session = Session(
        log=log,
        lease=await log.claim("bench", create=True),
        blobs=MemoryBlobs(),
        model=Slow(looks),
        tools=Toolbox([dataclasses.replace(reading, run=slowly)]),
        policy=policy,
        workspace=workspace,  # type: ignore[arg-type]
        delegate=run_child_task,
        prefetch=early,
    )
    await session.start()
    start = time.perf_counter()
    await run(session, "what do a.txt, b.txt and c.txt say?")
    return time.perf_counter() - start


async def main() -> int:
    """Print both rows: the median of interleaved rounds."""
    report = Report("early", "agent/loop", "agent/session", "agent/survey")
    for name, looks in (("three looks", True), ("no look", False)):
        rounds = []
        for _ in range(ROUNDS):
            plain, ours = await taken(looks=looks, early=False), await taken(looks=looks, early=True)
            rounds.append((ours * 1000, plain * 1000))
        report.add_rounds(name, rounds, "ms", most=1.02)
    return report.end()


sys.exit(asyncio.run(main()))
