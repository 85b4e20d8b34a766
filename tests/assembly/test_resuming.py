"""Resuming a long session as the command line does: it reads the snapshot and what follows it, whoever ran it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.session import session_log
from foregate.agent.session.session_log import LEAST, find_false_snapshot, fold_session
from foregate.assembly.home import Home
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.doctor import check_snapshots
from foregate.cli.keeping_reports import format_unkept
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import is_same_state
from foregate.schemas.event import Event
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.snapshots import read_unkept
from foregate.telemetry.log.sqlite_log import SqliteLog

EVENTS_READ: list[int] = []


class Reading:
    """A model that reads a file in each task, and then answers."""

    name = "reading"

    def __init__(self) -> None:
        self.turn = 0

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Return a read, and then words."""
        self.turn += 1
        return calls(("read_file", {"path": "a.txt"})) if self.turn % 2 else says("It holds a line about a cat.")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a workspace of their own."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("the cat\n")
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    read = SqliteLog._read_events

    def count(log: SqliteLog, *about: Any) -> list[Event]:
        found = read(log, *about)
        EVENTS_READ.append(len(found))
        return found

    monkeypatch.setattr(SqliteLog, "_read_events", count)
    EVENTS_READ.clear()
    return tmp_path / "home"


async def open_here(home: Path, resume: str = "") -> OpenSession:
    """Open a session as the command line does, a new one for no name."""
    EVENTS_READ.clear()
    return await open_session(SessionOptions(home.parent / "work", Reading(), resume=resume))


async def work(opened: OpenSession, until: int) -> None:
    """Have tasks done until the session has so many events."""
    while opened.session.state.seq < until:
        await run(opened.session, "What is in a.txt?")
    await opened.session.log.settle()


async def write(home: Path, events: int) -> str:
    """Write a session of so many events, and leave it open; return its name."""
    opened = await open_here(home)
    await work(opened, events)
    await opened.close(end=False)
    return opened.name


def query(home: Path, statement: str) -> list[Any]:
    """Run a statement on the file of the log, beside Foregate; return its rows."""
    with closing(sqlite3.connect(home / "events.db")) as file, file:
        return file.execute(statement).fetchall()


@contextmanager
def count_calls(made: list[int]) -> Iterator[None]:
    """Count the Python calls of a block."""

    def note(frame: FrameType, event: str, argument: object) -> None:
        made[0] += event == "call"

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def fold_all(home: Path, name: str) -> SessionState:
    """Return the state that all events of a session lead to."""
    state = SessionState()
    with closing(Home.open().open_log()) as log:
        for event in await log.read(name):
            state.apply(event)
    return state


async def find_false(name: str) -> int:
    """Return the event of a snapshot that holds what the events do not lead to, as verifying looks for one."""
    with closing(Home.open().open_log()) as log:
        return await find_false_snapshot(log, name)


async def test_the_file_has_a_snapshot_of_a_long_session_that_somebody_ran(home: Path) -> None:
    name = await write(home, LEAST + 20)
    [(session, seq, size)] = query(home, "SELECT session, seq, length(data) FROM snapshots")
    assert (session, LEAST <= seq <= LEAST + 10, size > 1000) == (name, True, True)


async def test_resuming_costs_the_same_after_three_times_as_many_turns(home: Path) -> None:
    name, costs = "", []
    for events in (3 * LEAST, 9 * LEAST):
        opened = await open_here(home, name)
        name = opened.name
        await work(opened, events)
        await opened.close(end=False)
        query(home, "UPDATE leases SET owner = ''")
        made = [0]
        with closing(Home.open().open_log()) as log:
            EVENTS_READ.clear()
            with count_calls(made):
                state = await fold_session(log, name)
            costs.append((sum(EVENTS_READ), made[0]))
        assert is_same_state(state, await fold_all(home, name))
        assert await find_false(name) == 0
    assert all(read < LEAST and count < 40 * LEAST for read, count in costs), costs


@pytest.mark.parametrize("change", ["DELETE FROM snapshots", "UPDATE snapshots SET version = '0.1.0'"])
async def test_a_log_without_a_snapshot_of_this_version_gets_one_when_it_is_opened_to_be_written(
    home: Path, change: str
) -> None:
    name = await write(home, LEAST + 20)
    query(home, change)
    opened = await open_here(home, name)
    assert sum(EVENTS_READ) > LEAST
    state, seq = opened.session.state, opened.session.state.seq
    await opened.close(end=False)
    assert query(home, "SELECT session, seq FROM snapshots") == [(name, seq)]
    opened = await open_here(home, name)
    assert sum(EVENTS_READ) < 20
    assert is_same_state(opened.session.state, state)
    await opened.close(end=False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE snapshots SET data = zeroblob(length(data))", "it is not as this log kept it"),
        ("UPDATE snapshots SET version = '0.1.0'", "it is not as this log kept it"),
        ("other version", "another version of Foregate wrote it"),
    ],
)
async def test_a_snapshot_that_is_not_used_is_said_in_one_line_and_nothing_is_lost(
    home: Path, change: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        if change == "other version":
            changed.setattr(session_log, "find_version", lambda: "0.1.0 0123456789abcdef")
        name = await write(home, LEAST + 20)
    if change != "other version":
        query(home, change)
    expected = await fold_all(home, name)
    opened = await open_here(home, name)
    line = f"the snapshot of session {name} is not used ({why}); all of its events were read instead"
    assert opened.notes[-1] == line
    assert is_same_state(opened.session.state, expected)
    await opened.close(end=False)
    opened = await open_here(home, name)
    assert line not in opened.notes
    await opened.close(end=False)


def refuse(_: SessionState) -> bytes:
    raise ValueError("the state of the session cannot be kept: `Cat` is no part of a state")


async def test_a_snapshot_that_cannot_be_kept_is_a_warning_until_one_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_snapshots(home / "events.db")["state"] == "none yet"
    with monkeypatch.context() as broken:
        broken.setattr(session_log, "encode_state", refuse)
        name = await write(home, LEAST + 20)
    with closing(sqlite_file.open_reader(home / "events.db")) as reader:
        lines = list(format_unkept(read_unkept(reader)))
    assert len(lines) == 1
    assert lines[0].startswith(f"no snapshot of session {name} was kept after event {LEAST // 10}")
    assert lines[0].endswith("`Cat` is no part of a state")
    found = check_snapshots(home / "events.db")
    assert (found["state"], lines[0] in found["why"], bool(found["cure"])) == ("not kept", True, True)
    opened = await open_here(home, name)
    await opened.close(end=False)
    assert check_snapshots(home / "events.db")["state"] == "kept"
    assert len(query(home, "SELECT session FROM snapshots")) == 1
