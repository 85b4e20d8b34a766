"""Reading one kind of event of every session of the SQLite log."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.telemetry.made import NOW, ended, said


async def test_events_of_some_kinds_are_read_of_all_sessions_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    log = SqliteLog(path)
    for name in ("b", "a"):
        lease = await log.claim(name, create=True)
        await log.append(lease, [said("one")], policy="p", time=NOW)
        await log.append(lease, [ended(), said("two")], policy="p", time=NOW)
        await log.settle(lease)
    told = [(event.session, event.seq) for event in log.read_all_sessions(("user_message",))]
    assert told == [("a", 1), ("a", 3), ("b", 1), ("b", 3)]
    assert [event.kind for event in log.read_all_sessions(("task_ended", "task_paused"))] == ["task_ended"] * 2
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET text = '{' WHERE session = 'b' AND seq = 2")
    with pytest.raises(LogError, match="event 2 cannot be read"):
        list(log.read_all_sessions(("user_message",)))
    log.close()
