"""A command in a sandbox where something fails: one sentence says so, and nothing of it is half done."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop import machine_runner
from foregate.agent.loop.applying import apply_changes
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.sandbox.changes import list_changes
from foregate.agent.session.session import Session
from foregate.agent.tools.commands import run_shell
from foregate.agent.workspace import work_sandbox
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.event_body import CallAnswered, ToolFinished, ToolStarted
from foregate.schemas.sandbox import PathChange
from foregate.schemas.tool_call import ToolResult
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.queries.verify import verify_session
from tests.agent.loop.test_killed import Place, driver
from tests.conftest import OpenSession
from tests.events import bodies
from tests.full_disk import no_room_for
from tests.policies import EVERYTHING_OFF, policy_with

POLICY = default_policy()
LARGE = 1 << 20
__all__ = ["driver"]
Play = Callable[..., Awaitable[tuple[Session, str]]]


@pytest.fixture
def play(open_session: OpenSession, folder: Path, tmp_path: Path) -> Play:
    """Plays a session in which the model sends a line to the shell; returns it, and what the model was told."""
    space = LocalWorkspace(folder, tmp_path / "sandboxes")
    if find_work_tier(space, POLICY)["tier"] != "full":
        pytest.skip("this machine has no sandboxes")

    async def played(line: str, policy: Policy = POLICY, person: Any = None, **more: Any) -> tuple[Session, str]:
        log = MemoryLog()
        steps = calls(("run_shell", {"command": line, **more})), says("done")
        tools = [run_shell(space, policy)]
        session = await open_session(*steps, tools=tools, policy=policy, person=person, log=log)
        await run(session, "go on")
        found = verify_session(log, "s")
        assert found.ok, found.defects
        assert list((tmp_path / "sandboxes").glob("*/run-*")) == []
        bodies = [event.body for event in await session.log.read()]
        (said,) = [b.content if isinstance(b, ToolFinished) else b.message for b in bodies if is_end(b)]
        return session, said

    return played


def is_end(body: object) -> bool:
    return isinstance(body, (ToolFinished, CallAnswered))


def is_sentence(text: str) -> bool:
    return bool(text) and "Traceback" not in text and "\n" not in text.strip()


async def test_a_disk_that_is_full_when_changes_are_applied_brings_all_of_them_back(
    play: Play, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("one\n")

    def apply(*arguments: Any) -> ToolResult:
        with no_room_for(LARGE):
            return apply_changes(*arguments)

    monkeypatch.setattr(machine_runner, "apply_changes", apply)
    session, said = await play(f"echo two >> a.txt; mkdir b; head -c {LARGE} /dev/zero > b/large; echo x > z.txt")
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    assert (folder / "a.txt").read_text() == "one\n"
    assert is_sentence(said), said
    assert "free some space" in said
    assert [body.error for body in bodies(await session.log.read(), ToolFinished)] == ["tool_failed"]


@pytest.mark.parametrize("step", ["find_conflicts", "keep_images", "apply_changes"])
async def test_what_somebody_saves_before_changes_are_applied_is_named_whenever_that_is(
    step: str, play: Play, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("one\n")
    take = getattr(machine_runner, step)

    def take_late(*arguments: Any) -> Any:
        (folder / "a.txt").write_text("mine\n")
        return take(*arguments)

    monkeypatch.setattr(machine_runner, step, take_late)
    session, said = await play("echo two >> a.txt; echo x > b.txt")
    (end,) = [event.body for event in await session.log.read() if is_end(event.body)]
    assert (end.code if isinstance(end, CallAnswered) else end.error) == "stale_evidence"
    assert "`a.txt` changed meanwhile; look what is there" in said
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    assert (folder / "a.txt").read_text() == "mine\n"


async def test_too_many_files_are_not_listed_and_nothing_of_them_is_kept(play: Play, folder: Path) -> None:
    few = policy_with({"commands.sandbox.files": 5})
    _, said = await play("for n in 1 2 3 4 5 6 7 8; do echo x > f$n; done", few)
    assert list(folder.iterdir()) == []
    assert "5 files" in said or "5 paths" in said, said


async def test_a_disk_that_is_full_when_changes_are_listed_leaves_nothing_of_them(
    play: Play, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").mkdir()
    (folder / "a/large").write_bytes(bytes(LARGE))

    def list_there(*arguments: Any, **more: Any) -> list[PathChange]:
        with no_room_for(LARGE):
            return list_changes(*arguments, **more)

    monkeypatch.setattr(work_sandbox, "list_changes", list_there)
    _, said = await play("echo x > c; mv a b")
    assert sorted(path.name for path in folder.iterdir()) in (["a"], ["b", "c"])
    assert is_sentence(said), said


async def test_a_command_that_no_sandbox_can_be_made_for_is_asked_about_and_the_sheet_says_why(
    play: Play, workspace: Workspace, folder: Path, tmp_path: Path
) -> None:
    workspace.sandboxes = tmp_path / "open"
    workspace.sandboxes.mkdir()
    workspace.sandboxes.chmod(0o777)
    person = ScriptedPerson(["no"])
    await play("echo x > a.txt", policy_with(EVERYTHING_OFF), person)
    why = person.needs[0].request["calls"][0]["why"]
    assert why[1:] == [
        f"no sandbox holds it here: others can write to `{tmp_path / 'open'}`; remove it, or set FOREGATE_HOME"
    ]
    assert list(folder.iterdir()) == []


async def test_a_command_that_takes_too_long_says_so_and_nothing_of_it_is_kept(play: Play, folder: Path) -> None:
    _, said = await play("echo x > a.txt; exec sleep 98764", timeout_ms=200)
    assert said.endswith("give it more time by `timeout_ms`, or less to do\nnothing of what it did was kept")
    assert list(folder.iterdir()) == []


async def test_a_program_that_writes_and_is_listed_among_those_that_read_says_so(play: Play, folder: Path) -> None:
    _, said = await play("touch a.txt", policy_with({"commands.reads": {"touch": {}}}))
    assert said.endswith("write with a file tool or a redirection.")
    assert list(folder.iterdir()) == []


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


@as_root
async def test_a_command_that_fills_the_disk_of_its_sandbox_is_stopped_and_nothing_of_it_is_kept(
    tmp_path: Path, driver: subprocess.Popen[str], play: Play
) -> None:
    line = "echo more > b.txt; head -c 100000000 /dev/zero > large"
    place = Place(tmp_path / "place", driver, shell=line, says="yes", disk=str(tmp_path / "place/home/sandboxes"))
    place.do("written", 8)
    assert [path.name for path in place.workspace.iterdir()] == ["a.txt"]
    (end,) = bodies(await place.log(), ToolFinished)
    assert not end.ok
    assert "more than half of what was free on the disk was used up" in end.content
    assert end.content.endswith("nothing of what it did was kept")


@as_root
@pytest.mark.parametrize("files", [2, 3, 4])
async def test_where_the_disk_has_no_room_for_a_sandbox_the_command_is_asked_about_as_where_there_is_none(
    files: int, tmp_path: Path, driver: subprocess.Popen[str], play: Play
) -> None:
    disk = str(tmp_path / "place/home/sandboxes")
    place = Place(tmp_path / "place", driver, shell="echo more > b.txt", says="", disk=disk, files=files)
    assert place.do()["outcome"] == "awaiting_approval"
    assert [path.name for path in place.workspace.iterdir()] == ["a.txt"]
    assert bodies(await place.log(), ToolStarted) == []


def open_with_volume(folder: Path, driver: subprocess.Popen[str], line: str) -> Place:
    """Return a place with a disk mounted in its workspace at `volume`, where a person lets a shell line run."""
    disk = str(folder / "place/workspace/volume")
    return Place(folder / "place", driver, shell=line, says="yes", disk=disk)


@as_root
async def test_what_is_mounted_in_a_workspace_outlasts_whatever_a_command_does_to_it(
    tmp_path: Path, driver: subprocess.Popen[str], play: Play
) -> None:
    place = open_with_volume(tmp_path, driver, "echo more > b.txt; rm -rf volume")
    done = place.do()
    assert (done["outcome"], done["disk"]) == ("completed", "kept")
    assert (place.workspace / "b.txt").read_text() == "more\n"
    assert (place.workspace / "volume").is_dir()


@as_root
async def test_what_a_command_writes_where_something_is_mounted_is_refused_in_one_sentence_with_all_else(
    tmp_path: Path, driver: subprocess.Popen[str], play: Play
) -> None:
    place = open_with_volume(tmp_path, driver, "echo more > b.txt; echo x > volume/new")
    place.do()
    end = bodies(await place.log(), ToolFinished)[-1]
    assert end.content.startswith("nothing was changed: `volume` holds what the command could not see")
    assert "another file system" in end.content
    assert sorted(path.name for path in place.workspace.iterdir()) == ["a.txt", "volume"]
