"""What the prelude costs per turn, as ratios in one run.

Each turn is a response with one covered edit of a file that was read; all nine gates are asked (asserted from the
log) and the chain is on.

memory    log, tool, files and before-images in memory, against a bare loop that parses, validates and calls the tool
durable   the SQLite log, against a bare loop that appends and fdatasyncs one record per call
flatness  the last fifth of 3,200 turns against the first fifth
growth    resident memory per turn beyond the turn's own text, with the SQLite log
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foregate.agent.loop import step
from foregate.agent.memory_workspace import MemoryWorkspace
from foregate.agent.models.scripted import answers, calls
from foregate.agent.session import Session
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.tool import Toolbox
from foregate.gates.schema_check import SchemaCheck
from foregate.policy.load import default_policy
from foregate.policy.policy import Policy
from foregate.schemas.codes import GATES
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Log
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.memory_blobs import MemoryBlobs
from foregate.telemetry.memory_log import MemoryLog
from foregate.telemetry.sqlite_log import SqliteLog

NAME = "notes.txt"
TEXT = b"line one\nvalue 0\nline three\n"


class Endless:
    """A model that reads once, then edits for ever, and plans when asked."""

    name = "endless"

    def __init__(self) -> None:
        self.turn = -1
        self.wanted: list[str] = []

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next edit, or the plan for all of them."""
        if request.purpose == "plan":
            return answers(plan())
        self.turn += 1
        if self.turn == 0:
            return calls(("read_file", {"path": NAME}), text="I will read the notes and then update the value.")
        return ModelResponse("", (ToolCall.parse("edit_file", self.wanted.pop()),), finish_reason="tool_calls")

    def prepare(self, count: int) -> None:
        """Write the arguments of the next turns beforehand, as they would arrive from an endpoint."""
        after = range(self.turn + count, max(self.turn, 0), -1)
        self.wanted = [json.dumps({"path": NAME, "old": f"value {n - 1}", "new": f"value {n}"}) for n in after]


def plan() -> dict[str, Any]:
    """Return a plan that covers every edit."""
    step = {"tool": "edit_file", "target": NAME, "description": "update the value", "effect": "edit", "uses": 10**6}
    return {
        "goal": "keep the value up to date",
        "success_criteria": [{"text": "the value is right", "check": None, "target": None, "expected": None}],
        "first_action": {"tool": "edit_file", "target": NAME, "description": "update the value"},
        "requires_verification": True,
        "risky_actions": ["the wrong value"],
        "version": 1,
        "planned_steps": [step],
    }


def policy() -> Policy:
    """Return the default policy without limits, with a plan due for every change."""
    data = default_policy().model_dump(mode="json")
    data["limits"] |= dict.fromkeys(("turns", "model_calls", "tool_calls", "wall_clock"), 0)
    data["plan"]["due"] = "first_side_effect"
    return Policy.model_validate_json(json.dumps(data))


async def opened(log: Log) -> Session:
    """Return a session that has read the file and had its plan accepted."""
    workspace, rules = MemoryWorkspace({NAME: TEXT}), policy()
    session = Session(
        log=log,
        lease=await log.claim("bench", create=True),
        blobs=MemoryBlobs(),
        model=Endless(),
        tools=Toolbox([read_file(workspace, rules), edit_file(workspace, rules)]),  # type: ignore[arg-type]
        policy=rules,
        workspace=workspace,  # type: ignore[arg-type]
    )
    await session.start()
    await session.hear(f"keep the value in {NAME} up to date")
    await turns(session, 2)
    return session


async def turns(session: Session, count: int) -> list[int]:
    """Take `count` turns; return the nanoseconds of each."""
    task = session.state.task
    assert task is not None
    assert isinstance(session.model, Endless)
    session.model.prepare(count)
    taken = []
    for _ in range(count):
        start, goal = time.perf_counter_ns(), task.counters.turns + 1
        while task.counters.turns < goal or session.state.open is not None:
            outcome = await step(session)
            assert outcome is None, outcome
        taken.append(time.perf_counter_ns() - start)
    return taken


def bare(count: int) -> list[int]:
    """Take `count` turns of a loop without a prelude; return the nanoseconds of each."""
    check = SchemaCheck(edit_file(MemoryWorkspace(), default_policy()).spec.parameters, closed=True)  # type: ignore[arg-type]
    files = {NAME: TEXT}
    wanted = [json.dumps({"path": NAME, "old": f"value {n}", "new": f"value {n + 1}"}) for n in range(count)]
    taken = []
    for raw in wanted:
        start = time.perf_counter_ns()
        arguments = json.loads(raw)
        assert not check.defect(arguments)
        data, old = files[arguments["path"]], arguments["old"].encode()
        assert data.count(old) == 1
        files[arguments["path"]] = data.replace(old, arguments["new"].encode())
        taken.append(time.perf_counter_ns() - start)
    return taken


def synced(path: Path, count: int) -> list[int]:
    """Append and fdatasync one record of 500 bytes `count` times; return the nanoseconds of each."""
    record = b"x" * 500
    taken = []
    with path.open("ab", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter_ns()
            file.write(record)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter_ns() - start)
    return taken


def resident() -> int:
    """Return the resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def all_gates_were_asked(session: Session) -> bool:
    """Whether the last judged turn asked all nine gates, read from the log."""
    events = await session.log.read("bench", after=session.state.seq - 20)
    judged = [event for event in events if event.kind == "turn_judged"][-1]
    asked = [decision["gate"] for decision in judged.body["judgement"]["decisions"]]
    return asked == [*GATES, "prelude"]


async def main() -> None:
    """Print every number with its bound."""
    median = statistics.median
    session = await opened(MemoryLog())
    await turns(session, 200)
    assert await all_gates_were_asked(session)
    ratios = []
    for _ in range(7):
        plain = median(bare(300))
        ours = median(await turns(session, 60))
        ratios.append((ours / plain, ours / 1000, plain / 1000))
    ratio, ours, plain = sorted(ratios)[len(ratios) // 2]
    print(f"memory    {ratio:5.1f}x   (bound 20x)    {ours:.0f} us against {plain:.1f} us per turn")

    with tempfile.TemporaryDirectory() as folder:
        log = SqliteLog(Path(folder, "events.db"))
        session = await opened(log)
        await turns(session, 50)
        ratios = []
        for _ in range(7):
            plain = median(synced(Path(folder, "bare"), 40))
            ours = median(await turns(session, 40))
            ratios.append((ours / plain, ours / 1000, plain / 1000))
        ratio, ours, plain = sorted(ratios)[len(ratios) // 2]
        print(f"durable   {ratio:5.1f}x   (bound 3x)     {ours:.0f} us against {plain:.0f} us per turn")
        gc.collect()
        before, size = resident(), 2000
        await turns(session, size)
        gc.collect()
        grown = (resident() - before) / size
        print(f"growth    {grown / 1024:5.1f} KiB (bound 4 KiB)  per turn over {size} turns, its own text included")
        await log.settle(session.lease)

    session = await opened(MemoryLog())
    gc.collect()
    taken = await turns(session, 3200)
    flat = median(taken[-640:]) / median(taken[:640])
    print(f"flatness  {flat:5.2f}x   (bound 1.2x)   last fifth of 3,200 turns against the first")


if __name__ == "__main__":
    asyncio.run(main())
