"""Backups and copies: one moment of the log, verified, readable alone, and there whole or not at all."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.backup import back_up, copy_sessions
from foregate.telemetry.queries.log_place import LogPlace
from foregate.telemetry.queries.log_statistics import count_log
from foregate.telemetry.queries.verify import verify_session
from tests.telemetry.log.test_parts import run
from tests.telemetry.made import NOW, said
from tests.telemetry.queries.kept import Kept


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A log without sessions."""
    return Kept(tmp_path / "home")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """Where a copy goes; what is there may be read only."""
    yield tmp_path / "copies" / "copy"
    for path in (tmp_path / "copies").rglob("*"):
        path.chmod(0o700)


def open_copy(target: Path) -> SqliteLog:
    """Open what was copied, to read it."""
    return SqliteLog(target / "events.db", read_only=True)


async def test_a_backup_is_one_moment_of_a_log_that_is_written_to(kept: Kept, target: Path) -> None:
    named, unused = kept.store.put(b"named"), kept.store.put(b"unused")
    memory = kept.place.events.with_name("memory.json")
    memory.write_text("{}")
    log = SqliteLog(kept.place.events)
    lease = await log.claim("s", create=True)

    async def go_on() -> None:
        for number in range(200):
            await log.append(lease, [said(f"{number} {named}")], policy="p", time=NOW)
            await log.settle(lease)

    await log.append(lease, [said("first")], policy="p", time=NOW)
    await log.settle(lease)
    writing = asyncio.create_task(go_on())
    place = LogPlace(kept.place.events, kept.place.blobs, (memory, memory.with_name("none.json")))
    done = await asyncio.to_thread(back_up, place, kept.store, target)
    await writing
    log.close()
    assert (done.is_sound, done.sessions, done.files) == (True, 1, ("memory.json",))
    copy = open_copy(target)
    assert verify_session(copy, "s").events == done.events
    assert await copy.find_holder("s") == ""
    copy.close()
    there = {blob.name for blob in FileBlobs(target / "blobs", read_only=True).list_blobs()}
    assert there == ({named} if done.events > 1 else set())
    assert unused not in there
    assert sorted(os.listdir(target)) == ["blobs", "events.db", "memory.json"]
    assert stat.S_IMODE((target / "events.db").stat().st_mode) == 0o600


async def test_a_copy_where_nothing_can_be_written_can_be_read_and_one_taken_up_again_is_a_log_as_before(
    kept: Kept, target: Path
) -> None:
    await kept.write("s", "hello", ended=NOW)
    back_up(kept.place, kept.store, target)
    with closing(open_copy(target)) as copy, pytest.raises(LogError, match="may only be read here"):
        await copy.claim("s")
    with closing(SqliteLog(target / "events.db")) as log:
        assert (await log.claim("t", create=True)).fence == 1
        assert run(log, "PRAGMA journal_mode") == [("wal",)]


def test_something_that_is_there_already_is_left_as_it_is(kept: Kept, target: Path) -> None:
    target.mkdir(parents=True)
    with pytest.raises(LogError, match="there is something at"):
        back_up(kept.place, kept.store, target)
    assert os.listdir(target.parent) == ["copy"]
    assert os.listdir(target) == []


async def test_what_was_changed_is_named_and_nothing_half_is_left(kept: Kept, target: Path) -> None:
    named = kept.store.put(b"named")
    await kept.write("good", ended=NOW)
    await kept.write("bad", named, ended=NOW)
    kept.store._find_path(named).write_bytes(b"other")
    log = SqliteLog(kept.place.events)
    run(log, "UPDATE events SET text = replace(text, 'p', 'q') WHERE session = 'bad' AND seq = 2")
    log.close()
    done = back_up(kept.place, kept.store, target)
    assert not done.is_sound
    assert ([name for name, _ in done.unverified], done.damaged) == (["bad"], (named,))


async def test_sessions_are_copied_with_what_they_need_and_without_the_rest(kept: Kept, target: Path) -> None:
    mine, other = kept.store.put(b"mine"), kept.store.put(b"other")
    await kept.write("a", mine, ended=NOW)
    await kept.write("b", other)
    await kept.write("a.c1.1", "child")
    done = copy_sessions(kept.place, kept.store, ["a", "a.c1.1"], target)
    assert (done.is_sound, done.sessions, done.blobs.count) == (True, 2, 1)
    copy = open_copy(target)
    assert await copy.sessions() == ["a.c1.1", "a"]
    assert verify_session(copy, "a").proven
    with closing(SqliteLog(kept.place.events)) as log:
        assert copy.head_anchor("a") == log.head_anchor("a")
    copy.close()
    place = LogPlace(target / "events.db", target / "blobs")
    assert count_log(place, FileBlobs(place.blobs, read_only=True)).missing == ()
