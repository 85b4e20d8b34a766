"""The SQLite log: durable once settled, one holder per session, nothing that is not ours."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError, SessionHeld, TamperedLog
from foregate.schemas.event import GENESIS, Draft
from foregate.schemas.protocols import Head, Lease
from foregate.telemetry import chain
from foregate.telemetry.sqlite_log import SqliteLog

NOW = "2026-01-01T00:00:00.000000Z"


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


def said(text: str) -> Draft:
    """Return a small event."""
    return Draft("user_message", "user", {"text": text})


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
    assert [event.body["text"] for event in events] == ["one", "zwei ☃"]
    assert [event.seq for event in chain.verified(log.lines("s"), "s")] == [1, 2]


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
    assert len(list(chain.verified(log.lines("s"), "s"))) == 2
    other.close()


async def test_the_head_tells_whether_the_last_event_ended_the_session(log: SqliteLog) -> None:
    lease = await log.claim("s", create=True)
    assert await log.head("s") == Head(0, GENESIS, False)
    (event,) = await log.append(lease, [Draft("session_ended", "foregate", {"events": 1})], policy="p", time=NOW)
    assert await log.head("s") == Head(1, event.hash, True)
    await say(log, lease, "one thing more")
    assert (await log.head("s")).ended is False


async def test_sessions_are_listed_newest_first(log: SqliteLog) -> None:
    for name in ("a", "c", "b"):
        await log.claim(name, create=True)
    assert await log.sessions() == ["b", "c", "a"]


async def test_reading_starts_after_a_number_and_stops_at_a_limit(log: SqliteLog) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, *"abcde")
    await log.append(lease, [Draft("checkpoint", "foregate", {})], policy="p", time=NOW)
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
    await other.claim("s", create=True)
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
    await say(other, heir, "after")
    assert [event.body["text"] for event in await other.read("s")] == ["before", "after"]
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
from foregate.telemetry.sqlite_log import SqliteLog

async def main():
    log = SqliteLog(Path(sys.argv[1]))
    lease = await log.claim("s", create=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    stored = 0
    try:
        for number in range(100):
            body = {"text": "x" * 10_000}
            await log.append(lease, [Draft("user_message", "user", body)], policy="p", time="")
            await log.settle(lease)
            stored = number + 1
    except LogError as error:
        print(stored, str(error).count("\\n"), "resume the session" in str(error))

asyncio.run(main())
"""


def test_a_full_disk_stops_the_session_and_keeps_what_was_acknowledged(log: SqliteLog, path: Path) -> None:
    child = subprocess.run([sys.executable, "-I", "-c", FULL_DISK, path], capture_output=True, text=True, check=True)
    stored, newlines, advice = child.stdout.split()
    assert (newlines, advice) == ("0", "True")
    assert 0 < int(stored) <= len(list(chain.verified(log.lines("s"), "s"))) < 100


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
    statements: list[str] = []
    log._writer._connection.set_trace_callback(statements.append)
    for lease in leases:
        await say(log, lease, "one")
    await asyncio.gather(*(log.settle(lease) for lease in leases))
    log._writer._connection.set_trace_callback(None)
    assert 1 <= statements.count("COMMIT") <= 3
    assert [log.kept_head(f"s{number}")[0] for number in range(20)] == [1] * 20


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
    assert len(list(chain.verified(log.lines("s"), "s"))) == 1


async def test_only_the_owner_may_read_the_file_and_enter_its_folder(log: SqliteLog, path: Path) -> None:
    lease = await log.claim("s", create=True)
    await say(log, lease, "one")
    await log.settle(lease)
    modes = {item.name: stat.S_IMODE(item.stat().st_mode) for item in [path.parent, *path.parent.iterdir()]}
    assert modes == {"home": 0o700, "events.db": 0o600, "events.db-wal": 0o600, "events.db-shm": 0o600}


async def test_a_log_others_could_read_is_closed_to_them_when_opened(log: SqliteLog, path: Path) -> None:
    path.chmod(0o644)
    SqliteLog(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def foreign_text(path: Path) -> None:
    """Write a text file."""
    path.write_text("these are notes, not a database at all")


def foreign_database(path: Path) -> None:
    """Write somebody else's database."""
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()


def other_tables(path: Path) -> None:
    """Write a log of ours that somebody added a trigger to."""
    SqliteLog(path).close()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END")
    other.close()


def newer(path: Path) -> None:
    """Write a log of a later version."""
    SqliteLog(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (foreign_text, "is not a Foregate log; name another file"),
        (foreign_database, "is not a Foregate log; name another file"),
        (other_tables, "is not a Foregate log any more"),
        (newer, "written by a newer Foregate"),
        (Path.mkdir, "cannot open the log"),
    ],
)
def test_a_file_that_is_not_our_log_is_refused_and_left_alone(tmp_path: Path, make: object, sentence: str) -> None:
    path = tmp_path / "file"
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(LogError, match=sentence):
        SqliteLog(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_log_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no log at"):
        SqliteLog(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()


async def test_a_closed_log_says_so(path: Path) -> None:
    log = SqliteLog(path)
    log.close()
    with pytest.raises(LogError, match="is closed"):
        await log.claim("s", create=True)


async def test_a_log_that_stays_locked_is_one_clear_error(
    log: SqliteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await log.claim("s", create=True)
    monkeypatch.setattr("foregate.telemetry.sqlite_file.PATIENCE", 0.05)
    hog = sqlite3.connect(path, isolation_level=None)
    hog.execute("BEGIN IMMEDIATE")
    await say(log, lease, "one")
    with pytest.raises(LogError, match="has been locked by another process"):
        await log.settle(lease)
    hog.close()
