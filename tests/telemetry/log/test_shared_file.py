"""All logs of one file in one process share what they have open, and a process that was forked shares none of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError
from foregate.telemetry.log import shared_file
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.forever import FOREVER
from tests.telemetry.made import NOW, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is, in a folder that is not there yet."""
    return tmp_path / "home" / "events.db"


def count_writers() -> int:
    """Return how many threads of this process write logs."""
    return sum(thread.name.startswith("foregate-log") for thread in threading.enumerate())


def count_descriptors(path: Path) -> int:
    """Return how many files of a folder this process has open."""
    links = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)]
    return sum(link.startswith(str(path.parent)) for link in links)


async def test_logs_of_one_file_share_one_thread_and_their_descriptors(path: Path) -> None:
    before = count_writers()
    first = SqliteLog(path)
    await first.claim("s0", create=True)
    await first.head("s0")
    alone = count_descriptors(path)
    logs = [SqliteLog(path) for _ in range(60)]

    async def work(log: SqliteLog, name: str) -> None:
        lease = await log.claim(name, create=True)
        for text in "abc":
            await log.append(lease, [said(text)], policy="p", time=NOW)
            await log.settle(lease)
        assert [event.seq for event in await log.read(name)] == [1, 2, 3]

    await asyncio.gather(*(work(log, f"s{number}") for number, log in enumerate(logs, start=1)))
    assert count_writers() == before + 1
    assert count_descriptors(path) < alone + len(logs), "what reads for a moment is all that may have come"
    for log in [first, *logs]:
        log.close()
    assert count_writers() == before
    assert count_descriptors(path) == 0


async def test_what_is_left_goes_on_when_one_of_several_logs_is_closed(path: Path) -> None:
    first, second = SqliteLog(path), SqliteLog(path)
    given, kept = await first.claim("a", create=True), await second.claim("b", create=True)
    await first.append(given, [said("one")], policy="p", time=NOW)
    first.close()
    first.close()
    with pytest.raises(LogError, match="is closed"):
        await first.claim("a")
    await second.append(kept, [said("two")], policy="p", time=NOW)
    await second.settle(kept)
    assert (await second.head("a")).seq == 1, "closing a log writes what was appended to it"
    assert (await second.claim("a")).fence == 2, "closing a log gives its sessions back"
    second.close()


async def test_a_log_nobody_closed_lets_go_of_the_file_when_it_is_collected(path: Path) -> None:
    kept, dropped = SqliteLog(path), SqliteLog(path)
    shared = kept._file
    assert shared.uses == 2
    del dropped
    assert shared.uses == 1
    kept.close()
    assert shared.key not in shared_file._open


async def test_another_file_at_the_same_path_is_opened_for_itself(path: Path) -> None:
    old = SqliteLog(path)
    await old.claim("s", create=True)
    path.parent.rename(path.parent.with_name("moved"))
    new = SqliteLog(path)
    assert await new.sessions() == []
    new.close()
    old.close()


FORKED = """
import asyncio, os, sys
from foregate.schemas.errors import LogError
from foregate.telemetry.log.sqlite_log import SqliteLog

log = SqliteLog(sys.argv[1])
asyncio.run(log.claim("s", create=True))

def try_all():
    for act in (lambda: asyncio.run(log.claim("t", create=True)), lambda: asyncio.run(log.sessions()),
                lambda: list(log.lines("s")), lambda: SqliteLog(sys.argv[1])):
        try:
            act()
        except LogError as error:
            print(str(error).count("spawn"), flush=True)
    log.close()

if (child := os.fork()) == 0:
    try_all()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
log.close()
if (child := os.fork()) == 0:
    SqliteLog(sys.argv[1]).close()
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_is_refused_a_log_that_was_open_and_may_open_one_that_was_not(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-Ic", FORKED, path], capture_output=True, text=True, check=True, timeout=FOREVER
    )
    assert ran.stdout.split() == ["1", "1", "1", "1", "7", "9"]
