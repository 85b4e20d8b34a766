"""A workspace into which another file system is mounted: the kernel refuses a view over it, and it is held still."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.agent.sandbox.restrictions import has_landlock
from tests.agent.sandbox.place import Place

pytestmark = pytest.mark.skipif(
    not has_landlock(), reason="the kernel has no Landlock, and such a workspace no sandbox"
)


@pytest.fixture
def volume(place: Place) -> Iterator[Path]:
    """A folder of the workspace to mount something on, and a named pipe beside it that somebody reads."""
    folder, pipe = place.workspace / "volume", place.workspace / "beside"
    folder.mkdir(0o777)
    os.mkfifo(pipe)
    pipe.chmod(0o777)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    yield folder
    assert os.read(reader, 1) == b""
    os.close(reader)
    pipe.unlink()
    folder.rmdir()


def test_what_is_mounted_in_the_workspace_is_seen_and_read_only(place: Place, volume: Path) -> None:
    ran = place.run_inside("/bin/sh", "-c", "ls volume; touch volume/new README.md", mounted=str(volume))
    assert ran.stdout == "there\n"
    assert ran.stderr.count("Read-only file system") == 2


def test_masked_files_cannot_be_opened_there(place: Place, volume: Path) -> None:
    ran = place.run_inside("/bin/sh", "-c", "cat .env; ls conf/secrets", mounted=str(volume))
    assert ran.stdout == ""
    assert ran.stderr.count("Permission denied") == 2


def test_nobody_can_be_written_to_through_a_named_pipe_there(place: Place, volume: Path) -> None:
    ran = place.run_inside("/bin/sh", "-c", "echo x > beside", mounted=str(volume))
    assert "Permission denied" in ran.stderr


def test_files_can_be_written_and_moved_in_the_scratch_folders(place: Place) -> None:
    script = "mkdir /tmp/a $HOME/b && echo x > /tmp/a/x && mv /tmp/a/x /tmp/y && echo z > /dev/shm/z && cat /tmp/y"
    assert place.run_inside("/bin/sh", "-c", script).stdout == "x\n"


def test_work_sees_it_empty_where_root_mounts_the_view_and_else_is_told_why_not(place: Place, volume: Path) -> None:
    ran = place.run_inside("/bin/sh", "-c", "ls volume; echo ran", mounted=str(volume), **place.make_work_plan())
    if place.user is None and os.geteuid() == 0:
        assert ran.stdout == "ran\n"
    else:
        assert json.loads(ran.stderr)["step"] == "overlay"
