"""What was applied is taken back by `undo` as one step, a git repository of the workspace included."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from foregate.agent.loop.applying import apply_changes, build_undo_step, keep_images
from foregate.agent.loop.executor import draft_finish
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.loop.stored_changes import name_parted
from foregate.agent.loop.undo import undo
from foregate.agent.session.session import Session
from foregate.agent.workspace.confinement import hold_turn, seek_turn
from foregate.agent.workspace.path_state import rank_path
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.event import Draft
from foregate.schemas.event_body import Checkpoint, EffectUndone, TaskStarted, ToolStarted
from foregate.schemas.tool_call import Permit, ToolResult
from foregate.schemas.tool_spec import Effect
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.agent.effects.conftest import Do
from tests.agent.effects.test_applying_killed import KILLED, run_killed
from tests.agent.effects.trees import list_changes, read_tree
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, policy_with

POLICY = policy_with(EVERYTHING_OFF)


@pytest.fixture
def upper(folder: Path) -> Path:
    """A copy of the workspace in which a sandbox made changes."""
    (folder / "a.txt").write_text("old")
    (folder / "d").mkdir()
    (folder / "d/b.txt").write_text("old")
    upper = folder.parent / "upper"
    shutil.copytree(folder, upper, symlinks=True)
    (upper / "a.txt").write_text("new")
    shutil.rmtree(upper / "d")
    (upper / "made").mkdir()
    (upper / "made/c.txt").write_text("new")
    return upper


async def apply_in(session: Session, upper: Path) -> ToolResult:
    """Apply what a sandbox made of the workspace as one call of a session."""
    place = Snapshots(session.workspace, session.policy, session.blobs)
    kept = keep_images(place, list_changes(session.workspace.root, upper), upper)
    started = ToolStarted(
        call="applied",
        tool="run_command",
        target="make",
        permit=Permit("applied", "0" * 64, 1, "0" * 64),
        side_effect="at_most_once",
        effect=Effect.EXECUTE,
        before=(),
        images=kept,
    )
    await session.record(Draft(TaskStarted(task=2, depth=0), "foregate"))
    await session.record(Draft(started, "foregate"))
    result = apply_changes(place, kept, upper)
    await session.record(draft_finish(started, result, 0, "foregate"))
    return result


async def test_what_was_applied_is_one_step_to_undo(folder: Path, upper: Path, do: Do) -> None:
    session = await do()
    before = read_tree(folder)
    result = await apply_in(session, upper)
    assert {change.resource.id for change in result.changes} == {"a.txt", "d", "d/b.txt", "made", "made/c.txt"}
    shown = await undo(session, preview=True)
    report = await undo(session)
    assert (report.done, report.steps) == (True, ("take back what was changed at 5 paths",)) == (True, shown.steps)
    assert read_tree(folder) == before
    (body,) = bodies(await session.log.read(), EffectUndone)
    assert set(body.resources) == {change.resource.id for change in result.changes}
    assert not (await undo(session)).done


async def test_undo_is_refused_in_one_sentence_where_something_was_saved_since(
    folder: Path, upper: Path, do: Do
) -> None:
    session = await do()
    await apply_in(session, upper)
    (folder / "made/c.txt").write_text("mine")
    (folder / "made/mine.txt").write_text("mine")
    saved = read_tree(folder)
    report = await undo(session)
    assert not report.done
    named = "`made/c.txt`, `made/mine.txt` changed since; undo what came after it first, or change it by hand"
    assert (report.reason, read_tree(folder)) == (named, saved)


async def test_undo_is_refused_in_one_sentence_while_a_command_works_in_a_sandbox_of_the_workspace(
    folder: Path, upper: Path, do: Do
) -> None:
    session = await do()
    await apply_in(session, upper)
    applied = read_tree(folder)
    async with hold_turn(session.workspace):
        assert (await undo(session, preview=True)).done
        report = await undo(session)
        assert (report.done, read_tree(folder)) == (False, applied)
        assert report.reason.startswith("a command works in a sandbox of this workspace")
    assert bodies(await session.log.read(), Checkpoint) == []
    assert (await undo(session)).done


async def test_no_command_works_in_a_sandbox_of_the_workspace_while_an_undo_is_under_way(
    folder: Path, upper: Path, do: Do
) -> None:
    session = await do()
    await apply_in(session, upper)
    settle, free = session.log.settle, list[bool]()

    async def look_and_settle() -> None:
        with seek_turn(session.workspace) as is_free:
            free.append(is_free)
        await settle()

    session.log.settle = look_and_settle  # type: ignore[method-assign]
    assert (await undo(session)).done
    assert free
    assert not any(free)


async def test_other_things_saved_since_stay_and_keep_their_folders_time(folder: Path, upper: Path, do: Do) -> None:
    session = await do()
    await apply_in(session, upper)
    (folder / "mine.txt").write_text("mine")
    time = folder.stat().st_mtime_ns
    assert (await undo(session)).done
    assert (folder / "mine.txt").read_text() == "mine"
    assert folder.stat().st_mtime_ns >= time, "whoever goes by a folder's time must see what was saved there"


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, as nobody in particular."""
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "gc.auto=0")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    ran = subprocess.run(["git", *who, *words], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def note_files_anew(folder: Path) -> None:
    """Have git renew what its index notes of the files on disk, as prompts and editors do all the time."""
    before = (folder / ".git/index").read_bytes()
    time = (folder / "a.txt").stat().st_mtime_ns - 10**12
    os.utime(folder / "a.txt", ns=(time, time))
    git(folder, "update-index", "--refresh")
    assert (folder / ".git/index").read_bytes() != before


@pytest.fixture
def committed(folder: Path) -> tuple[Path, str]:
    """A repository with a commit, and the commit; beside it a copy in which there is one more, on another branch."""
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    upper = folder.parent / "upper"
    shutil.copytree(folder, upper, symlinks=True)
    git(upper, "switch", "-q", "-c", "topic")
    (upper / "a.txt").write_text("two")
    git(upper, "commit", "-qam", "second")
    git(upper, "gc", "-q")
    return upper, git(folder, "rev-parse", "HEAD")


def test_a_commit_of_a_sandbox_is_applied_and_taken_back_and_its_objects_stay(
    folder: Path, workspace: Workspace, committed: tuple[Path, str]
) -> None:
    upper, first = committed
    place = Snapshots(workspace, POLICY, MemoryBlobs())
    kept = keep_images(place, list_changes(folder, upper), upper)
    note_files_anew(folder)
    result = apply_changes(place, kept, upper)
    note_files_anew(folder)
    second = git(folder, "rev-parse", "topic")
    assert git(folder, "log", "--format=%s") == "second\nfirst"
    assert (git(folder, "status", "--short"), git(folder, "fsck", "--strict")) == ("", "")
    step = build_undo_step(place, kept, result.changes)
    step.check(False)
    step.take_back()
    step.verify()
    assert (git(folder, "rev-parse", "HEAD"), git(folder, "branch", "--list")) == (first, "* main")
    assert (git(folder, "status", "--short"), (folder / "a.txt").read_text()) == ("", "one")
    assert git(folder, "cat-file", "-t", second) == "commit"


def test_at_no_moment_of_applying_a_commit_git_finds_a_name_without_its_object(
    folder: Path, workspace: Workspace, committed: tuple[Path, str]
) -> None:
    upper, first = committed
    place = Snapshots(workspace, POLICY, MemoryBlobs())
    changes = list_changes(folder, upper)
    paths = [step.path for step in sorted(changes, key=lambda one: rank_path(one.path))]
    assert paths.index(".git/HEAD") == len(paths) - 1
    fresh = folder.parent / "fresh"
    shutil.copytree(folder, fresh, symlinks=True)
    ends = []
    for steps in range(0, 200, 7):
        shutil.rmtree(folder / ".git")
        shutil.copytree(fresh / ".git", folder / ".git", symlinks=True)
        (folder / "a.txt").write_text("one")
        kept = keep_images(place, list_changes(folder, upper), upper)
        ended = run_killed(lambda: apply_changes(place, kept, upper), steps)  # noqa: B023
        git(folder, "fsck", "--connectivity-only")
        ends.append(ended)
        for stage in folder.glob(".foregate-*"):
            shutil.rmtree(stage)
        if ended != KILLED:
            break
    assert KILLED in ends
    assert ends[-1] == 0
    assert first


@pytest.mark.parametrize(
    ("line", "has_parted"), [("echo two >> app", True), ("rm app; echo two > new; ln new app", False)]
)
def test_only_a_name_that_was_written_to_has_parted_from_the_others(
    workspace: Workspace, folder: Path, line: str, has_parted: bool
) -> None:
    (folder / "app").write_text("one\n")
    (folder / "old").hardlink_to(folder / "app")
    upper = folder.parent / "upper"
    shutil.copytree(folder, upper)
    subprocess.run(["/bin/sh", "-ec", line], cwd=upper, check=True)
    place = Snapshots(workspace, POLICY, MemoryBlobs())
    kept = keep_images(place, list_changes(folder, upper), upper)
    assert ("`app`" in name_parted(place.blobs, kept)) is has_parted
