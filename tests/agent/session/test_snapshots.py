"""Snapshots as a session runs: opening it again reads what came after the newest one, and any doubt means all of it."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from foregate.agent.session.session_log import SessionLog
from foregate.agent.session.snapshots import _LEAST, fold_session
from foregate.evidence.state.session import SessionState
from foregate.schemas.event import Draft, Event, ModelResponded
from foregate.schemas.event_body import TaskStarted
from foregate.schemas.model_response import ModelResponse
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.agent.session.test_state_from_log import plain
from tests.telemetry.log.test_parts import began
from tests.telemetry.made import NOW, said


class Watched(SqliteLog):
    """A log that tells how many events were read of it."""

    events_read = 0

    async def read(self, session: str, *, after: int = 0, limit: int = 0) -> Sequence[Event]:
        """Read as ever."""
        found = await super().read(session, after=after, limit=limit)
        self.events_read += len(found)
        return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Watched]:
    """An open log."""
    log = Watched(tmp_path / "events.db")
    yield log
    log.close()


async def write(log: SqliteLog, count: int, name: str = "s", *more: Draft) -> SessionState:
    """Write a session with that many messages of the user; return its state."""
    session = SessionLog(log, await log.claim(name, create=True), SessionState(), "p", lambda: (), lambda: NOW)
    await session.record(began(policy={}), Draft(TaskStarted(task=1, depth=0), "foregate"), *more)
    for number in range(count):
        await session.record(said(f"look at src/module_{number}.py"))
    await session.settle()
    await log.release(session.lease)
    return session.state


async def test_opening_a_session_reads_what_came_after_the_newest_snapshot(log: Watched) -> None:
    state = await write(log, _LEAST + 20)
    assert plain(await fold_session(log, "s")) == plain(state)
    assert log.events_read == _LEAST + 22 - _LEAST


async def test_a_short_session_has_no_snapshot(log: Watched) -> None:
    await write(log, 100)
    assert await log.read_snapshot("s") is None


async def test_a_session_that_is_opened_again_and_again_gets_its_next_snapshot(log: Watched) -> None:
    await write(log, _LEAST)
    first = await log.read_snapshot("s")
    for _ in range(3):
        state = await fold_session(log, "s")
        session = SessionLog(log, await log.claim("s"), state, "p", lambda: (), lambda: NOW)
        await session.record(*(said("more") for _ in range(200)))
        await session.settle()
        await log.release(session.lease)
    newest = await log.read_snapshot("s")
    assert (first and first.seq, newest and newest.seq) == (_LEAST, _LEAST + 602)


async def test_no_snapshot_is_taken_while_a_response_is_in_hand(log: Watched) -> None:
    response = ModelResponded.of(ModelResponse("Let me see.", ()))
    state = await write(log, _LEAST + 20, "s", Draft(response, "model"))
    assert state.open is not None
    assert await log.read_snapshot("s") is None
    assert plain(await fold_session(log, "s")) == plain(state)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE snapshots SET data = x'00112233'",
        "UPDATE snapshots SET data = substr(data, 1, length(data) - 10)",
        "UPDATE snapshots SET version = '0.0.1'",
        "UPDATE snapshots SET seq = seq - 1",
        "UPDATE snapshots SET hash = replace(hash, substr(hash, 1, 1), 'z')",
        "UPDATE snapshots SET (seq, hash, version, data) = (SELECT seq, hash, version, data FROM snapshots "
        "WHERE session = 'other') WHERE session = 's'",
        "UPDATE snapshots SET data = (SELECT data FROM snapshots WHERE session = 'other') WHERE session = 's'",
        "DELETE FROM snapshots",
    ],
)
async def test_a_snapshot_that_does_not_fit_counts_as_none(log: Watched, change: str) -> None:
    state = await write(log, _LEAST + 20)
    await write(log, _LEAST + 20, "other")
    with sqlite3.connect(log.path) as file:
        file.execute(change)
    file.close()
    assert plain(await fold_session(log, "s")) == plain(state)
    assert log.events_read == _LEAST + 22


async def test_a_snapshot_that_unpacks_to_too_much_or_to_anything_else_counts_as_none(log: Watched) -> None:
    state = await write(log, _LEAST + 20)
    with sqlite3.connect(log.path) as file:
        file.execute("UPDATE snapshots SET data = ?", (zlib.compress(b"\0" * 1000),))
    file.close()
    assert plain(await fold_session(log, "s")) == plain(state)


async def test_events_that_go_on_from_another_one_than_the_snapshot_are_folded_from_the_first(log: Watched) -> None:
    state = await write(log, _LEAST + 20)
    [(text,)] = log._fetch_rows("SELECT text FROM events WHERE seq = ?", (_LEAST + 1,))
    prev = state.hash
    with sqlite3.connect(log.path) as file:
        changed = text.replace(text[text.index('"prev":"') + 8 :][:64], prev)
        file.execute("UPDATE events SET text = ? WHERE seq = ?", (changed, _LEAST + 1))
    file.close()
    assert plain(await fold_session(log, "s")) == plain(state)
    assert log.events_read > _LEAST


async def test_what_is_erased_has_no_snapshot(log: Watched) -> None:
    await write(log, _LEAST + 20)
    assert await log.read_snapshot("s") is not None
    await log.erase("s", at=NOW, by="ann", why="")
    assert await log.read_snapshot("s") is None
