"""The SQLite log: durable once settled, one holder per session, nothing that is not ours."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError, SessionHeld, TamperedLog
from foregate.schemas.event import GENESIS, Draft
from foregate.schemas.event_body import SessionEnded, UserMessage
from foregate.schemas.protocols import Head, Lease
from foregate.telemetry.log import chain
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.events import bodies
from tests.forever import FOREVER
from tests.telemetry.made import CHECKPOINT, NOW, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is, in a folder that is not there yet."""
    return tmp_path / "home" / "events.db"


@pytest.fixture
def log(path: Path) -> Iterator[SqliteLog]:
    """An open log."""
    log = SqliteLog(path)
    yield log
    log.close()


async def say(log: SqliteLog, lease: Lease, *texts: str) -> None:
    """Append one event per text."""
    await log.append(lease, [said(text) for text in texts], policy="p", time=NOW)


async def test_what_is_settled_is_there_after_opening_again(log: SqliteLog, path: Path) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, "one", "zwei ☃")
    await log.settle(lease)
    other = SqliteLog(path)
    events = await other.read("s")
    other.close()
    assert [body.text for body in bodies(events, UserMessage)] == ["one", "zwei ☃"]
    assert [event.seq for event in chain.verify_lines(log.lines("s"), "s")] == [1, 2]


async def test_events_nobody_settles_are_written_before_the_log_is_closed(path: Path) -> None:
    log = SqliteLog(path)
    await say(log, await log.claim("s", create=True), "one")
    log.close()
    log.close()
    again = SqliteLog(path)
    assert (await again.head("s")).seq == 1
    again.close()


async def test_a_chain_goes_on_where_the_last_holder_left_it(log: SqliteLog, path: Path) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, "one")
    await log.release(lease)
    await log.release(lease)
    other = SqliteLog(path)
    second = await other.claim("s")
    assert second.fence == lease.fence + 1
    await say(other, second, "two")
    await other.settle(second)
    assert len(list(chain.verify_lines(log.lines("s"), "s"))) == 2
    other.close()


async def test_the_head_tells_whether_the_last_event_ended_the_session(log: SqliteLog) -> None:
    lease = await log.claim("s", create=True)
    assert await log.head("s") == Head(0, GENESIS, False)
    (event,) = await log.append(lease, [Draft(SessionEnded(events=1), "foregate")], policy="p", time=NOW)
    assert await log.head("s") == Head(1, event.hash, True)
    await say(log, lease, "one thing more")
    assert (await log.head("s")).ended is False


async def test_sessions_are_listed_newest_first(log: SqliteLog) -> None:
    for name in ("a", "c", "b"):
        await say(log, await log.claim(name, create=True), "one")
        await log.settle(log._held[name].lease)
    assert await log.sessions() == ["b", "c", "a"]


async def test_a_session_whose_process_ended_before_its_first_event_is_none_and_its_name_can_be_taken_again(
    log: SqliteLog, path: Path
) -> None:
    other = SqliteLog(path)
    await other.claim("s", create=True)
    assert await log.sessions() == []
    other.close()
    with pytest.raises(LogError, match="there is no session"):
        await log.head("s")
    await say(log, await log.claim("s", create=True), "one")
    log.close()
    again = SqliteLog(path)
    assert await again.sessions() == ["s"]
    again.close()


async def test_reading_starts_after_a_number_and_stops_at_a_limit(log: SqliteLog) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, *"abcde")
    await log.append(lease, [CHECKPOINT], policy="p", time=NOW)
    assert [event.seq for event in await log.read("s", after=2, limit=2)] == [3, 4]
    assert [event.seq for event in log.events("s", kinds=("checkpoint",))] == [6]
    assert [event.seq for event in log.events("s", after=4)] == [5, 6]


async def test_an_unknown_session_is_one_clear_error_everywhere(log: SqliteLog) -> None:
    for ask in (log.claim("x"), log.read("x"), log.head("x")):
        with pytest.raises(LogError, match="there is no session `x`"):
            await ask
    with pytest.raises(LogError, match="there is no session `x`"):
        list(log.lines("x"))


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "x" * 201])
async def test_a_name_that_could_not_be_shown_names_no_session(log: SqliteLog, name: str) -> None:
    with pytest.raises(LogError, match="cannot name a session"):
        await log.claim(name, create=True)


