"""The home is private, and a session's name finds it."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from foregate.assembly.home import Home, build_session_name, find_fresh_name, find_session
from foregate.schemas.errors import UsageError
from foregate.telemetry.log.memory_log import MemoryLog
from tests.telemetry.made import NOW, said


def test_a_home_is_made_for_its_owner_only(tmp_path: Path) -> None:
    home = Home.open({"FOREGATE_HOME": str(tmp_path / "deep" / "home")})
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert {path.parent for path in (home.events, home.blobs, home.memory, home.history)} == {home.root}


def test_the_home_follows_the_data_folder_unless_it_is_named(tmp_path: Path) -> None:
    assert Home.path({"HOME": "/home/ada"}) == Path("/home/ada/.local/share/foregate")
    assert Home.path({"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}) == Path("/data/foregate")
    assert Home.path({"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}) == Path("/home/ada/.local/share/foregate")
    assert Home.path({"FOREGATE_HOME": str(tmp_path), "XDG_DATA_HOME": "/data"}) == tmp_path


def test_a_home_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="chmod 700"):
        Home.open({"FOREGATE_HOME": str(tmp_path)})


def test_a_home_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="set FOREGATE_HOME"):
        Home.open({"FOREGATE_HOME": str(tmp_path / "file")})


def test_session_names_sort_by_time() -> None:
    moment = datetime(2026, 11, 21, 6, 45, 12, tzinfo=UTC)
    assert build_session_name(moment).startswith("20261121-064512-")
    assert build_session_name(moment) < build_session_name(moment + timedelta(seconds=1))


async def test_a_session_is_found_by_its_name_a_unique_beginning_or_as_the_last() -> None:
    log = MemoryLog()
    for name in ("20261121-064512-ab3f", "20261121-064513-0000", "20261122-000000-ffff"):
        await log.append(await log.claim(name, create=True), [said("hello")], policy="p", time=NOW)
    await log.claim("20261123-000000-0000", create=True)  # its process ended before its first event
    assert await find_session(log, "20261121-064512-ab3f") == "20261121-064512-ab3f"
    assert await find_session(log, "20261122") == "20261122-000000-ffff"
    assert await find_session(log, "last") == "20261122-000000-ffff"
    with pytest.raises(UsageError, match="2 sessions begin"):
        await find_session(log, "20261121")
    with pytest.raises(UsageError, match="there is no session `nope`"):
        await find_session(log, "nope")
    assert await find_fresh_name(log) not in await log.sessions()


async def test_of_sessions_of_one_second_the_last_is_the_one_that_began_last() -> None:
    log = MemoryLog()
    for name in ("20261121-064512-ffff", "20261121-064512-0000", "20261121-064512-ffff.1"):
        await log.append(await log.claim(name, create=True), [said("hello")], policy="p", time=NOW)
    assert await find_session(log, "last") == "20261121-064512-0000"


def test_no_two_sessions_that_are_named_in_one_second_share_a_name() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert len({build_session_name(now) for _ in range(3000)}) == 3000
