"""Long runs that try to break what must never break; not part of `make test`. `make torture MINUTES=10`.

- kills: a session with commands is ended at a random moment, by a random signal to Foregate or to what starts programs
  for it, is gone on with, ended again, and at last finishes. Then the log verifies, nothing ran twice, nothing half is
  left, no process stays, and undo brings back what it must.
- many processes: calls that start hundreds of programs that would stay; none does, and no descriptor is lost.
- links: the race of `test_swapped_links.py`, and the power cut of `test_power_cut.py`, again and again.

    python benchmarks/torture.py --minutes 10 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from confining.world import State, describe
from torturing.driver import list_steps

from foregate.agent.loop.undo import undo
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.event import Event
from foregate.schemas.event_body import OutcomeUnknown, ToolFinished, ToolStarted
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session

ROOT = Path(__file__).resolve().parents[1]
DRIVER = ROOT / "benchmarks/torturing/driver.py"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 120.0
"""Seconds after which a session that does not end counts as hanging."""
TESTS = {
    "links": ("tests/agent/workspace/test_swapped_links.py", {"FOREGATE_RACES": "60"}),
    "power cuts": ("tests/agent/workspace/test_power_cut.py", {}),
}


class BrokenError(Exception):
    """Something that must hold does not; the message says what."""


class Driver:
    """The process that forks one for every session."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-E", str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, order: dict[str, Any]) -> int:
        """Begin an order and return the number of its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return int(self._read())

    def wait(self, pid: int) -> dict[str, Any]:
        """Return what came of the order; raise BrokenError where its process hangs."""
        deadline = time.monotonic() + PATIENCE
        while is_running(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                raise BrokenError("a session hangs")
            time.sleep(0.01)
        told = self._read()
        while "outcome" not in told:
            told = self._read()
        return dict(json.loads(told))

    def end(self) -> None:
        """End the driver."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def is_running(pid: int) -> bool:
    """Whether a process runs."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def list_descendants(pid: int) -> list[int]:
    """Return the processes under one, the nearest first."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in task.read_text().split() if int(child) not in found]
    return found[1:]


def wait_until_gone(pids: list[int]) -> None:
    """Return when none of the processes runs; raise BrokenError where one stays."""
    deadline = time.monotonic() + 20
    while left := [pid for pid in pids if is_running(pid)]:
        if time.monotonic() > deadline:
            words = [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in left]
            raise BrokenError(f"processes stay: {words}")
        time.sleep(0.01)


