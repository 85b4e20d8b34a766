"""Sandboxes of a workspace in several processes: one at a time, and nothing goes that somebody comes back to."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foregate.agent.sandbox.starter import SandboxFailed
from foregate.agent.workspace.confinement import (
    discard_upper,
    find_folder,
    hold_turn,
    make_upper,
    note_end,
    sweep_folder,
)
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import WorkspaceError

OTHER = """
import asyncio, sys
from pathlib import Path
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.confinement import find_folder, hold_turn, make_upper

async def work():
    space = LocalWorkspace(sys.argv[1], Path(sys.argv[2]))
    async with hold_turn(space):
        print(make_upper(find_folder(space)), flush=True)
        sys.stdin.read()

asyncio.run(work())
"""


@pytest.fixture
def workspace(folder: Path, tmp_path: Path) -> Iterator[Workspace]:
    """The workspace over `folder`, its sandboxes beside it."""
    space = LocalWorkspace(folder, tmp_path / "sandboxes")
    yield space
    space.close()


@contextmanager
def start_other(workspace: Workspace) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start another process at work in a sandbox of the workspace, and return it with its sandbox's folder."""
    words = [sys.executable, "-I", "-c", OTHER, str(workspace.root), str(workspace.sandboxes)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


async def take_turn(workspace: Workspace) -> None:
    async with hold_turn(workspace):
        pass


async def test_a_process_waits_while_another_works_in_a_sandbox_until_that_has_ended_however(
    workspace: Workspace,
) -> None:
    with start_other(workspace) as (other, _):
        waiting = asyncio.ensure_future(take_turn(workspace))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        other.kill()
        await waiting


async def test_who_waits_can_be_cancelled_and_holds_nothing(workspace: Workspace) -> None:
    async with hold_turn(workspace):
        waiting = asyncio.ensure_future(take_turn(workspace))
        await asyncio.wait([waiting], timeout=0.02)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    await take_turn(workspace)


async def test_a_turn_that_ends_by_an_error_is_over(workspace: Workspace) -> None:
    with pytest.raises(ZeroDivisionError):
        async with hold_turn(workspace):
            raise ZeroDivisionError
    await take_turn(workspace)


def let_pass(upper: Path, seconds: int) -> None:
    """Have a sandbox have ended so many seconds ago."""
    for one in (upper, upper / "held"):
        if one.exists():
            ago = one.stat().st_mtime - seconds
            os.utime(one, (ago, ago))


def test_the_folder_of_a_process_that_lives_stays_however_old_and_goes_with_the_process(workspace: Workspace) -> None:
    folder = find_folder(workspace)
    with start_other(workspace) as (other, upper):
        let_pass(upper, 1000)
        sweep_folder(folder, 60)
        assert upper.is_dir()
        other.kill()
        other.wait()
        sweep_folder(folder, 2000)
        assert upper.is_dir()
        sweep_folder(folder, 60)
        assert not upper.exists()


def test_a_sandbox_of_this_process_is_kept_until_it_is_thrown_away(workspace: Workspace) -> None:
    upper = make_upper(find_folder(workspace))
    note_end(upper)
    let_pass(Path(upper), 1000)
    sweep_folder(find_folder(workspace), 60)
    assert Path(upper).is_dir()
    discard_upper(upper)
    assert not Path(upper).exists()


@pytest.mark.parametrize("name", ["run-x", "probe-x"])
def test_what_a_process_left_before_it_could_lock_it_goes_with_time(name: str, workspace: Workspace) -> None:
    folder = find_folder(workspace)
    left = folder / name
    (left / "upper/deep").mkdir(parents=True)
    (folder / "caches").mkdir()
    sweep_folder(folder, 60)
    assert left.is_dir()
    let_pass(left, 1000)
    sweep_folder(folder, 60)
    assert [path.name for path in folder.iterdir()] == ["caches"]


def test_a_link_in_the_place_of_a_sandbox_is_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    folder, mine = find_folder(workspace), tmp_path / "mine"
    mine.mkdir()
    (mine / "held").touch()
    let_pass(mine, 1000)
    (folder / "run-x").symlink_to(mine)
    sweep_folder(folder, 60)
    assert (mine / "held").exists()


@pytest.mark.parametrize("what", ["a file", "open to others"])
async def test_where_the_sandboxes_have_no_folder_the_tier_falls_and_says_why_in_one_sentence(
    what: str, folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "sandboxes"
    if what == "a file":
        place.touch()
    else:
        place.mkdir()
        place.chmod(0o777)
    space = LocalWorkspace(folder, place)
    try:
        probe = find_work_tier(space, default_policy())
        assert probe["tier"] == "none"
        assert "set FOREGATE_HOME" in probe["reason"]
        with pytest.raises(WorkspaceError, match="set FOREGATE_HOME"):
            await take_turn(space)
    finally:
        space.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_full_disk_says_nothing_of_the_machine_and_lets_no_command_run(
    number: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    space = LocalWorkspace(folder, tmp_path / "sandboxes")
    try:
        monkeypatch.setattr(Path, "mkdir", refuse)
        with pytest.raises(SandboxFailed, match="cannot be made"):
            find_work_tier(space, default_policy())
    finally:
        space.close()
