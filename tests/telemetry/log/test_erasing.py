"""Erasing a session: what its events say is gone from the file, and the chain still proves that they were there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foregate.schemas.errors import LogError, SessionHeld
from foregate.schemas.event import Draft
from foregate.schemas.event_body import SessionEnded
from foregate.telemetry.export.export import Export, ExportOptions, SessionFamily
from foregate.telemetry.log.memory_log import MemoryBlobs
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session
from tests.telemetry.log.test_parts import HASH, began, begin, run
from tests.telemetry.log.test_questions import asks
from tests.telemetry.made import NOW, said

SECRET = "the number of the account is 4711-0815"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    """An open log."""
    log = SqliteLog(tmp_path / "events.db")
    yield log
    log.close()


async def write(log: SqliteLog, *, ended: bool = True) -> None:
    """Write a session of four events, which may end with the last."""
    last = Draft(SessionEnded(events=5), "foregate") if ended else said("bye")
    await begin(log, "s", began(), said(SECRET), asks(), said("more"))
    lease = await log.claim("s")
    if ended:
        await log.append(lease, [Draft(SessionEnded(events=6), "foregate")], policy=HASH, time=NOW)
    else:
        await log.append(lease, [last], policy=HASH, time=NOW)
    await log.release(lease)


async def erase(log: SqliteLog, session: str = "s") -> int:
    """Erase a session as the operator would."""
    return await log.erase(session, at=NOW, by="ann", why="older than a year")


async def test_an_ended_session_is_still_proven_when_it_is_erased(log: SqliteLog) -> None:
    await write(log)
    before = verify_session(log, "s")
    assert await erase(log) == 5
    found = verify_session(log, "s")
    assert (found.ok, found.proven, found.erased, found.head) == (True, True, 5, before.head)
    assert found.sentence == "verified: 6 events, 5 of them erased and there by their hashes alone"
    assert [text != "" for _, text, _ in log.lines("s")] == [False] * 5 + [True]


async def test_the_last_event_of_an_open_session_is_vouched_for_by_the_head(log: SqliteLog) -> None:
    await write(log, ended=False)
    assert await erase(log) == 6
    found = verify_session(log, "s")
    assert (found.ok, found.proven, found.erased) == (True, False, 6)
    run(log, "UPDATE events SET hash = replace(hash, substr(hash, 1, 1), 'z') WHERE seq = 6")
    assert [defect.code for defect in verify_session(log, "s").defects] == ["other_head"]


async def test_nothing_of_what_was_said_is_left_in_the_files(log: SqliteLog) -> None:
    await write(log)
    assert any(SECRET.encode() in file.read_bytes() for file in log.path.parent.glob("events.db*"))
    await erase(log)
    assert not any(SECRET.encode() in file.read_bytes() for file in log.path.parent.glob("events.db*"))
    assert run(log, "SELECT (SELECT count(*) FROM parts), (SELECT count(*) FROM cuts)") == [(0, 0)]
    assert await log.list_asked() == []


async def test_what_other_sessions_have_in_common_with_it_stays(log: SqliteLog) -> None:
    await write(log)
    await begin(log, "other")
    await erase(log)
    assert verify_session(log, "other").ok
    assert [event.seq for event in log.events("other")] == [1, 2]


async def test_readers_pass_over_what_was_erased_and_nobody_goes_on_with_it(log: SqliteLog) -> None:
    await write(log)
    await erase(log)
    assert [event.kind for event in log.events("s")] == ["session_ended"]
    assert [event.kind for event in log.events("s", kinds=("user_message", "session_ended"))] == ["session_ended"]
    assert list(log.events("s", kinds=("user_message",))) == []
    erasures = log.list_erased("s")
    assert (list(erasures), erasures[1].by, erasures[1].why) == ([1, 2, 3, 4, 5], "ann", "older than a year")
    for refused in (log.read("s"), log.claim("s")):
        with pytest.raises(LogError, match=f"session `s` was erased by ann at {NOW} \\(older than a year\\)"):
            await refused
    assert await erase(log) == 0


async def test_an_erased_session_is_left_out_of_an_export_and_named(log: SqliteLog) -> None:
    await write(log)
    await erase(log)
    export = Export(log, MemoryBlobs(), ExportOptions())
    assert list(export.export_family(SessionFamily(["s"]))) == []
    assert "`s` was erased by ann" in export.tally.skipped["s"]
    assert not export.tally.tampered


async def test_an_event_without_a_text_that_nobody_erased_is_a_defect(log: SqliteLog) -> None:
    await write(log)
    run(log, "UPDATE events SET text = '' WHERE seq = 2")
    assert verify_session(log, "s").defects[0].message == "event 2 has no text, and nothing says that it was erased"
    await erase(log)
    assert verify_session(log, "s").defects[0].seq == 2


async def test_an_erased_event_whose_hash_the_next_one_does_not_vouch_for_is_a_defect(log: SqliteLog) -> None:
    await write(log)
    await erase(log)
    run(log, "UPDATE events SET hash = replace(hash, substr(hash, 1, 1), 'z') WHERE seq = 5")
    assert verify_session(log, "s").defects[0].message == "event 6 does not continue the chain"


async def test_a_session_that_is_open_is_not_erased(log: SqliteLog) -> None:
    await write(log, ended=False)
    lease = await log.claim("s")
    with pytest.raises(SessionHeld, match="is open in"):
        await erase(log)
    await log.append(lease, [said("still here")], policy=HASH, time=NOW)
    await log.release(lease)
    assert verify_session(log, "s").erased == 0


async def test_a_session_that_is_not_there_cannot_be_erased(log: SqliteLog) -> None:
    with pytest.raises(LogError, match="there is no session `none`"):
        await erase(log, "none")


@pytest.fixture
def build_that_overwrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have SQLite begin as a build does that leaves what is deleted in the file."""

    def connect(*given: Any, **named: Any) -> sqlite3.Connection:
        made = _CONNECT(*given, **named)
        made.execute("PRAGMA secure_delete=OFF").fetchone()
        return made

    monkeypatch.setattr(sqlite3, "connect", connect)


_CONNECT = sqlite3.connect


@pytest.mark.usefixtures("build_that_overwrites_nothing")
async def test_an_answer_that_was_taken_is_gone_from_the_files_whatever_sqlite_does_by_itself(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    await begin(log, "s", began(), asks())
    await begin(log, "t", asks())
    await log.hand_in("t", 1, f"{SECRET}, {'and more ' * 20}")
    await begin(log, "t", asks())
    await erase(log)  # moves what stands beside the file into it
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.glob("events.db*"))
    log.close()
