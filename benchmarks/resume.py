"""What opening a session again costs after 20,001 turns, in one long task and in many small ones, with long results.

Each is opened as the command line opens it, in a process of its own, against the start of that process without a
session; its processor seconds and its memory are what a person waits for. A log without a snapshot misses its bound.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

from endless import NAME, SESSION, Endless, opened, turns
from figures import Report

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.telemetry.log.sqlite_log import SqliteLog

TURNS = 20_001
LONG = b"value 0\n" + b"".join(b"%d: a line of some length, as they stand in a log\n" % number for number in range(160))
"""A file of some 8,000 characters, which is read in each turn."""
SECONDS, MEGABYTES = 2.0, 150
"""What opening may take of the processor, and of memory."""
KINDS, ROUNDS = ("one task", "many tasks"), 3


class Reading(Endless):
    """Like the endless model, but it reads the whole file after each edit."""

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Return the next edit with a read behind it, or the plan for all of them."""
        found = await super().respond(request)
        if not self.turn or request.purpose == "plan":
            return found
        return calls(("edit_file", json.loads(found.calls[0].raw)), ("read_file", {"path": NAME}))


class Asked:
    """A model that answers each task after one read."""

    name = "asked"

    def __init__(self) -> None:
        self.turn = 0

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Return a read, and then words."""
        self.turn += 1
        return calls(("read_file", {"path": NAME})) if self.turn % 2 else says(f"There is no answer {self.turn} in it.")


async def write_log(home: Path, workspace: Path, kind: str, count: int) -> None:
    """Write a home with one session of that many turns, left as a process leaves it that is killed."""
    log = SqliteLog(home / "events.db")
    memory = MemoryWorkspace({NAME: LONG})
    memory.root = workspace
    session = await opened(log, memory)
    if kind == "one task":
        before, session.model = session.model, Reading()
        session.model.turn = before.turn  # type: ignore[attr-defined]
        await turns(session, count - 2)
    else:
        await session.end_task("cancelled")
        session.model = Asked()  # type: ignore[assignment]
        for task in range((count - 2) // 2):
            await run(session, f"What does line {task} of {NAME} say?")
    await session.log.settle()
    log.close()


def find_snapshot(home: Path) -> str:
    """Return how large the snapshot of the session in a home is, and how many events follow it; "" for none."""
    with closing(sqlite3.connect(home / "events.db")) as file:
        rows = file.execute(
            "SELECT length(data), leases.seq - snapshots.seq FROM snapshots JOIN leases USING (session)"
        )
        return "; ".join(f"snapshot of {size / 1024:.0f} KB, {after} events after it" for size, after in rows)


OPEN = """
import asyncio, json, sys, time
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
async def main():
    opened = await open_session(SessionOptions(model="rehearsal", resume=sys.argv[1] or None, workspace=sys.argv[2]))
    told = opened.session.state.seq
    await opened.close(end=False)
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    print(json.dumps([time.process_time(), peak / 1024, told]))
asyncio.run(main())
"""


def open_again(home: Path, workspace: Path, session: str) -> tuple[float, float, int]:
    """Return processor seconds, megabytes and events of a process that opens a session, a new one for no name."""
    command = [sys.executable, "-c", OPEN, session, str(workspace)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env={**os.environ, "FOREGATE_HOME": str(home)}, cwd=workspace
    )
    seconds, megabytes, events = json.loads(done.stdout)
    return seconds, megabytes, events


def measure(kind: str, count: int) -> tuple[float, float, str]:
    """Return seconds and megabytes that opening a session of a kind takes at least, and what stands beside them.

    Raises ValueError where its log has no snapshot.
    """
    with tempfile.TemporaryDirectory() as folder:
        home, workspace = Path(folder, "home"), Path(folder, "workspace")
        home.mkdir(mode=0o700)
        workspace.mkdir()
        (workspace / NAME).write_bytes(LONG)
        asyncio.run(write_log(home, workspace, kind, count))
        if not (kept := find_snapshot(home)):
            raise ValueError(f"the session of {kind} has no snapshot; `foregate doctor` says why")
        bare, least, _ = min(open_again(home, workspace, "") for _ in range(ROUNDS))
        seconds, megabytes, events = min(open_again(home, workspace, SESSION) for _ in range(ROUNDS))
    return seconds, megabytes, f"{events} events; {kept}; a new session takes {bare:.2f} s, {least:.0f} MB"


def main(count: int = TURNS) -> int:
    """Print what opening takes, with its bounds. Writing the sessions takes some minutes."""
    with ProcessPoolExecutor(len(KINDS)) as pool:
        found = list(pool.map(partial(measure, count=count), KINDS))
    report = Report("resume", "agent/session", "evidence/state", "telemetry/log", "src/foregate/assembly")
    for kind, (seconds, megabytes, note) in zip(KINDS, found, strict=True):
        report.add(f"processor time, {kind}", seconds, "s", most=SECONDS, note=note)
        report.add(f"memory, {kind}", megabytes, "MB", most=MEGABYTES)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
