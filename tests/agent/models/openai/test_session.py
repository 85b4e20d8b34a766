"""The whole loop with a model behind real HTTP: whatever the gates answer, the endpoint takes the conversation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from foregate.agent.loop.runner import run
from foregate.agent.session.session import Session
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from tests.agent.models.openai.scripted_server import ScriptedServer, Stream, delta, piece
from tests.agent.models.openai.test_model import model_at

EDIT = json.dumps({"path": "a.txt", "old": "teh", "new": "the"})


def asks(*wanted: tuple[str, str]) -> Stream:
    """A stream of calls that all carry one id."""
    events: list[Any] = [piece(n, text, id="call_0", name=name) for n, (name, text) in enumerate(wanted)]
    return Stream([*events, delta("tool_calls")])


async def test_a_held_edit_is_cured_and_runs(folder: Path, workspace: Workspace, policy: Policy) -> None:
    (folder / "a.txt").write_text("teh cat")
    script = [
        asks(("edit_file", EDIT), ("made.up tool", "{broken"), ("read_file", "")),
        Stream([delta("stop")]),
        asks(("edit_file", EDIT)),
        Stream([delta(content="I fix"), delta(content="ed it.", finish="stop")]),
    ]
    async with ScriptedServer(*script) as server:
        log = MemoryLog()
        heard: list[str] = []
        session = Session(
            log=log,
            lease=await log.claim("s", create=True),
            blobs=MemoryBlobs(),
            model=model_at(server),
            tools=Toolbox([read_file(workspace, policy), edit_file(workspace, policy)]),
            policy=policy,
            workspace=workspace,
            on_text=heard.append,
        )
        await session.start()
        outcome = await run(session, "fix the typo in a.txt")
    assert (outcome.status, heard) == ("completed", ["I fix", "ed it."])
    assert outcome.text.startswith("I fixed it.")
    assert (folder / "a.txt").read_text() == "the cat"
    answers = [m for m in server.requests[-1]["messages"] if m["role"] == "tool"]
    assert len({answer["tool_call_id"] for answer in answers}) == 4


def test_the_heavy_libraries_are_loaded_with_the_first_request_only() -> None:
    heavy = ("openai", "httpx2", "tenacity")
    code = f"import sys, foregate.agent.models.openai.model; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-Ic", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
