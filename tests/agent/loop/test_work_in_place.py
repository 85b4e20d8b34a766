"""Where nothing better holds it a command works in the workspace itself, and what it changed is taken out at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.tools.commands import run_shell
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from tests.agent.loop.test_killed import Place, driver
from tests.agent.loop.test_sandbox_turn import IN_LIMITED, Play, play, tier
from tests.agent.workspace.snapshot_trees import look
from tests.conftest import OpenSession
from tests.events import bodies
from tests.policies import policy_with

__all__ = ["driver", "play", "tier"]
pytestmark = IN_LIMITED
LINE = (
    "echo two >> a.txt; ln a.txt hard; mv old new; ln -s a.txt link; mkdir -p d/e; echo x > d/e/f; "
    "rm -r gone; echo KEY=1 > .env"
)


@pytest.fixture
def project(folder: Path) -> Path:
    """Files with all that can be lost on the way, older than the clock can tell apart."""
    for name in ("old", "gone"):
        (folder / name).mkdir()
        (folder / name / "x").write_text(f"{name}\n")
    (folder / "a.txt").write_text("one\n")
    (folder / "a.txt").chmod(0o640)
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return folder


async def test_while_a_person_is_asked_and_after_a_no_the_workspace_is_what_it_was_to_the_last_attribute(
    play: Play, project: Path
) -> None:
    before, seen = look(project), []

    def say_no(need: Need) -> Reply:
        seen.append(look(project))
        return Reply("no")

    await play("set it up: move old, delete gone", LINE, LINE, person=ScriptedPerson([say_no, say_no]))
    assert seen
    assert all(one == before for one in seen)
    assert look(project) == before


async def test_after_a_yes_all_of_it_is_there_and_undo_brings_everything_back(play: Play, project: Path) -> None:
    before = look(project)
    session = await play("set it up: move old, delete gone", LINE, LINE, person=ScriptedPerson(["yes"] * 3))
    assert (project / "a.txt").read_text() == "one\ntwo\n"
    assert (project / "a.txt").stat().st_ino == (project / "hard").stat().st_ino
    assert (project / "link").readlink() == Path("a.txt")
    assert (project / "new/x").read_text() == "old\n"
    assert (project / "d/e/f").read_text() == "x\n"
    assert not (project / "gone").exists()
    report = await undo(session)
    assert report.done, report
    assert look(project) == before


async def test_copies_are_named_durably_before_the_command_starts(play: Play, project: Path) -> None:
    session = await play("go on", "echo two >> a.txt")
    ran, applied = bodies(await session.log.read(), ToolStarted)
    assert (ran.confinement, ran.side_effect, len(ran.snapshot)) == ("limited", "pure", 64)
    assert (applied.snapshot, applied.applies is not None) == ("", True)


async def test_no_command_works_unasked_in_a_workspace_that_could_not_be_put_back(
    play: Play, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("one\n")
    (folder / "a.txt").hardlink_to(tmp_path / "outside")
    session = await play("go on", "echo two >> a.txt")
    assert (tmp_path / "outside").read_text() == "one\n"
    events = await session.log.read()
    assert "tool_started" not in [event.kind for event in events]
    (survey,) = bodies(events, TurnJudged)[0].turn.surveys
    assert (survey.work, "`a.txt` is also the name of a file outside" in survey.unheld) == ("none", True)


async def test_a_command_beside_a_secret_file_is_asked_about_before_it_runs(play: Play, folder: Path) -> None:
    (folder / "conf").mkdir()
    (folder / "conf/.env").write_text("KEY=1\n")
    lines = ["mv conf conf2"] * 4  # the second time with words before it, then twice in place of a plan
    session = await play("tidy conf up", *lines, person=ScriptedPerson(["no"]))
    assert (folder / "conf/.env").read_text() == "KEY=1\n"
    assert "tool_started" not in [event.kind for event in await session.log.read()]


async def test_what_a_person_lets_work_unheld_is_recorded_as_held_by_nothing(play: Play, folder: Path) -> None:
    (folder / "conf").mkdir()
    (folder / "conf/.env").write_text("KEY=1\n")
    lines = ["mv conf conf2"] * 4  # the second time with words before it, then twice in place of a plan
    session = await play("tidy conf up", *lines, person=ScriptedPerson(["yes"]))
    assert (folder / "conf2/.env").exists()
    assert [started.confinement for started in bodies(await session.log.read(), ToolStarted)] == ["none"]


async def test_a_command_that_wanted_a_host_is_told_how_to_request_it(play: Play) -> None:
    session = await play("go on", "bash -c ': > /dev/tcp/example.org/443'")
    (finished,) = bodies(await session.log.read(), ToolFinished)
    assert finished.content.endswith("not given to its sandbox; request access `network:example.org`.")


async def test_caches_that_are_run_unread_do_not_stay(play: Play, folder: Path) -> None:
    (folder / "lib.py").write_text("x = 1\n")
    session = await play("run it", "python3 -c 'import lib' && ls __pycache__")
    assert [path.name for path in folder.iterdir()] == ["lib.py"]
    (finished,) = bodies(await session.log.read(), ToolFinished)
    assert finished.content.startswith("lib.cpython")


async def test_a_command_that_changes_more_than_can_be_judged_is_taken_back(
    open_session: OpenSession, workspace: Workspace, folder: Path, play: Play
) -> None:
    policy = policy_with({"commands.sandbox.snapshot": {"files": 8, "bytes": 1 << 20}})
    steps = calls(("run_shell", {"command": "for n in 1 2 3 4 5 6 7 8 9; do echo x > $n; done"})), says("done")
    session = await open_session(*steps, tools=[run_shell(workspace, policy)], policy=policy)
    await run(session, "make them")
    assert list(folder.iterdir()) == []
    (finished,) = bodies(await session.log.read(), ToolFinished)
    assert "changed more than can be judged at once" in finished.content


async def test_what_a_killed_command_changed_lies_beside_the_workspace_that_is_put_back(
    tmp_path: Path, driver: subprocess.Popen[str], play: Play
) -> None:
    line = "echo more >> a.txt; : > here; test -e go || exec sleep 98764"
    place = Place(tmp_path / "place", driver, shell=line, says="", tier="limited")
    assert place.do("running", "here") == "killed"
    assert (place.workspace / "a.txt").read_text() == "teh catmore\n"
    await place.undo_all()  # which resumes the session and changes nothing more
    assert [path.name for path in place.workspace.iterdir()] == ["a.txt"]
    assert (place.workspace / "a.txt").read_text() == "teh cat"
    kept = place.home.glob("sandboxes/*/run-*/upper/a.txt")
    assert [path.read_text() for path in kept] == ["teh catmore\n"]


async def test_a_file_written_anew_keeps_its_mode_which_a_command_cannot_set(play: Play, project: Path) -> None:
    await play("say two", "sed -i 1p a.txt")
    assert (project / "a.txt").read_text() == "one\none\n"
    assert (project / "a.txt").stat().st_mode & 0o7777 == 0o640
