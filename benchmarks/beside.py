"""What a turn costs beside an earlier version of Foregate: processor time, in short rounds, and Python calls.

    python benchmarks/beside.py                      beside REVISION
    python benchmarks/beside.py --beside v0.2.0      beside another

The other version is checked out into a temporary folder, and measured by this very file, in a process of its own. Both
processes live through the run and take turns every few milliseconds, so that both meet the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

REVISION = "71525c7"
"""The last version before calls were looked into value by value; the promise is to cost no more than it did."""
KINDS = ("edit", "read")
PLACES = ("in memory", "durable")
CALLS = {"in memory": 800, "durable": 950}
"""Python calls that a turn may take."""
TURNS = (10, 100, 1000)
"""Turns of a session at which calls are counted."""
ROUNDS, SIZE = 80, 25
"""Rounds, and turns of each session in one."""


def main() -> int:
    """Report the ratio of each kind of turn, and its calls."""
    from figures import Report

    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    reader.add_argument("--beside", default=REVISION, metavar="REVISION")
    revision = reader.parse_args().beside
    report = Report("beside", "agent", "evidence", "gates", "policy", "schemas", "telemetry")
    root = Path(__file__).resolve().parents[1]
    with checked_out(root, revision) as folder:
        for kind in KINDS:
            for place in PLACES:
                with ExitStack() as both:
                    ours, other = (both.enter_context(Measured(where, kind, place)) for where in (root, folder))
                    for number in TURNS:
                        found, before = ours.ask("count", number), other.ask("count", number)
                        note, name = f"{before:.0f} at {revision}", f"calls of turn {number}, {kind} {place}"
                        report.add(name, found, "", most=CALLS[place], note=note)
                    rounds = [(ours.ask("time", SIZE), other.ask("time", SIZE)) for _ in range(ROUNDS)]
                report.add_rounds(f"{kind} {place}, beside {revision}", rounds, "us", most=1.0)
    return report.end()


@contextmanager
def checked_out(root: Path, revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "other")
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), revision], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


class Measured:
    """A session of a version, in a process that measures whenever it is asked."""

    def __init__(self, root: Path, kind: str, place: str) -> None:
        paths = [str(root / "src"), str(root / "benchmarks"), str(Path(__file__).parent)]
        code = "import sys; sys.path[:0] = sys.argv[3:]; import beside; beside.answer(*sys.argv[1:3])"
        command = [sys.executable, "-s", "-E", "-c", code, kind, place, *paths]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Measured:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def ask(self, what: str, number: int) -> float:
        """Have something measured."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what} {number}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def answer(kind: str, place: str) -> None:
    """Measure what is asked for, line by line, until there is no more; runs in either version."""
    asyncio.run(answer_all(kind, place))


async def answer_all(kind: str, place: str) -> None:
    """Open a session and measure it."""
    endless = importlib.import_module("endless")
    files = {endless.NAME: endless.TEXT}
    if kind == "read":
        endless.Endless.prepare = prepare_reads
        endless.Endless.respond = respond_with_read
        files |= {f"notes{n}.txt": b"line one\nnumber %d\nline three\n" % n for n in range(20_000)}
    memory_class = endless.MemoryWorkspace
    endless.MemoryWorkspace = lambda _: memory_class(files)
    yield_between_steps(endless)
    with tempfile.TemporaryDirectory() as folder:
        log = find_class("MemoryLog")() if place == "in memory" else find_class("SqliteLog")(Path(folder, "events.db"))
        session = await endless.opened(log)
        for line in sys.stdin:
            what, _, number = line.partition(" ")
            print(await {"count": count_calls, "time": take_time}[what](endless, session, int(number)), flush=True)
        if place == "durable":
            log.close()


def yield_between_steps(endless: Any) -> None:
    """Let other tasks in after each step, as the loop of either version does that takes them for a user.

    A turn has two steps now, the second of which lets others in between judging and running; it had three before.
    """
    name = "take_step" if hasattr(endless, "take_step") else "step"
    take = getattr(endless, name)

    async def take_and_yield(session: Any) -> Any:
        outcome = await take(session)
        await asyncio.sleep(0)
        return outcome

    setattr(endless, name, take_and_yield)


def find_class(name: str) -> Any:
    """Return a kind of log, wherever the version has it."""
    module = {"MemoryLog": "memory_log", "SqliteLog": "sqlite_log"}[name]
    for folder in ("foregate.telemetry.log", "foregate.telemetry"):
        try:
            return getattr(importlib.import_module(f"{folder}.{module}"), name)
        except ImportError:
            continue
    raise LookupError(name)


def prepare_reads(model: Any, count: int) -> None:
    """Write the arguments of the next turns beforehand: each reads another file."""
    after = range(model.turn + count, max(model.turn, 0), -1)
    model.wanted = [json.dumps({"path": f"notes{number}.txt"}) for number in after]


async def respond_with_read(model: Any, request: Any, on_text: object = None) -> Any:
    """Return the next read."""
    endless = importlib.import_module("endless")
    if request.purpose == "plan":
        return endless.answers(endless.plan())
    model.turn += 1
    if model.turn == 0:
        return endless.calls(("read_file", {"path": endless.NAME}), text="I will read the notes one after the other.")
    call = endless.ToolCall.parse("read_file", model.wanted.pop())
    return endless.ModelResponse("", (call,), finish_reason="tool_calls")


async def take_time(endless: Any, session: Any, size: int) -> float:
    """Return the microseconds of processor time that a turn takes, over some."""
    start = time.process_time_ns()
    await endless.turns(session, size)
    return (time.process_time_ns() - start) / size / 1000


async def count_calls(endless: Any, session: Any, turn: int) -> float:
    """Return how many functions in Python a turn calls, in the main thread: the middle one of the five up to this."""
    await endless.turns(session, turn - 5 - session.state.task.used["turns"])
    counts = []
    for _ in range(5):
        calls = 0

        def note(frame: FrameType, event: str, _: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(note)
        await endless.turns(session, 1)
        sys.setprofile(None)
        counts.append(calls)
    return statistics.median(counts)


if __name__ == "__main__":
    sys.exit(main())
