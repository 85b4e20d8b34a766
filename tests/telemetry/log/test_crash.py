"""Real processes on one log, killed between and within their steps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session

DRIVER = Path(__file__).with_name("log_driver.py")
STEPS = ("open", "claim s", "append one", "append two", "settle", "append three", "settle", "append four", "release")


class Process:
    """A driver on the log at `path`."""

    def __init__(self, path: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-I", DRIVER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, *steps: str) -> str:
        """Have steps done one after another; return what the last one said."""
        answer = ""
        for step in steps:
            self.order(step)
            answer = self.heard()
        return answer

    def order(self, step: str) -> None:
        """Order a step without waiting for it."""
        assert self.child.stdin is not None
        self.child.stdin.write(f"{step}\n")
        self.child.stdin.flush()

    def heard(self) -> str:
        """Return the next thing it says."""
        assert self.child.stdout is not None
        return self.child.stdout.readline().strip()

    def kill(self, *, bury: bool = True) -> None:
        """Kill it without a warning and wait until it is dead; it keeps its number until it is buried."""
        self.child.send_signal(signal.SIGKILL)
        if not bury:
            os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT)
            return
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "events.db"


@pytest.fixture
def start(path: Path) -> Iterator[Callable[[], Process]]:
    """Starts drivers on one log; all are gone at the end of the test."""
    processes: list[Process] = []

    def started() -> Process:
        processes.append(Process(path))
        return processes[-1]

    yield started
    for process in processes:
        if process.child.returncode is None:
            process.kill()


@pytest.mark.parametrize("steps", range(2, len(STEPS) + 1))
async def test_a_process_killed_after_any_step_leaves_a_sound_log_with_all_it_settled(
    path: Path, start: Callable[[], Process], steps: int
) -> None:
    process = start()
    assert process.do(*STEPS[:steps]) == "ok"
    process.kill()
    settled = {7: 3, 5: 2}
    acknowledged = max((count for step, count in settled.items() if steps >= step), default=0)
    if steps == len(STEPS):
        acknowledged = 4
    log = SqliteLog(path)
    result = verify_session(log, "s")
    assert result.ok, result.sentence
    assert acknowledged <= result.events <= sum(step.startswith("append") for step in STEPS[:steps])
    lease = await log.claim("s")
    assert lease.fence == 2
    log.close()


async def test_a_process_killed_while_it_writes_leaves_what_it_acknowledged(
    path: Path, start: Callable[[], Process]
) -> None:
    total = 0
    for round_ in range(3):
        process = start()
        process.do("open", "claim s")
        process.order("free 100000")
        for _ in range(10 * (round_ + 1)):
            acknowledged = int(process.heard())
        process.kill()
        log = SqliteLog(path)
        result = verify_session(log, "s")
        assert result.ok, result.sentence
        assert result.events >= total + acknowledged
        total = result.events
        log.close()


async def test_two_processes_on_one_file_both_get_on(path: Path, start: Callable[[], Process]) -> None:
    first, second = start(), start()
    first.do("open", "claim a")
    second.do("open", "claim b")
    for process in (first, second):
        process.order("free 40")
    for process in (first, second):
        for number in range(40):
            assert process.heard() == str(number + 1)
        assert process.heard() == "ok"
    log = SqliteLog(path)
    assert [verify_session(log, name).events for name in ("a", "b")] == [40, 40]
    log.close()


async def test_the_second_process_on_a_session_is_told_who_holds_it(path: Path, start: Callable[[], Process]) -> None:
    first, second = start(), start()
    first.do("open", "claim s", "append one", "settle")
    held = second.do("open", "claim s")
    assert held.startswith(f"SessionHeld: session `s` is open in process {first.child.pid}; close it there")
    first.do("release")
    assert second.do("claim s", "append two", "settle") == "ok"


async def test_a_holder_that_was_killed_and_not_yet_buried_is_succeeded(
    path: Path, start: Callable[[], Process]
) -> None:
    first, second = start(), start()
    first.do("open", "claim s", "append one", "settle")
    first.kill(bury=False)
    assert second.do("open", "claim s", "append two", "settle") == "ok"
    log = SqliteLog(path)
    assert verify_session(log, "s").events == 2
    log.close()


async def test_a_stopped_process_that_wakes_after_being_succeeded_writes_nothing(
    path: Path, start: Callable[[], Process]
) -> None:
    zombie = start()
    zombie.do("open", "claim s", "append one", "settle")
    zombie.child.send_signal(signal.SIGSTOP)
    log = SqliteLog(path)
    await log.claim("s", take_over=True)
    zombie.child.send_signal(signal.SIGCONT)
    assert zombie.do("append two", "settle").startswith("SessionHeld: session `s` was taken over")
    assert verify_session(log, "s").events == 1
    log.close()
