"""The demonstration: an edit is held, the remedy reads the file, the edit runs, the log proves it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from foregate.agent.loop import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session import Session
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace import Workspace
from foregate.policy.load import default_policy
from foregate.schemas.event import Event
from foregate.telemetry import chain
from foregate.telemetry.memory_blobs import MemoryBlobs
from foregate.telemetry.memory_log import MemoryLog

EDIT = ("edit_file", {"path": "notes.txt", "old": "teh", "new": "the"})


async def demo() -> None:
    """Run the session and print what happens."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="foregate-demo-") as folder:
        path = Path(folder, "notes.txt")
        path.write_text("This is teh note.\n")
        workspace, policy, log = Workspace(folder), default_policy(), MemoryLog()
        model = ScriptedModel(
            [calls(EDIT, text="I will fix the typo in notes.txt."), calls(EDIT), says("The typo is fixed.")]
        )
        session = Session(
            log=log,
            lease=await log.claim("demo", create=True),
            blobs=MemoryBlobs(),
            model=model,
            tools=Toolbox([read_file(workspace, policy), edit_file(workspace, policy)]),
            policy=policy,
            workspace=workspace,
            listeners=[lambda event: show(console, event)],
        )
        await session.start()
        await run(session, "fix the typo in notes.txt")
        model.finish()
        await session.close()
        console.print(f"\nnotes.txt now reads: {path.read_text().strip()}")
        count = sum(1 for _ in chain.verified(log.lines("demo"), "demo"))
        console.print(f"verified: {count} events")
        workspace.close()


def show(console: Console, event: Event) -> None:
    """Print what an event says, on one line."""
    body = event.body
    match event.kind:
        case "user_message":
            console.print(f"you    {body['text']}", markup=False)
        case "model_response":
            wanted = ", ".join(call["name"] for call in body["calls"])
            console.print(f"model  {body['text']}{f' -> {wanted}' if wanted else ''}", markup=False)
        case "turn_judged":
            for decision in body["judgement"]["decisions"]:
                console.print(f"       {event.seq}.{decision['gate']}: {decision['code']}", markup=False)
        case "call_answered":
            console.print(f"held   {body['tool']}: {body['message']}", markup=False)
        case "tool_finished":
            console.print(f"ran    {body['tool']}: {body['content'].strip()}", markup=False)
