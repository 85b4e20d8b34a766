"""What the newest task of a session did is read without what came before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.agent.session.session_log import _REACH, SessionLog
from foregate.evidence.state.session import SessionState
from foregate.schemas.event import Draft
from foregate.schemas.event_body import Kind, PolicyChanged, SessionEnded, TaskStarted
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.telemetry.log.test_parts import began
from tests.telemetry.made import NOW, ended, said

KINDS: tuple[Kind, ...] = ("task_started", "user_message", "policy_changed")
SWITCHED = Draft(PolicyChanged(mode="plan"), "person")
AnyLog = MemoryLog | SqliteLog


@pytest.fixture(params=[MemoryLog, SqliteLog])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyLog]:
    """An open log, in memory or in a file."""
    if request.param is MemoryLog:
        yield MemoryLog()
        return
    log = SqliteLog(tmp_path / "events.db")
    yield log
    log.close()


async def begin(log: AnyLog, name: str, *drafts: Draft) -> SessionLog:
    """Return a session that has recorded this."""
    session = SessionLog(log, await log.claim(name, create=True), SessionState(), "p", lambda: (), lambda: NOW)
    if drafts:
        await session.record(began(policy={}), *drafts)
        await session.settle()
    return session


def task(number: int, *words: str) -> list[Draft]:
    """Return the events of a task in which something was said."""
    return [Draft(TaskStarted(task=number, depth=0), "foregate"), *map(said, words), ended()]


async def read_words(session: SessionLog) -> list[object]:
    """Return the task and the words that are read of the newest one."""
    said_in = {"task_started": "task", "user_message": "text", "policy_changed": "mode"}
    return [getattr(event.body, said_in[event.kind]) for event in await session.read_last_task(KINDS)]


async def test_of_several_tasks_only_the_newest_is_read_and_of_that_only_what_is_asked_for(log: AnyLog) -> None:
    session = await begin(log, "s", *task(1, "first"), *task(2, "second", "more"))
    assert await read_words(session) == [2, "second", "more"]


async def test_a_task_that_began_far_from_the_end_is_found(log: AnyLog) -> None:
    words = [f"word {number}" for number in range(5 * _REACH)]
    session = await begin(log, "s", *task(1, "first"), *task(2, *words))
    assert await read_words(session) == [2, *words]


async def test_a_session_without_a_task_has_nothing_to_say(log: AnyLog) -> None:
    assert await read_words(await begin(log, "s", SWITCHED)) == []


@pytest.mark.parametrize("begun", [False, True])
async def test_the_newest_task_may_lie_in_a_session_that_this_one_goes_on_with(log: AnyLog, begun: bool) -> None:
    before = await begin(log, "s", *task(1, "first"), *task(2, "second"), Draft(SessionEnded(events=8), "foregate"))
    await log.release(before.lease)
    session = await begin(log, "s-2", *([SWITCHED] if begun else []))
    session.follow(["s"], *([] if begun else [began(policy={})]))
    assert await read_words(session) == [2, "second", *(["plan"] if begun else [])]
