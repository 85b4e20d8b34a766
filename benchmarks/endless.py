"""The sessions of the benchmarks: a turn is a covered edit, or the read of another file; all gates are asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from foregate.agent.loop.runner import run_child_task, take_step
from foregate.agent.models.scripted import answers, calls
from foregate.agent.session.session import Session
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import MemoryWorkspace, Workspace
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.identity import Identity
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Blobs, Log
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.log.memory_log import MemoryBlobs

SESSION = "bench"
NAME = "notes.txt"
TEXT = b"line one\nvalue 0\nline three\n"
FILES = 3000
"""Files that a session of reads may go through."""


class Endless:
    """A model that reads once, then edits for ever, and plans when asked."""

    name, tool = "endless", "edit_file"

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
        return ModelResponse("", (ToolCall.parse(self.tool, self.wanted.pop()),), finish_reason="tool_calls")

    def prepare(self, count: int) -> None:
        """Write the arguments of the next turns beforehand, as they would arrive from an endpoint."""
        after = range(self.turn + count, max(self.turn, 0), -1)
        self.wanted = [json.dumps(self.choose_arguments(n)) for n in after]

    def choose_arguments(self, turn: int) -> dict[str, str]:
        """Return the edit of a turn."""
        return {"path": NAME, "old": f"value {turn - 1}", "new": f"value {turn}"}


class Reader(Endless):
    """A model that reads another file in each turn."""

    tool = "read_file"

    def choose_arguments(self, turn: int) -> dict[str, str]:
        """Return the file of a turn."""
        return {"path": name_file(turn)}


def name_file(number: int) -> str:
    """Return the name of one of the files that are only read."""
    return f"notes{number % FILES}.txt"


def many_files() -> MemoryWorkspace:
    """Return a workspace of many files, of which no two say the same."""
    others = {name_file(number): b"line one\nnumber %d\nline three\n" % number for number in range(FILES)}
    return MemoryWorkspace({NAME: TEXT, **others})


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


async def opened(
    log: Log, workspace: Workspace | None = None, blobs: Blobs | None = None, model: Endless | None = None
) -> Session:
    """Return a session that has read the file and had its plan accepted; what is not given is in memory."""
    workspace, rules = workspace or MemoryWorkspace({NAME: TEXT}), policy()
    session = Session(
        log=log,
        lease=await log.claim(SESSION, create=True),
        blobs=blobs or MemoryBlobs(),
        model=model or Endless(),
        tools=Toolbox([read_file(workspace, rules), edit_file(workspace, rules)]),  # type: ignore[arg-type]
        policy=rules,
        workspace=workspace,  # type: ignore[arg-type]
        delegate=run_child_task,
        by=Identity("ann", "wharf", "program"),
    )
    await session.start()
    await session.record_message(f"keep the value in {NAME} up to date")
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
        start, goal = time.perf_counter_ns(), task.used["turns"] + 1
        while task.used["turns"] < goal or session.state.open is not None:
            outcome = await take_step(session)
            assert outcome is None, outcome
        taken.append(time.perf_counter_ns() - start)
    return taken
