"""A question that one process asks and another answers, in real processes over one log, killed as they may be."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.sandbox.guard import send_request
from foregate.schemas.event import NeedAnswered, NeedRaised
from foregate.schemas.event_body import ToolStarted
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session
from tests.events import bodies
from tests.processes import wait_until_gone

DRIVER = Path(__file__).with_name("asking_driver.py")
HOURS = 3600


class Child:
    """A process that the driver forked for these words."""

    def __init__(self, driver: socket.socket, words: Sequence[str]) -> None:
        (into, to), (of, out), (told, tell) = (os.pipe() for _ in range(3))
        send_request(driver, json.dumps(words).encode(), [into, out, tell])
        for descriptor in (into, out, tell):
            os.close(descriptor)
        self.stdin, self.stdout = os.fdopen(to, "w"), os.fdopen(of)
        with os.fdopen(told) as file:
            self.pid = int(file.readline())

    def send_signal(self, number: int) -> None:
        """Send it a signal, where it still runs."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, and return once it is gone."""
        self.send_signal(signal.SIGKILL)
        wait_until_gone(self.pid)

    def close(self) -> None:
        """Let go of its streams."""
        self.stdin.close()
        self.stdout.close()


@pytest.fixture(scope="module")
def driver() -> Iterator[socket.socket]:
    """A line to the driver, which has loaded what its children need."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen([sys.executable, "-I", str(DRIVER)], stdin=theirs)
        yield ours
    assert process.wait() == 0


class Place:
    """A home and a workspace, and the processes at work on them."""

    def __init__(self, root: Path, driver: socket.socket) -> None:
        self.driver = driver
        self.root, self.home, self.workspace = root, root / "home", root / "workspace"
        self.workspace.mkdir(parents=True)
        self.children: list[Child] = []

    def start(self, what: str, *more: str, later: int = 0) -> Child:
        """Start a process."""
        child = Child(self.driver, [what, str(self.home), str(self.workspace), str(later), *more])
        self.children.append(child)
        return child

    def read(self, child: Child) -> str:
        """Return the next line a process prints."""
        return child.stdout.readline().strip()

    def order(self, child: Child) -> None:
        """Let a process go on that waits for it."""
        child.stdin.write("\n")
        child.stdin.flush()

    def ask_and_kill(self) -> None:
        """Have a process ask, and kill it at its question."""
        asking = self.start("ask")
        assert self.read(asking) == "asked"
        asking.kill()

    def answer(self, says: str = "yes", by: str = "ann", later: int = 0) -> Any:
        """Answer in a process of its own, and return what came of it."""
        child = self.start("answer", says, by, later=later)
        assert self.read(child) == "ready"
        self.order(child)
        return json.loads(self.read(child))

    def do(self, what: str, *more: str, later: int = 0) -> Any:
        """Run a process to its end and return what it says."""
        return json.loads(self.read(self.start(what, *more, later=later)))

    @property
    def stamps(self) -> list[str]:
        """What the tool did, outside of the log."""
        path = self.root / "stamps"
        return path.read_text().splitlines() if path.exists() else []

    async def read_log(self) -> list[Any]:
        """Return the session's events, once its log verifies."""
        log = SqliteLog(self.home / "events.db")
        (name,) = await log.sessions()
        found = verify_session(log, name)
        assert found.ok, found.sentence
        events = list(await log.read(name))
        log.close()
        return events


@pytest.fixture
def place(tmp_path: Path, driver: socket.socket) -> Iterator[Place]:
    """Where all of it happens; no process outlives the test."""
    found = Place(tmp_path / "place", driver)
    yield found
    for child in found.children:
        child.kill()
        child.close()


async def test_a_task_whose_process_was_killed_goes_on_with_an_answer_given_hours_later_elsewhere(place: Place) -> None:
    place.ask_and_kill()
    assert place.stamps == []
    assert place.answer(later=8 * HOURS) == {"delivery": "recorded"}
    assert place.stamps == []
    assert place.do("go_on", later=9 * HOURS) == {"status": "completed"}
    assert place.stamps == ["k"]
    events = await place.read_log()
    assert len(bodies(events, NeedRaised)) == len(bodies(events, NeedAnswered)) == len(bodies(events, ToolStarted)) == 1
    (answered,) = bodies(events, NeedAnswered)
    assert answered.answer.value == {"by": "ann", "choice": "yes", "text": ""}


async def test_an_answer_after_the_question_expired_is_refused_and_changes_nothing(place: Place) -> None:
    place.ask_and_kill()
    before = await place.read_log()
    said = place.answer(later=11 * HOURS)
    assert "expired at" in said["error"]
    assert await place.read_log() == before
    assert place.do("go_on", later=12 * HOURS)["status"] == "blocked"
    assert place.stamps == []


async def test_going_on_with_nobody_there_leaves_the_question_open_however_often(place: Place) -> None:
    place.ask_and_kill()
    for _ in range(2):
        assert place.do("go_on") == {"status": "awaiting_approval"}
    assert len(place.do("list")["open"]) == 1
    assert place.answer("no") == {"delivery": "recorded"}
    assert place.do("list") == {"open": []}
    assert place.do("go_on")["status"] == "blocked"
    assert place.stamps == []


async def test_of_two_answers_at_the_same_time_exactly_one_counts_and_the_other_is_told(place: Place) -> None:
    place.ask_and_kill()
    said = [place.start("answer", *reply) for reply in (("yes", "ann"), ("no", "bob"), ("yes", "cat"))]
    assert [place.read(child) for child in said] == ["ready"] * 3
    for child in said:
        place.order(child)
    told = [json.loads(place.read(child)) for child in said]
    assert sum("delivery" in one for one in told) == 1
    winner = ("ann", "bob", "cat")[next(number for number, one in enumerate(told) if "delivery" in one)]
    assert all(winner in one["error"] or "just now" in one["error"] for one in told if "error" in one), told
    (answered,) = bodies(await place.read_log(), NeedAnswered)
    assert answered.answer.value is not None
    assert answered.answer.value["by"] == winner


async def test_a_process_that_waits_at_its_question_takes_the_answer_given_elsewhere(place: Place) -> None:
    asking = place.start("ask")
    assert place.read(asking) == "asked"
    assert place.answer()["delivery"] in ("taken", "recorded")
    assert json.loads(place.read(asking)) == {"status": "completed"}
    assert place.stamps == ["k"]
    (answered,) = bodies(await place.read_log(), NeedAnswered)
    assert answered.elsewhere


async def test_an_answer_handed_to_a_process_that_is_stopped_and_killed_is_not_lost(place: Place) -> None:
    asking = place.start("ask")
    assert place.read(asking) == "asked"
    asking.send_signal(signal.SIGSTOP)
    assert place.answer() == {"delivery": "waiting"}
    assert "was answered already: yes, by ann" in place.answer("no", "bob")["error"]
    asking.kill()
    assert place.do("go_on") == {"status": "completed"}
    assert place.stamps == ["k"]
    (answered,) = bodies(await place.read_log(), NeedAnswered)
    assert answered.answer.value is not None
    assert answered.answer.value["by"] == "ann"
