"""Erasing and retention: what goes is gone, what stays is proven, and nobody's running session is touched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from foregate.schemas.errors import SessionHeld, TamperedLog, UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.erase import check_erasable, erase_sessions, skip_unerasable
from foregate.telemetry.queries.log_place import find_families
from foregate.telemetry.queries.retain import choose_expired, parse_age, parse_size
from foregate.telemetry.queries.verify import verify_session
from tests.telemetry.log.test_parts import run
from tests.telemetry.made import NOW
from tests.telemetry.queries.kept import Kept


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A log without sessions."""
    return Kept(tmp_path / "home")


async def test_what_a_session_said_and_stored_is_gone_and_its_hashes_are_not(kept: Kept) -> None:
    mine, shared = kept.store.put(b"mine"), kept.store.put(b"shared")
    await kept.write("a", f"{mine} {shared}", "secret", ended=NOW)
    await kept.write("b", shared, ended=NOW)
    assert check_erasable(kept.place, ["a"]) == 3
    done = await erase_sessions(kept.place, kept.store, ["a"], kinds=(), at=NOW, by="ann", why="asked to")
    assert (done.events, done.blobs.removed.count) == (3, 1)
    assert (kept.is_stored(mine), kept.is_stored(shared)) == (False, True)
    log = SqliteLog(kept.place.events)
    assert verify_session(log, "a").proven
    assert [erased.by for erased in log.list_erased("a").values()] == ["ann"] * 3
    assert verify_session(log, "b").erased == 0
    log.close()
    assert check_erasable(kept.place, ["a"]) == 0


async def test_events_of_some_kinds_go_alone(kept: Kept) -> None:
    await kept.write("a", "secret", ended=NOW)
    args = {"at": NOW, "by": "ann", "why": ""}
    done = await erase_sessions(kept.place, kept.store, ["a"], kinds=["user_message"], **args)
    assert done.events == 1
    log = SqliteLog(kept.place.events)
    assert [event.kind for event in log.events("a")] == ["session_started", "session_ended"]
    assert verify_session(log, "a").erased == 1
    log.close()
    with pytest.raises(UsageError, match="there is no kind of event `words`"):
        check_erasable(kept.place, ["a"], ["words"])


async def test_a_session_that_runs_and_one_that_does_not_verify_are_refused(kept: Kept) -> None:
    await kept.write("a", "x", ended=NOW)
    log = SqliteLog(kept.place.events)
    await log.claim("a")
    with pytest.raises(SessionHeld, match="close it there before you erase it"):
        check_erasable(kept.place, ["a"])
    log.close()
    log = SqliteLog(kept.place.events)
    run(log, "UPDATE events SET text = replace(text, 'x', 'y') WHERE seq = 2")
    log.close()
    with pytest.raises(TamperedLog, match="erasing it would hide that"):
        await erase_sessions(kept.place, kept.store, ["a"], kinds=(), at=NOW, by="", why="")
    await kept.write("b", "x", ended=NOW)
    good, problems = skip_unerasable(kept.place, ["a", "b"])
    assert (good, len(problems)) == (["b"], 1)


async def test_ended_sessions_go_oldest_first_until_the_log_is_small_enough(kept: Kept) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    for number, month in enumerate(("05", "03", "04")):
        kept.store.put(image := bytes([number]) * 100_000)
        await kept.write(f"s{month}", kept.store.put(image), "x" * 1000, ended=f"2026-{month}-01T00:00:00.000000Z")
    await kept.write("open", "x")
    all_ = choose_expired(kept.place, kept.store, age=timedelta(days=1), size=None, now=now)
    assert [one.session for one in all_.expired] == ["s03", "s04", "s05"]
    assert all_.open == 1
    old = choose_expired(kept.place, kept.store, age=timedelta(days=80), size=None, now=now)
    assert [one.session for one in old.expired] == ["s03"]
    assert old.before - old.after > 100_000
    large = choose_expired(kept.place, kept.store, age=None, size=old.before - 150_000, now=now)
    assert [one.session for one in large.expired] == ["s03", "s04"]
    assert choose_expired(kept.place, kept.store, age=None, size=10**9, now=now).expired == ()
    names = [one.session for one in old.expired]
    await erase_sessions(kept.place, kept.store, names, kinds=(), at=NOW, by="", why="")
    assert choose_expired(kept.place, kept.store, age=timedelta(days=80), size=None, now=now).expired == ()


async def test_a_session_goes_only_with_those_that_belong_to_it(kept: Kept) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    await kept.write("s", "x", ended="2026-01-01T00:00:00.000000Z")
    await kept.write("s.c1.1", "x", ended="2026-01-01T00:00:00.000000Z")
    await kept.write("s-2", "x")
    assert choose_expired(kept.place, kept.store, age=timedelta(days=1), size=None, now=now).expired == ()
    log = SqliteLog(kept.place.events)
    names = await log.sessions()
    log.close()
    assert find_families(["s"], names) == ["s", "s.c1.1", "s-2"]
    assert find_families(["s-2"], names) == ["s", "s.c1.1", "s-2"]
    assert find_families(["s.c1.1"], names) == ["s.c1.1"]


@pytest.mark.parametrize(("text", "hours"), [("90d", 2160), (" 2w ", 336), ("1y", 8766), ("12h", 12)])
def test_an_age_is_a_number_and_a_unit(text: str, hours: int) -> None:
    assert parse_age(text) == timedelta(hours=hours)


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 * 1024**3), ("1.5 kb", 1536), ("7", 7), ("1GiB", 1024**3)])
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "0d", "1e9d", "9999999d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no age"):
        parse_age(text)


@pytest.mark.parametrize("text", ["", "GB", "-2GB", "2XB", "1_0MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        parse_size(text)
