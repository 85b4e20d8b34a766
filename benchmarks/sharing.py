"""What many agents share: 200 of one process its threads and descriptors, 8 processes of one home their turns."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from figures import Report

from foregate import Agent
from foregate.schemas.event import Draft
from foregate.schemas.event_body import UserMessage
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.testing import ScriptedModel, calls, says

AGENTS, THREADS, DESCRIPTORS = 200, 10, 300
PROCESSES, SECONDS, SHARE = 8, 10, 0.5
"""Processes that write at once for how long, and the least share of the mean that each of them must get."""


class Most:
    """The most threads and descriptors that were seen."""

    def __init__(self) -> None:
        self.threads = self.descriptors = 0

    def look(self) -> None:
        """Count both."""
        self.threads = max(self.threads, threading.active_count())
        self.descriptors = max(self.descriptors, len(os.listdir("/proc/self/fd")))


async def run_agents(folder: Path) -> Most:
    """Have all agents at once read, write and answer, each in a workspace of its own; end when all have."""
    most, all_done = Most(), asyncio.Barrier(AGENTS)

    async def run_one(number: int) -> None:
        workspace = folder / str(number)
        workspace.mkdir()
        (workspace / "a.txt").write_text("a")
        read, write = ("read_file", {"path": "a.txt"}), ("write_file", {"path": "b.txt", "content": "b"})
        model = ScriptedModel([calls(read), calls(write, text="I write b.txt."), says("done")])
        async with Agent(model=model, workspace=workspace) as agent:
            outcome = await agent.run("read a.txt and write b.txt")
            assert outcome.status == "completed", outcome
            most.look()
            await all_done.wait()

    await asyncio.gather(*map(run_one, range(AGENTS)))
    return most


async def write_events(path: Path) -> int:
    """Append and settle one event after the other for a while; return how many."""
    log, count = SqliteLog(path), 0
    lease = await log.claim(str(os.getpid()), create=True)
    sys.stdin.readline()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        await log.append(lease, [Draft(UserMessage(text="x" * 2000), "user")], policy="p", time="")
        await log.settle(lease)
        count += 1
    log.close()
    return count


def run_processes(path: Path) -> list[int]:
    """Return how many events each of the processes wrote."""
    SqliteLog(path).close()
    command = [sys.executable, __file__, str(path)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    time.sleep(5)  # all of them have begun, and wait
    for one in running:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    return [int(one.communicate()[0]) for one in running]


def main() -> int:
    """Print both; return 1 where a bound does not hold."""
    if len(sys.argv) > 1:
        print(asyncio.run(write_events(Path(sys.argv[1]))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FOREGATE_HOME"] = str(Path(folder, "home"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        most = asyncio.run(run_agents(Path(folder)))
        counts = run_processes(Path(folder, "events.db"))
    least = min(counts) * len(counts) / sum(counts)
    report = Report("sharing", "agent", "telemetry/log", "src/foregate/assembly", "src/foregate/api.py")
    report.add(f"threads of {AGENTS} agents", most.threads, "", most=THREADS)
    report.add(f"descriptors of {AGENTS} agents", most.descriptors, "", most=DESCRIPTORS)
    note = f"of the mean of {PROCESSES} processes that write into one home"
    report.add("the slowest process's share", least * 100, "%", least=SHARE * 100, note=note)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
