"""Freeing what nothing names: never what is needed, also while sessions run and where it ends in the middle."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.sqlite_reader import find_gaps
from foregate.telemetry.queries.log_place import hold_place
from foregate.telemetry.queries.log_statistics import count_log
from foregate.telemetry.queries.used_blobs import GRACE, compact_log
from foregate.telemetry.queries.verify import verify_session
from tests.telemetry.log.test_parts import run
from tests.telemetry.made import NOW, said
from tests.telemetry.queries.kept import Kept

LONG_AGO = time.time() - 2 * GRACE


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A log without sessions."""
    return Kept(tmp_path / "home")


def age(kept: Kept, *names: str) -> None:
    """Let bytes have been stored long ago."""
    for name in names:
        os.utime(kept.store._find_path(name), (LONG_AGO, LONG_AGO))


async def test_only_what_nothing_names_is_removed(kept: Kept) -> None:
    inner, unused, named = kept.store.put(b"inner"), kept.store.put(b"unused"), kept.store.put(b"named")
    outer = kept.store.put(json.dumps({"hash": inner}).encode())
    await kept.write("s", f"see {named} and {outer}", ended=NOW)
    found = count_log(kept.place, kept.store)
    assert (found.blobs.count, found.unused.count, found.unused.bytes) == (4, 1, 6)
    done = compact_log(kept.place, kept.store)
    assert (done.blobs.removed.count, done.blobs.kept.count, done.running) == (1, 0, {})
    assert not kept.is_stored(unused)
    assert all(map(kept.is_stored, (inner, named, outer)))


async def test_while_a_session_runs_what_was_stored_of_late_stays_and_the_file_is_left_alone(kept: Kept) -> None:
    fresh, old, wanted = kept.store.put(b"fresh"), kept.store.put(b"old"), kept.store.put(b"wanted again")
    age(kept, old, wanted)
    log = SqliteLog(kept.place.events)
    lease = await log.claim("s", create=True)
    await log.append(lease, [said("a")], policy="p", time=NOW)
    assert kept.store.put(b"wanted again") == wanted
    done = compact_log(kept.place, kept.store)
    assert set(done.running) == {"s"}
    assert (done.blobs.removed.count, done.blobs.kept.count) == (1, 2)
    assert (kept.is_stored(fresh), kept.is_stored(old), kept.is_stored(wanted)) == (True, False, True)
    await log.append(lease, [said("b")], policy="p", time=NOW)
    await log.settle(lease)
    log.close()
    assert compact_log(kept.place, kept.store).blobs.removed.count == 2


async def test_the_file_gets_smaller_and_every_session_verifies_as_before(kept: Kept) -> None:
    await kept.write("a", "x" * 500_000)
    await kept.write("b", "hello", ended=NOW)
    log = SqliteLog(kept.place.events)
    await log.erase("a", at=NOW, by="ann", why="")
    log.close()
    before = count_log(kept.place, kept.store)
    assert before.free > 400_000
    done = compact_log(kept.place, kept.store)
    assert done.before - done.after > 400_000
    after = count_log(kept.place, kept.store)
    assert (after.free, after.freed, after.kinds) == (0, 0, before.kinds)
    log = SqliteLog(kept.place.events)
    assert [verify_session(log, name).ok for name in await log.sessions()] == [True, True]
    log.close()


def test_bytes_that_were_stored_again_while_they_were_to_go_are_there_or_stored_anew(kept: Kept) -> None:
    name = kept.store.put(b"data")
    age(kept, name)
    assert kept.store.remove(name, unless_since=time.time() - GRACE)
    assert kept.store.put(b"data") == name
    assert kept.store.get(name) == b"data"
    assert not kept.store.remove(name, unless_since=time.time() - GRACE)


def test_one_process_at_a_time_keeps_a_log(kept: Kept) -> None:
    with hold_place(kept.place), pytest.raises(LogError, match="another `foregate log` works on"):
        compact_log(kept.place, kept.store)


async def test_sessions_that_somebody_deleted_leave_a_gap_but_for_the_newest(kept: Kept) -> None:
    for name in "abcd":
        await kept.write(name)
    assert count_log(kept.place, kept.store).missing == ()
    log = SqliteLog(kept.place.events)
    for name in "bd":
        run(log, "DELETE FROM leases WHERE session = ?", name)
        run(log, "DELETE FROM events WHERE session = ?", name)
    log.close()
    assert count_log(kept.place, kept.store).missing == ((2, 2),)
    assert find_gaps([2, 3, 7]) == [(1, 1), (4, 6)]


async def test_what_is_counted_is_what_there_is(kept: Kept) -> None:
    await kept.write("s", "a", "b", ended=NOW)
    await kept.write("s.c1.1", "child")
    log = SqliteLog(kept.place.events)
    await log.claim("never", create=True)
    found = count_log(kept.place, kept.store)
    log.close()
    assert (found.sessions, found.children, found.ended, found.running, found.never_begun) == (2, 1, 1, 1, 1)
    assert {kind: one.events for kind, one in found.kinds.items()} == {
        "user_message": 3,
        "session_started": 2,
        "session_ended": 1,
    }
    assert found.shared.events == 2
