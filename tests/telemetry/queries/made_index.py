"""Logs in a file, put there as they were recorded elsewhere, and an index over them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from foregate.agent.session.session import Session
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.audit_index import AuditIndex
from tests.agent.corpus import Story
from tests.agent.world import World

Line = tuple[int, str, str]


async def play(story: Story) -> list[Line]:
    """Return the lines of the log in which a story was recorded."""
    world = World()
    session: Session = await story(world)
    return list(world.log.lines(session.name))


def put_session(path: Path, name: str, lines: Iterable[Line]) -> None:
    """Put lines into the log at `path` as all there is of a session."""
    SqliteLog(path).close()
    rows = list(lines)
    with closing(sqlite3.connect(path)) as log, log:
        log.execute("DELETE FROM events WHERE session = ?", (name,))
        log.executemany(
            "INSERT INTO events (session, seq, text, hash) VALUES (?, ?, ?, ?)", [(name, *row) for row in rows]
        )
        head = (name, rows[-1][0], rows[-1][2])
        log.execute(
            "INSERT INTO leases (session, owner, pid, started, boot, place, fence, seq, hash) "
            "VALUES (?, '', 0, '', '', '', 1, ?, ?) "
            "ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
            head,
        )


def open_index(path: Path, *, in_memory: bool = False, create: bool = False) -> AuditIndex:
    """Return the index beside the log at `path`, caught up."""
    index = AuditIndex(SqliteLog(path, create=create), None if in_memory else path.with_name("index.db"))
    index.catch_up()
    return index
