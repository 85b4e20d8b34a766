"""Temporary files that a killed process left are removed by the next session, and none that is still being written."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foregate.agent.models.scripted import ScriptedModel
from foregate.agent.tools.looking import list_entries
from foregate.agent.workspace.local import LocalWorkspace
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.policy.source.load import default_policy
from foregate.telemetry.log.temporary_file import FileBlobs

STUCK = """
import os, sys
from pathlib import Path
from foregate.agent.workspace.local import LocalWorkspace
from foregate.telemetry.log.temporary_file import FileBlobs

def wait(file):
    print("here", flush=True)
    sys.stdin.read()

os.fsync = wait
if sys.argv[2] == "blob":
    FileBlobs(Path(sys.argv[1]))._write_file(Path(sys.argv[1], "x"), b"half of it", wait, wait)
else:
    LocalWorkspace(sys.argv[1]).write("deep.txt", b"half of it")
"""


@contextmanager
def start_writer(folder: Path, what: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that stands in the middle of writing a file to a folder; it is killed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-I", "-c", STUCK, str(folder), what]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        try:
            yield process
        finally:
            process.kill()


def list_names(folder: Path) -> list[str]:
    """Return the names of the files below a folder."""
    return [path.name for path in folder.rglob("*") if path.is_file()]


async def visit(workspace: Path, home: Path) -> None:
    """Open a session of a workspace and a home, and close it."""
    environ = {**os.environ, "FOREGATE_HOME": str(home)}
    opened = await open_session(SessionOptions(workspace=workspace, model=ScriptedModel([]), environ=environ))
    await opened.close()


@pytest.mark.parametrize("what", ["blob", "file"])
async def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_stays(
    tmp_path: Path, what: str
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    home.mkdir(mode=0o700)
    folder = home / "blobs" if what == "blob" else workspace / "sub/folder"
    with start_writer(folder, what):
        (name,) = list_names(folder)
        await visit(workspace, home)
        assert list_names(folder) == [name]
    await visit(workspace, home)
    assert list_names(folder) == []


async def test_files_of_others_that_only_look_alike_stay(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    (workspace / ".foregate-0123456789abcdef.tmp").mkdir(parents=True)
    mine = [".foregate-notes.tmp", ".foregate-0123456789abcdef", "foregate-0123456789abcdef.tmp"]
    for name in mine:
        (workspace / name).touch()
    (workspace / ".foregate-0123456789abcdee.tmp").symlink_to(tmp_path)
    await visit(workspace, home)
    assert sorted(list_names(workspace)) == sorted(mine)
    assert len(list(workspace.iterdir())) == 5


def test_a_file_that_is_being_written_is_not_listed(tmp_path: Path) -> None:
    with start_writer(tmp_path, "file"):
        (tmp_path / ".env").touch()
        assert len(list_names(tmp_path)) == 2
        space = LocalWorkspace(tmp_path)
        found = list_entries(space, default_policy(), ".", True, recursive=True)
        space.close()
    assert [entry.path for entry in found] == [".env"]


def test_a_sweep_at_the_very_moment_a_file_is_made_costs_a_name_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, swept = fcntl.flock, []
    space = LocalWorkspace(tmp_path)

    def sweep_first(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        swept.extend(list_names(tmp_path))
        space.sweep()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    space.write("a.txt", b"whole")
    space.close()
    assert len(swept) == 1
    assert list_names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"whole"


def test_a_store_holds_nothing_but_blobs_when_it_is_at_rest(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    name = blobs.put(b"x")
    assert list_names(tmp_path) == [name]
