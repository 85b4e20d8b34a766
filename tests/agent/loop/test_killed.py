"""A process killed anywhere in a session, on a real log and real files: what is left is sound and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.undo import undo
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import OutcomeUnknown, ToolFinished, ToolStarted
from foregate.schemas.judgement import Standing
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session
from tests.events import bodies

DRIVER = Path(__file__).with_name("killed_driver.py")


class Place:
    """A home, a workspace and a file of stamps, all new; `do` runs the session there in a process of its own."""

    def __init__(self, root: Path, driver: subprocess.Popen[str], **kind: Any) -> None:
        root.mkdir()
        self.kind = kind
        self.home, self.workspace, self.stamps = root / "home", root / "workspace", root / "stamps"
        self.workspace.mkdir()
        self.stamps.touch()
        (self.workspace / "a.txt").write_text("teh cat")
        self._driver = driver

    def do(self, *die: Any) -> Any:
        """Run the session, killed as `die` says, and return what became of it."""
        paths = {"home": self.home, "workspace": self.workspace, "stamps": self.stamps}
        order = {name: str(path) for name, path in paths.items()} | {"die": die, **self.kind}
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(f"{json.dumps(order)}\n")
        self._driver.stdin.flush()
        return json.loads(self._driver.stdout.readline())

    def git(self, *words: str) -> str:
        """Run git in the workspace and return what it says."""
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
        return subprocess.run(command, cwd=self.workspace, check=True, capture_output=True, text=True).stdout.strip()

    async def undo_all(self) -> None:
        """Take back every change of the session; fails where one cannot be."""
        environ = {"FOREGATE_HOME": str(self.home)}
        opened = await open_session(SessionOptions(model="rehearsal", resume="last", environ=environ))
        try:
            while (report := await undo(opened.session)).done:
                pass
            assert report.reason == "nothing that was changed in this session can be undone"
        finally:
            await opened.close(end=False)

    async def log(self) -> list[Event]:
        """Return the events of the one session; fails when they do not verify."""
        log = SqliteLog(self.home / "events.db")
        try:
            names = await log.sessions()
            written = [name for name in names if verify_session(log, name).events]
            assert all(verify_session(log, name).ok for name in written)
            return list(await log.read(written[0])) if written else []
        finally:
            log.close()


@pytest.fixture(scope="module")
def driver() -> Iterator[subprocess.Popen[str]]:
    """The driver, which forks a process for every session."""
    command = [sys.executable, "-I", str(DRIVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def sound(place: Place, events: list[Event]) -> None:
    """Check what must hold after a kill and a resume: nothing ran twice, and what is not known is said."""
    changed = [body.call for body in bodies(events, ToolStarted) if body.side_effect != "pure"]
    assert len(changed) == len(set(changed))
    assert sum(body.ok and body.tool == "edit_file" for body in bodies(events, ToolFinished)) == 1
    unknown = Counter(body.tool for body in bodies(events, OutcomeUnknown))
    stamps = place.stamps.read_text().splitlines()
    assert len(stamps) <= 1
    assert stamps or unknown["stamp"]
    assert (place.workspace / "a.txt").read_text() == "the cat"
    assert unknown.keys() <= {"stamp"}
    assert sum(unknown.values()) <= 1


def taken_up(left: list[Event], events: list[Event]) -> None:
    """Check that what the last event before the kill allowed was carried out on that very judgement."""
    last = left[-1] if left else None
    if last is None or not isinstance(last.body, TurnJudged) or last.body.turn.actor != "model":
        return
    allowed = {verdict.call for verdict in last.body.judgement.verdicts if verdict.standing is Standing.ALLOW}
    permits = [body.permit for body in bodies(events, ToolStarted)]
    assert allowed == {permit.call for permit in permits if permit.judged == last.seq}


PAIRS = [("at_once", False, False), ("at_once", True, True), ("written", True, False), ("written", False, True)]
"""Every two values of the three, together. Of the two that are killed alike one is killed after each odd event, and one
after each even one."""


@pytest.mark.parametrize(("how", "staged", "early"), PAIRS)
async def test_a_process_killed_after_any_event_leaves_a_log_that_verifies_and_goes_on_and_nothing_runs_twice(
    how: str, staged: bool, early: bool, tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    whole = Place(tmp_path / "whole", driver, staged=staged, early=early).do()
    assert whole["outcome"] == "completed"
    parked = 0
    for number in range(1 + staged, whole["events"] + 1, 2):
        place = Place(tmp_path / str(number), driver, staged=staged, early=early)
        assert place.do(how, number) == "killed"
        left = await place.log()
        assert (number if how == "written" else 0) <= len(left) <= number + 1
        done = place.do()
        assert done["outcome"] in ("completed", "over")
        events = await place.log()
        assert [event.hash for event in events[: len(left)]] == [event.hash for event in left]
        sound(place, events)
        taken_up(left, events)
        parked += any(event.kind == "outcome_unknown" for event in events)
    assert parked >= (1 if how == "written" else 0)


async def test_a_process_killed_inside_an_effect_does_not_repeat_it(
    tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    place = Place(tmp_path / "tool", driver)
    assert place.do("after", "stamp") == "killed"
    assert (await place.log())[-1].kind == "tool_started"
    assert place.stamps.read_text() == "k\n"
    assert place.do()["outcome"] == "completed"
    events = await place.log()
    sound(place, events)
    assert [body.tool for body in bodies(events, OutcomeUnknown)] == ["stamp"]
    assert place.stamps.read_text() == "k\n"


@pytest.mark.parametrize("tool", ["edit_file", "git_add", "git_commit"])
@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_process_killed_on_either_side_of_an_effect_is_gone_on_with_knowing_what_came_of_it(
    how: str, tool: str, tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    place = Place(tmp_path / "place", driver, commits=True)
    place.git("init", "-q", "-b", "main")
    place.git("commit", "-q", "--allow-empty", "-m", "base")
    base = place.git("rev-parse", "HEAD")
    assert place.do(how, tool) == "killed"
    assert (await place.log())[-1].kind == "tool_started"
    assert place.do()["outcome"] == "completed"
    events = await place.log()
    assert bodies(events, OutcomeUnknown) == []
    ends = [(body.ok, body.error) for body in bodies(events, ToolFinished) if body.tool == tool]
    assert ends == ([(True, "")] if how == "after" else [(False, "not_done"), (True, "")])
    assert len([body for body in bodies(events, ToolStarted) if body.tool == tool]) == len(ends)
    assert place.git("log", "--format=%s").split("\n") == ["fix it", "base"]
    await place.undo_all()
    assert (place.workspace / "a.txt").read_text() == "teh cat"
    assert (place.git("rev-parse", "HEAD"), place.git("status", "--porcelain")) == (base, "?? a.txt")


async def test_a_process_killed_again_and_again_gets_to_the_end(tmp_path: Path, driver: subprocess.Popen[str]) -> None:
    place = Place(tmp_path / "often", driver)
    number = 0
    while (became := place.do("written", number + 5)) == "killed":
        number = len(await place.log())
    assert became["outcome"] in ("completed", "over")
    sound(place, await place.log())


def prepare_slow_add(tmp_path: Path, driver: subprocess.Popen[str]) -> Place:
    """Return a place whose process was killed while its git held the lock of the index."""
    place = Place(tmp_path / "place", driver, commits=True, adds=["large"])
    place.git("init", "-q", "-b", "main")
    place.git("commit", "-q", "--allow-empty", "-m", "base")
    with (place.workspace / "large").open("wb") as file:
        file.truncate(400_000_000)  # git reads it all while it holds the lock
    assert place.do("running", ".git/index.lock") == "killed"
    os.truncate(place.workspace / "large", 4)
    return place


async def test_the_lock_of_a_git_that_was_killed_with_its_process_is_removed_and_the_session_goes_on(
    tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    place = prepare_slow_add(tmp_path, driver)
    assert (await place.log())[-1].kind == "tool_started"
    assert place.do()["outcome"] == "completed"
    events = await place.log()
    [lost, again] = [body for body in bodies(events, ToolFinished) if body.tool == "git_add"]
    assert (lost.ok, lost.error, again.ok) == (False, "not_done", True)
    assert lost.content.endswith("(the lock it left, `.git/index.lock`, was removed)")
    assert not list(place.workspace.rglob("*.lock"))
    assert place.git("log", "--format=%s").split("\n") == ["fix it", "base"]


@contextmanager
def hold_lock(place: Place, lock: Path) -> Iterator[None]:
    """Have a program that calls itself git, as far as the system tells, live in the repository with a lock it made."""
    program = place.home.parent / "git-foreign"
    program.symlink_to(sys.executable)
    script = "import os, sys; os.unlink(sys.argv[1]); open(sys.argv[1], 'x').close(); print(flush=True); input()"
    command, pipe = [program, "-c", script, str(lock)], subprocess.PIPE
    with subprocess.Popen(command, cwd=place.workspace, stdin=pipe, stdout=pipe) as foreign:
        assert foreign.stdout is not None
        foreign.stdout.readline()
        yield
        foreign.communicate(b"\n")


async def test_the_lock_of_another_git_that_lives_stays_and_nothing_is_said_to_be_removed(
    tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    place = prepare_slow_add(tmp_path, driver)
    lock = place.workspace / ".git/index.lock"
    with hold_lock(place, lock):
        made = lock.stat().st_ino
        place.do()
        assert lock.stat().st_ino == made
    ended = [body.content for body in bodies(await place.log(), ToolFinished) if body.tool == "git_add"]
    assert ended
    assert not any("removed" in text for text in ended)
    assert "index.lock" in ended[-1]
