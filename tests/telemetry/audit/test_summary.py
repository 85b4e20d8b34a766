"""Summaries: what a list of sessions shows of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.testing.model import calls, says
from foregate.schemas.errors import LogError
from foregate.schemas.event import Draft, NeedAnswered
from foregate.schemas.event_body import TaskPaused, TaskStarted
from foregate.schemas.judgement import Answer
from foregate.telemetry.audit.summary import TaskSummary, build_summary, summarise
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.conftest import OpenSession
from tests.telemetry.made import said, sealed

Make = Callable[[Path], SqliteLog | MemoryLog]


@pytest.mark.parametrize("make", [SqliteLog, lambda _: MemoryLog()], ids=["sqlite", "memory"])
async def test_a_summary_names_where_what_and_how_the_tasks_stand(
    make: Make, folder: Path, open_session: OpenSession, tmp_path: Path
) -> None:
    log = make(tmp_path / "log.db")
    bad = ("read_file", {"path": 3})
    session = await open_session(says("hello"), calls(bad), calls(bad), log=log)
    await run(session, "\n greet me\nnow")
    await run(session, "read it")
    await log.settle(session.log.lease)
    open_ = summarise(log, "s")
    assert open_.tasks == (TaskSummary(1, "greet me", "completed"), TaskSummary(2, "read it", "blocked"))
    assert (open_.name, open_.workspace, open_.model) == ("s", str(folder), session.model.name)
    assert (open_.events, open_.ended) == (session.state.seq, False)
    await session.close()
    ended = summarise(log, "s")
    assert (ended.events, ended.ended) == (open_.events + 1, True)
    assert ended.started <= open_.last <= ended.last
    assert set(ended.to_json()) == set(ended.__slots__)
    if isinstance(log, SqliteLog):
        log.close()


async def test_a_session_without_events_has_a_summary_too(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.claim("s", create=True)
    assert (summarise(log, "s").events, summarise(log, "s").tasks, summarise(log, "s").last) == (0, (), "")
    with pytest.raises(LogError, match="there is no session `t`"):
        summarise(log, "t")
    log.close()


def test_a_task_that_waits_shows_for_what_until_it_goes_on() -> None:
    drafts = [
        Draft(TaskStarted(task=1, depth=0), "foregate"),
        said("clean up"),
        Draft(TaskPaused(reason="needs_input", question="which?"), "foregate"),
        said("the logs"),
        Draft(TaskPaused(reason="awaiting_approval"), "foregate"),
        Draft(NeedAnswered(answer=Answer("approval", "person", "k", (), "", "")), "person"),
    ]
    events = sealed(*drafts)
    shown = [build_summary("s", events[: count + 1], count + 1, events[count]).tasks[0] for count in range(len(events))]
    assert [task.status for task in shown] == [
        "running",
        "running",
        "needs_input",
        "running",
        "awaiting_approval",
        "running",
    ]
    assert {task.text for task in shown[1:]} == {"clean up"}