async def test_a_session_has_one_holder_at_a_time(log: SqliteLog, path: Path) -> None:
    await log.claim("s", create=True)
    other = SqliteLog(path)
    for second in (log, other):
        with pytest.raises(SessionHeld, match=f"session `s` is open in this process .{os.getpid()}."):
            await second.claim("s", create=True)
    await other.claim("t", create=True)
    other.close()


async def test_closing_gives_all_sessions_back(log: SqliteLog, path: Path) -> None:
    other = SqliteLog(path)
    await say(other, await other.claim("s", create=True), "one")
    other.close()
    assert (await log.claim("s")).fence == 2


async def test_a_holder_that_was_succeeded_can_write_nothing_more(log: SqliteLog, path: Path) -> None:
    zombie = await log.claim("s", create=True)
    await say(log, zombie, "before")
    await log.settle(zombie)
    other = SqliteLog(path)
    heir = await other.claim("s", take_over=True)
    await say(log, zombie, "too late")
    with pytest.raises(SessionHeld, match="taken over"):
        await log.settle(zombie)
    with pytest.raises(SessionHeld, match="taken over"):
        await say(log, zombie, "later still")
    failed = log._held["s"].failed
    assert failed is not None
    assert failed.__traceback__ is None, "what is kept of a failure would keep the rows in memory"
    await say(other, heir, "after")
    assert [body.text for body in bodies(await other.read("s"), UserMessage)] == ["before", "after"]
    other.close()


async def test_one_lost_session_does_not_take_its_neighbours_with_it(log: SqliteLog, path: Path) -> None:
    zombie, sound = await log.claim("z", create=True), await log.claim("s", create=True)
    other = SqliteLog(path)
    await other.claim("z", take_over=True)
    await say(log, zombie, "too late")
    await say(log, sound, "fine")
    results = await asyncio.gather(log.settle(zombie), log.settle(sound), return_exceptions=True)
    assert isinstance(results[0], SessionHeld)
    assert results[1] is None
    other.close()


async def test_a_commit_that_fails_ends_the_lease_and_nothing_is_written_over_the_gap(
    log: SqliteLog, path: Path
) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, "one")
    await log.settle(lease)
    with sqlite3.connect(path) as intruder:
        intruder.execute("INSERT INTO events (session, seq, text, hash) VALUES ('s', 3, '{}', '')")
    intruder.close()
    await say(log, lease, "two", "three")
    for _ in range(2):
        with pytest.raises(LogError, match="cannot write the log"):
            await log.settle(lease)
        with pytest.raises(LogError, match="cannot write the log"):
            await say(log, lease, "four")
    with pytest.raises(LogError, match="cannot write the log"):
        await log.release(lease)
    assert [seq for seq, _, _ in log.lines("s")] == [1, 3]


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from foregate.schemas.errors import LogError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import UserMessage
from foregate.telemetry.log.sqlite_log import SqliteLog

