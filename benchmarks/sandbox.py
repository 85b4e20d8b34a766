"""What a sandbox adds to a command, against starting the same program without one, as ratio and milliseconds.

Each line is one session whose model sends the same kind of call again and again; before each the bare process runs.
What is timed lies between the start of the call and its end in the log: setting the sandbox up, the program, the list
of what it changed, applying that, and clearing up. What this version or machine does not have is skipped with a line.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import cast

from confining.forbid import forbid_namespaces
from figures import Report

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.doctor import examine
from foregate.schemas.event import Event
from foregate.schemas.judgement import Need
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply
from foregate.telemetry.log.memory_log import MemoryLog

TURNS, ROUNDS, MANY, APPLIED = 5, 7, 100_000, 1_000
MOST_FULL, MOST_LIMITED, MOST_FOR_MANY, MOST_TO_APPLY = 30.0, 15.0, 10.0, 2_000.0
"""Milliseconds that a call may take longer."""
TALK = "I will run this command now, and then the next one."
Made = Callable[[int], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of our calls and of the bare process, in pairs; `why` says why there are none."""

    ours: tuple[float, ...] = ()
    bare: tuple[float, ...] = ()
    why: str = ""


class Asked(Exception):
    """A person was asked, so that this is no call that runs by itself."""


class Nobody:
    """A Person who must not be asked."""

    async def answer(self, need: Need) -> Reply:
        """Remember nothing and refuse."""
        raise Asked(need.code)


class Repeating:
    """A Model that sends a call for each round, and runs the bare process before each."""

    name = "repeating"

    def __init__(self, made: Made, rounds: int, workspace: Path) -> None:
        self.made, self.rounds, self.workspace = made, iter(range(rounds)), workspace
        self.bare: list[float] = []

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next call, or the end."""
        if request.purpose != "chat":
            raise Asked(request.purpose)
        number = next(self.rounds, None)
        if number is None:
            return says("That is all.")
        argv = self.made(number)
        self.bare.append(run_bare(argv, Path(f"{self.workspace}-bare")))
        return calls(("run_command", {"argv": list(argv)}), text=TALK)


def run_bare(argv: Sequence[str], folder: Path) -> float:
    """Run a program without a sandbox; return the milliseconds it took."""
    start = time.perf_counter()
    subprocess.run(argv, cwd=folder, capture_output=True, check=True)
    return 1000 * (time.perf_counter() - start)


class Watch:
    """A listener that notes how long each call took, from its first start to its last end."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._start = self._end = 0.0
        self.failed = ""

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        match event.kind:
            case "tool_started":
                self._start = self._start or time.perf_counter()
            case "tool_finished":
                self._end = time.perf_counter()
                self.failed = self.failed or ("" if getattr(event.body, "ok", True) else "a call failed")
            case "call_answered":
                self.failed = self.failed or str(getattr(event.body, "code", ""))
            case "model_response" | "task_ended" if self._end:
                self.taken.append(1000 * (self._end - self._start))
                self._start = self._end = 0.0


async def timed(workspace: Path, made: Made, rounds: int = ROUNDS) -> Timed:
    """Return what a session's calls took; its first call is left out, as it starts what starts programs."""
    model, watch = Repeating(made, rounds + 1, workspace), Watch()
    setting = SessionOptions(
        workspace,
        model,
        person=Nobody(),
        log=MemoryLog(),
        listeners=[watch],
        environ={"FOREGATE_HOME": f"{workspace}-home"},
    )
    opened = await open_session(setting)
    try:
        outcome = await run(opened.session, "Show me the files and keep the notes up to date with what you find.")
    except Asked as asked:
        return Timed(why=f"it asks ({asked})")
    finally:
        await opened.close()
    if watch.failed or len(watch.taken) != rounds + 1:
        return Timed(why=watch.failed or f"the session ended as {outcome.status}")
    return Timed(tuple(watch.taken[1:]), tuple(model.bare[1:]))


def read(number: int) -> tuple[str, ...]:
    """Return a command that reads a file of its own."""
    return ("cat", f"file{number}.txt")


def work(number: int) -> tuple[str, ...]:
    """Return a command that changes a file."""
    return ("sh", "-c", f"echo {number} >> out{number}.txt")


