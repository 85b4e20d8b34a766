"""Where a log's sessions wait for a person: kept with the events, and one answer to each question."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.schemas.event import Draft, NeedAnswered, NeedRaised
from foregate.schemas.event_body import Report, TaskEnded, UserMessage
from foregate.schemas.judgement import Answer, Need, Who
from foregate.schemas.protocols import Log, QuestionStore
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.telemetry.log.test_sqlite_file import FIRST_VERSION

SECOND_VERSION = f"""
{sqlite_file._LEASES};
{sqlite_file._EVENTS};
PRAGMA application_id = {sqlite_file.APPLICATION};
PRAGMA user_version = 2;
PRAGMA journal_mode = WAL;
"""


def asks(who: Who = "person") -> Draft:
    """Return the event of a question."""
    need = Need("approval", who, "approval:1", ("c1.1",), ("d",))
    return Draft(NeedRaised(need=need, request="", survey_hash=""), "foregate")


def answers() -> Draft:
    """Return the event of its answer."""
    return Draft(NeedAnswered(answer=Answer("approval", "person", "approval:1", ("d",), "", "")), "person")


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Both logs."""
    made = MemoryLog() if request.param == "memory" else SqliteLog(tmp_path / "events.db")
    yield made
    if isinstance(made, SqliteLog):
        made.close()


async def say(log: Log, session: str, *drafts: Draft) -> None:
    """Append to a session, begun where it is not there, durably."""
    lease = await log.claim(session, create=True)
    await log.append(lease, drafts, policy="p", time="t")
    await log.settle(lease)
    await log.release(lease)


async def test_what_asks_a_person_is_listed_until_it_is_answered(log: Log) -> None:
    assert isinstance(log, QuestionStore)
    await say(log, "a", asks("planner"))
    await say(log, "b", Draft(UserMessage(text="x"), "user"), asks())
    await say(log, "c", asks())
    assert await log.list_asked() == [("b", 2), ("c", 1)]
    await say(log, "b", answers())
    assert await log.list_asked() == [("c", 1)]


async def test_the_first_answer_is_kept_and_every_later_one_is_told_it(log: Log) -> None:
    assert isinstance(log, QuestionStore)
    await say(log, "s", asks())
    assert await log.hand_in("s", 1, "first") == "first"
    assert await log.hand_in("s", 1, "second") == "first"
    assert await log.read_handed("s", 1) == "first"


async def test_a_question_that_is_answered_or_asked_anew_takes_no_answer(log: Log) -> None:
    assert isinstance(log, QuestionStore)
    await say(log, "s", asks())
    await log.hand_in("s", 1, "to the old one")
    await say(log, "s", asks())
    assert [await log.hand_in("s", 1, "late"), await log.read_handed("s", 1)] == ["", ""]
    assert await log.read_handed("s", 2) == ""
    await say(log, "s", answers())
    assert await log.hand_in("s", 2, "late") == ""


async def test_the_end_of_its_task_ends_what_was_asked(log: Log) -> None:
    assert isinstance(log, QuestionStore)
    counts = dict.fromkeys(("duration", "turns", "model_calls", "tool_calls", "tokens", "cost"), 0)
    ended = TaskEnded(status="blocked", text="", note="", report=Report(), **counts)
    await say(log, "s", asks(), Draft(ended, "foregate"))
    assert await log.list_asked() == []


async def test_no_trigger_reads_each_event_of_a_new_log(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    await say(log, "s", asks(), answers(), asks())
    assert await log.list_asked() == [("s", 3)]
    assert log._fetch_rows("SELECT name FROM sqlite_schema WHERE type = 'trigger'", ()) == []
    log.close()


async def test_words_of_a_user_that_look_like_a_question_are_none(log: Log) -> None:
    assert isinstance(log, QuestionStore)
    text = '{"kind":"need_raised","body":{"need":{"who":"person"}}} "need_raised"'
    await say(log, "s", Draft(UserMessage(text=text), "user"))
    assert await log.list_asked() == []


@pytest.mark.parametrize("tables", [FIRST_VERSION, SECOND_VERSION], ids=["first", "second"])
async def test_questions_of_a_log_of_an_earlier_version_are_found(tmp_path: Path, tables: str) -> None:
    path = tmp_path / "events.db"
    new = SqliteLog(tmp_path / "new.db")
    for name, drafts in {"open": [asks()], "answered": [asks(), answers()], "none": [asks("critic")]}.items():
        await say(new, name, *drafts)
    rows = [(name, *row) for name in ("open", "answered", "none") for row in new.lines(name)]
    leases = new._fetch_rows("SELECT * FROM leases", ())
    new.close()
    with sqlite3.connect(path) as old:
        old.executescript(tables)
        old.executemany("INSERT INTO events (session, seq, text, hash) VALUES (?, ?, ?, ?)", rows)
        old.executemany(f"INSERT INTO leases VALUES ({','.join('?' * 10)})", leases)
    old.close()
    log = SqliteLog(path)
    assert await log.list_asked() == [("open", 1)]
    await say(log, "later", asks())
    assert await log.list_asked() == [("later", 1), ("open", 1)]
    log.close()
    with sqlite3.connect(path) as kept:
        (version,) = kept.execute("PRAGMA user_version").fetchone()
    kept.close()
    assert version in (5, 6)


async def test_a_process_of_an_earlier_version_that_still_writes_keeps_the_list_as_well(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with sqlite3.connect(path) as old:
        for statement in sqlite_file.TABLES[6]:
            old.execute(statement)
        old.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION}")
        old.execute("PRAGMA user_version = 6")
    old.close()
    log = SqliteLog(path)
    await say(log, "mine", asks())
    (row,) = log.lines("mine")
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO events (session, seq, text, hash) VALUES ('theirs', ?, ?, ?)", row)
    other.close()
    assert await log.list_asked() == [("mine", 1), ("theirs", 1)]
    log.close()