async def main():
    log = SqliteLog(Path(sys.argv[1]))
    lease = await log.claim("s", create=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    stored = 0
    try:
        for number in range(100):
            body = UserMessage(text="x" * 10_000)
            await log.append(lease, [Draft(body, "user")], policy="p", time="")
            await log.settle(lease)
            stored = number + 1
    except LogError as error:
        print(stored, str(error).count("\\n"), "resume the session" in str(error))

asyncio.run(main())
"""


def test_a_full_disk_stops_the_session_and_keeps_what_was_acknowledged(log: SqliteLog, path: Path) -> None:
    command = [sys.executable, "-I", "-c", FULL_DISK, path]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    stored, newlines, advice = child.stdout.split()
    assert (newlines, advice) == ("0", "True")
    assert 0 < int(stored) <= len(list(chain.verify_lines(log.lines("s"), "s"))) < 100


async def test_a_session_whose_last_events_are_gone_is_not_written_to_again(log: SqliteLog, path: Path) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, "one", "two")
    await log.release(lease)
    with sqlite3.connect(path) as intruder:
        intruder.execute("DELETE FROM events WHERE seq = 2")
    intruder.close()
    with pytest.raises(TamperedLog, match="ends at event 1, but event 2 was written") as caught:
        await log.claim("s")
    assert caught.value.seq == 2


async def test_sessions_that_settle_together_share_a_commit(log: SqliteLog) -> None:
    leases = [await log.claim(f"s{number}", create=True) for number in range(20)]
    commits: list[str] = []
    log._writer._connection.set_trace_callback(lambda said: commits.append(said) if said == "COMMIT" else None)

    async def turn(lease: Lease) -> None:
        await say(log, lease, "one")
        await log.settle(lease)

    await asyncio.gather(*map(turn, leases))
    assert len(commits) <= 3
    assert [log.head_anchor(f"s{number}")[0] for number in range(20)] == [1] * 20


async def test_an_event_nobody_waits_for_is_written_soon_all_the_same(log: SqliteLog) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, "one")
    async with asyncio.timeout(FOREVER):
        while log.head_anchor("s")[0] == 0:  # noqa: ASYNC110 - nobody waits, so nobody is told
            await asyncio.sleep(0)


async def test_while_another_process_writes_a_settling_session_waits_and_its_loop_does_not(
    log: SqliteLog, path: Path
) -> None:
    lease = await log.claim("s", create=True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await say(log, lease, "one")
    settling = asyncio.create_task(log.settle(lease))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not settling.done()
    other.execute("ROLLBACK")
    other.close()
    await settling
    assert log.head_anchor("s")[0] == 1


async def test_no_event_is_lost_or_doubled_when_two_loops_append_at_once(log: SqliteLog) -> None:
    names = [f"s{number}" for number in range(6)]
    leases = [await log.claim(name, create=True) for name in names]

    async def work(lease: Lease, number: int) -> None:
        for turn in range(60):
            await say(log, lease, f"{turn} a", f"{turn} b")
            if turn % (number + 1) == 0:
                await log.settle(lease)
        await log.settle(lease)

    async def half(numbers: range) -> None:
        await asyncio.gather(*(work(leases[number], number) for number in numbers))

    elsewhere = threading.Thread(target=lambda: asyncio.run(half(range(3))))
    elsewhere.start()
    await half(range(3, 6))
    await asyncio.to_thread(elsewhere.join)
    wanted = [f"{turn} {half}" for turn in range(60) for half in "ab"]
    for name in names:
        assert [body.text for body in bodies(chain.verify_lines(log.lines(name), name), UserMessage)] == wanted


async def test_a_backlog_waits_for_the_disk_instead_of_growing(log: SqliteLog) -> None:
    lease = await log.claim("s", create=True)
    for _ in range(12):
        await say(log, lease, "x" * 1_000_000)
        assert log._held["s"].size <= 6_000_000
    await log.settle(lease)
    assert (await log.head("s")).seq == 12


async def test_an_event_that_cannot_be_written_leaves_the_chain_as_it_was(log: SqliteLog) -> None:
    lease = await log.claim("s", create=True)
    with pytest.raises(Exception, match="cannot be written"):
        await log.append(lease, [said("fine"), said("\ud800")], policy="p", time=NOW)
    await say(log, lease, "one")
    await log.settle(lease)
    assert len(list(chain.verify_lines(log.lines("s"), "s"))) == 1


async def test_a_closed_log_says_so(path: Path) -> None:
    log = SqliteLog(path)
    log.close()
    with pytest.raises(LogError, match="is closed"):
        await log.claim("s", create=True)


async def test_a_log_that_stays_locked_is_one_clear_error(
    log: SqliteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await log.claim("s", create=True)
    monkeypatch.setattr("foregate.telemetry.log.sqlite_file.PATIENCE", 0.05)
    hog = sqlite3.connect(path, isolation_level=None)
    hog.execute("BEGIN IMMEDIATE")
    await say(log, lease, "one")
    with pytest.raises(LogError, match="has been locked by another process"):
        await log.settle(lease)
    hog.close()