def write_many(number: int) -> tuple[str, ...]:
    """Return a command that makes many files."""
    each = f"i=0; while [ $i -lt {APPLIED} ]; do echo x > m{number}/$i; i=$((i + 1)); done"
    return ("sh", "-c", f"mkdir m{number}; {each}")


def add_row(report: Report, name: str, found: Timed, most: float) -> None:
    """Report what a sandbox adds to a call."""
    if found.why:
        report.skip(name, found.why)
        return
    added = median(a - b for a, b in zip(found.ours, found.bare, strict=True))
    ratio = median(a / b for a, b in zip(found.ours, found.bare, strict=True))
    note = f"more: {median(found.ours):.1f} against {median(found.bare):.1f} ms, {ratio:.1f}x"
    report.add(name, added, "ms", most=most, note=note)


def fill(workspace: Path, count: int = 0) -> Path:
    """Make a workspace with the files that are read, and with `count` others in folders of a thousand.

    Beside it there is a folder for the bare process, with nothing but the files that are read.
    """
    for folder in (workspace, Path(f"{workspace}-bare")):
        folder.mkdir()
        for number in range(ROUNDS + 1):
            (folder / f"file{number}.txt").write_text("a line\n")
    for number in range(count):
        if number % 1000 == 0:
            (workspace / f"folder{number // 1000}").mkdir()
        (workspace / f"folder{number // 1000}" / f"{number}.txt").touch()
    return workspace


def measure(root: Path, report: Report) -> None:
    """Report every figure."""
    small, large = fill(root / "small"), fill(root / "large", MANY)
    tier = find_tier(small)
    if tier == "full":
        found = take_turns([(place, made) for made in (read, work) for place in (small, large)])
        add_row(report, "read", found[small, read], MOST_FULL)
        add_row(report, "work", found[small, work], MOST_FULL)
        for made in (read, work):
            add_growth(report, made.__name__, found[small, made], found[large, made])
        applied = asyncio.run(timed(fill(root / "apply"), write_many, 3))
        add_row(report, f"apply {APPLIED} files", applied, MOST_TO_APPLY)
    else:
        report.skip("full", f"the tier is {tier}")
    limited = in_child(lambda: measure_limited(fill(root / "limited")))
    add_row(report, "limited read", limited, MOST_LIMITED)


def take_turns(what: Sequence[tuple[Path, Made]]) -> dict[tuple[Path, Made], Timed]:
    """Time several kinds of calls in turns, so that a machine that is busy for a while is so for all of them."""
    found = dict.fromkeys(what, Timed())
    for _ in range(TURNS):
        for place, made in what:
            one, before = asyncio.run(timed(place, made)), found[place, made]
            found[place, made] = Timed(before.ours + one.ours, before.bare + one.bare, before.why or one.why)
    return found


def add_growth(report: Report, name: str, small: Timed, large: Timed) -> None:
    """Report what many files in the workspace add to a call."""
    name = f"{name}, {MANY} files"
    if why := small.why or large.why:
        report.skip(name, why)
        return
    added = median(large.ours) - median(small.ours)
    report.add(name, added, "ms", most=MOST_FOR_MANY, note="more than in a small workspace")


def measure_limited(workspace: Path) -> Timed:
    """Return what reading costs where namespaces are forbidden."""
    forbid_namespaces()
    tier = find_tier(workspace)
    if tier != "limited":
        return Timed(why=f"where namespaces are forbidden the tier is {tier}")
    return asyncio.run(timed(workspace, read))


def find_tier(workspace: Path) -> str:
    """Return what `foregate doctor` says of sandboxes."""
    return next(one["state"] for one in examine(workspace, None) if one["name"] == "sandbox")


def in_child(act: Callable[[], Timed]) -> Timed:
    """Measure in a process of its own, which keeps what it forbids itself."""
    with tempfile.TemporaryFile() as found:
        child = os.fork()
        if child == 0:
            try:
                found.write(pickle.dumps(act()))
                found.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        found.seek(0)
        return cast(Timed, pickle.load(found))


def main() -> int:
    """Print every figure; return 1 where a bound is missed."""
    report = Report("sandbox", "agent/sandbox", "agent/workspace", "agent/loop")
    with tempfile.TemporaryDirectory() as root:
        measure(Path(root), report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
