"""Who writes what a session waits for, and that nothing counts as written which a signal kept from being so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError
from foregate.telemetry.log import group_commit
from foregate.telemetry.log.group_commit import GroupCommit
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.forever import FOREVER
from tests.telemetry.log.test_sqlite_log import say


@pytest.fixture
async def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteLog]:
    """A log whose thread writes nothing by itself for a minute."""
    monkeypatch.setattr(group_commit, "LINGER", 60.0)
    made = SqliteLog(tmp_path / "events.db")
    yield made
    made.close()


async def wait_for_the_thread(log: SqliteLog) -> None:
    """Wait until the thread has let go of the file: it has it for a moment longer than a claim takes."""

    def wait() -> None:
        with log._writer._writing:
            pass

    await asyncio.to_thread(wait)


@pytest.mark.parametrize("sessions", [1, 2])
async def test_a_session_alone_in_its_log_writes_what_it_waits_for_and_others_leave_it_to_the_one_thread(
    log: SqliteLog, sessions: int
) -> None:
    leases = [await log.claim(f"s{number}", create=True) for number in range(sessions)]
    threads: list[bool] = []
    here = threading.current_thread()
    log._writer._connection.set_trace_callback(
        lambda said: threads.append(threading.current_thread() is here) if said == "COMMIT" else None
    )
    await wait_for_the_thread(log)
    for lease in leases:
        await say(log, lease, "one")
        await log.settle(lease)
    assert set(threads) == {sessions == 1}


@pytest.mark.parametrize("where", ["_take_batch", "_insert_rows"])
@pytest.mark.parametrize("more", [True, False])
async def test_a_commit_that_a_signal_interrupts_is_never_taken_for_done_nor_written_behind(
    log: SqliteLog, where: str, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, whole = await log.claim("s", create=True), getattr(GroupCommit, where)

    def interrupt(self: GroupCommit, *given: object) -> object:
        found = whole(self, *given)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return found

    await wait_for_the_thread(log)
    await say(log, lease, "one")
    with monkeypatch.context() as patched:
        patched.setattr(GroupCommit, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            await log.settle(lease)
    if where == "_insert_rows":
        with pytest.raises(LogError, match=r"KeyboardInterrupt.*then resume the session"):
            await say(log, lease, "two")
    elif more:
        await say(log, lease, "two")
    with pytest.raises(LogError, match="resume the session"):
        await log.settle(lease)
    assert log.head_anchor("s")[0] == 0
    await asyncio.wait_for(log.claim("t", create=True), FOREVER)