def find_marked(mark: str) -> list[int]:
    """Return the processes with the mark among their words."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "cmdline").read_text().split("\0"):
                found.append(int(entry.name))
    return found


def make_place(root: Path) -> dict[str, Any]:
    """Make a workspace with a repository and return the order for a session in it."""
    workspace = root / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "a.txt").write_text("line one\n")
    (workspace / "b.txt").write_text("line of b\n")
    for words in ("init -q -b main", "config user.name A", "config user.email a@example.org", "add .", "commit -qm B"):
        subprocess.run(["git", *words.split()], cwd=workspace, check=True)
    return {"home": str(root / "home"), "workspace": str(workspace), "mark": f"{random.randint(10**6, 10**7)}.5"}


def look(workspace: Path) -> State:
    """Return what lies in a workspace, but for its repository."""
    paths = [path for path in workspace.rglob("*") if ".git" not in path.relative_to(workspace).parts]
    return {str(path.relative_to(workspace)): describe(path) for path in paths}


def torture_by_kills(driver: Driver, root: Path, chance: random.Random, whole: float) -> Counter[str]:
    """End a session up to four times, let it finish and check what is left; return what happened."""
    order = make_place(root)
    workspace, happened = Path(order["workspace"]), Counter[str]()
    before = look(workspace)
    for _ in range(chance.randint(1, 4)):
        pid = driver.begin(order)
        time.sleep(chance.uniform(0, whole))
        below = list_descendants(pid)
        target = pid if not below or chance.random() < 0.8 else below[0]
        with suppress(ProcessLookupError):
            os.kill(target, chance.choice(SIGNALS))
        if target != pid:
            happened["ends of the starter"] += 1
            driver.wait(pid)
        else:
            happened["kills"] += 1
            outcome = driver.wait(pid)["outcome"]
            happened["too late"] += outcome in ("completed", "over")
        wait_until_gone(below)
    outcome = driver.wait(driver.begin(order))["outcome"]
    if outcome not in ("completed", "over"):
        raise BrokenError(f"the session could not be gone on with: {outcome}")
    if left := find_marked(order["mark"]):
        raise BrokenError(f"processes stay: {left}")
    return happened + asyncio.run(check_place(order, before))


async def check_place(order: dict[str, Any], before: State) -> Counter[str]:
    """Check log and workspace of a session that has ended, take everything back and check again."""
    events = await read_log(Path(order["home"]))
    workspace = Path(order["workspace"])
    started = [event.body for event in events if isinstance(event.body, ToolStarted)]
    changing = [body.call for body in started if body.side_effect != "pure"]
    kinds = Counter(event.kind for event in events)
    if not kinds["sandbox_ended"] and len(changing) != len(set(changing)):
        raise BrokenError("a call ran twice")
    unknown = [event.body.target for event in events if isinstance(event.body, OutcomeUnknown)]
    ended = [event.body for event in events if isinstance(event.body, ToolFinished)]
    journal = workspace / "journal.txt"
    written = Counter(journal.read_text().split() if journal.exists() else [])
    for word in ("first", "second", "third", "fourth"):
        done = sum(body.ok and word in body.target for body in ended if body.tool.startswith("run_"))
        most = done + sum(word in target for target in unknown)
        if not min(done, 1) <= written[word] <= max(1, most):
            raise BrokenError(f"`{word}` stands {written[word]} times in the journal, with {done} calls done")
        if written[word] > 1:
            raise BrokenError(f"`{word}` was written {written[word]} times")
    if litter := [path for path in look(workspace) if ".foregate-" in path]:
        raise BrokenError(f"litter in the workspace: {litter}")
    await undo_all(order)
    if kinds["sandbox_ended"] and not unknown and (after := look(workspace)) != before:
        raise BrokenError(f"undo left {sorted(set(after.items()) ^ set(before.items()))[:3]}")
    return Counter({"sessions": 1, "outcomes unknown": len(unknown), "runs of sandboxes": kinds["sandbox_ended"]})


async def read_log(home: Path) -> list[Event]:
    """Return the events of the one session; raise BrokenError where they do not verify."""
    log = SqliteLog(home / "events.db")
    try:
        names = [name for name in await log.sessions() if verify_session(log, name).events]
        if not all(verify_session(log, name).ok for name in names):
            raise BrokenError("the log does not verify")
        return [event for name in names for event in await log.read(name)]
    finally:
        log.close()


async def undo_all(order: dict[str, Any]) -> None:
    """Take back every change of the session that can be."""
    environ = {"FOREGATE_HOME": order["home"]}
    opened = await open_session(SessionOptions(model="rehearsal", resume="last", environ=environ))
    try:
        while (await undo(opened.session)).done:
            pass
    finally:
        await opened.close(end=False)


def torture_by_processes(driver: Driver, root: Path) -> Counter[str]:
    """Start hundreds of processes that would stay."""
    order = {**make_place(root), "heavy": True}
    pid = driver.begin(order)
    most = 0
    while is_running(pid):
        most = max(most, len(find_marked(order["mark"])))
        time.sleep(0.02)
    ended = driver.wait(pid)
    if ended["outcome"] != "completed" or ended["open"] > 40:
        raise BrokenError(f"it ended as {ended}")
    if left := find_marked(order["mark"]):
        raise BrokenError(f"{len(left)} processes stay")
    return Counter({"sessions": 1, "processes at once": most})


def repeat_test(name: str) -> Counter[str]:
    """Run a test of the suite once; it may be skipped."""
    path, setting = TESTS[name]
    words = [
        sys.executable,
        "-s",
        "-E",
        "-m",
        "pytest",
        "-q",
        "-rs",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
    ]
    ran = subprocess.run(
        [*words, path], cwd=ROOT, env={**os.environ, **setting}, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise BrokenError(ran.stdout[-3000:])
    return Counter({"skipped" if " skipped" in ran.stdout and " passed" not in ran.stdout else "runs": 1})


def spend(name: str, seconds: float, once: Callable[[int], Counter[str]]) -> bool:
    """Do something again and again for a time, print what happened; return whether nothing broke."""
    happened, failures, deadline = Counter[str](), 0, time.monotonic() + seconds
    number = 0
    while number == 0 or time.monotonic() < deadline:
        try:
            happened += once(number)
        except BrokenError as broken:
            failures += 1
            print(f"  {name} {number}: {broken}", flush=True)
        number += 1
        if happened["skipped"]:
            break
    told = ", ".join(f"{count} {what}" for what, count in happened.items())
    print(
        f"{name:12} {number:5} rounds: {told}; {failures} broken (bar 0)   {'MISSED' if failures else 'holds'}",
        flush=True,
    )
    return not failures


def main(minutes: float, seed: int) -> int:
    """Spend the time; return 1 where something broke."""
    chance, driver = random.Random(seed), Driver()
    print(f"seed {seed}, {minutes:g} minutes, {len(list_steps(''))} calls a session", flush=True)
    with tempfile.TemporaryDirectory(prefix="foregate-torture-") as folder:
        root = Path(folder)
        try:
            driver.wait(driver.begin(make_place(root / "first")))
            start = time.monotonic()
            driver.wait(driver.begin(make_place(root / "whole")))
            whole = time.monotonic() - start
            held = [
                spend("kills", 36 * minutes, lambda n: torture_by_kills(driver, root / f"k{n}", chance, whole)),
                spend("processes", 6 * minutes, lambda n: torture_by_processes(driver, root / f"p{n}")),
                *(spend(name, 9 * minutes, lambda _, name=name: repeat_test(name)) for name in TESTS),
            ]
        finally:
            driver.end()
    return 1 - all(held)


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--minutes", type=float, default=10)
    reader.add_argument("--seed", type=int, default=int(time.time()))
    said = reader.parse_args()
    sys.exit(main(said.minutes, said.seed))
