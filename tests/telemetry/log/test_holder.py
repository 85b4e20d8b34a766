"""Holders: alive means the very process, not one that got its number; a mark proves that nothing of it runs."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from foregate.telemetry import holder
from foregate.telemetry.holder import HolderMark, get_own_holder, list_marks, sweep_marks

ELSEWHERE = replace(get_own_holder(), place="pid:[1]", started="1")


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[HolderMark]:
    """The mark of this process in the folder of a log."""
    made = HolderMark(tmp_path)
    yield made
    made.close()


def leave_mark(folder: Path) -> Path:
    """Leave the mark of a holder in another container, locked by nobody."""
    (folder / "holders").mkdir(exist_ok=True)
    path = folder / "holders" / ELSEWHERE.mark
    path.touch()
    return path


def test_the_running_process_is_alive(tmp_path: Path, mark: HolderMark) -> None:
    assert get_own_holder().find_standing(tmp_path) == "alive"
    assert get_own_holder().description == f"this process ({os.getpid()})"


def test_a_process_that_lost_its_mark_is_alive_all_the_same(tmp_path: Path, mark: HolderMark) -> None:
    mark.close()
    assert get_own_holder().find_standing(tmp_path) == "alive"


@pytest.mark.parametrize("change", [{"started": "1"}, {"boot": "another"}, {"pid": 2**22 + 1}])
def test_another_start_boot_or_number_is_a_process_that_is_gone(tmp_path: Path, change: dict[str, str]) -> None:
    assert replace(get_own_holder(), **change).find_standing(tmp_path) == "gone"


def test_a_process_of_another_container_without_a_mark_counts_as_alive_because_it_cannot_be_seen(
    tmp_path: Path,
) -> None:
    assert ELSEWHERE.find_standing(tmp_path) == "alive"
    assert ELSEWHERE.description == f"process {os.getpid()} of another container"


def test_a_mark_that_nobody_keeps_locked_proves_that_a_process_of_another_container_is_gone(tmp_path: Path) -> None:
    path = leave_mark(tmp_path)
    assert ELSEWHERE.find_standing(tmp_path) == "gone"
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert ELSEWHERE.find_standing(tmp_path) == "alive"


def test_a_process_that_ended_is_ending_while_anything_it_started_keeps_its_mark(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, subprocess, sys; from foregate.telemetry.holder import *\n"
        "HolderMark(pathlib.Path(sys.argv[1])); me = get_own_holder()\n"
        "left = subprocess.Popen(['cat'], pass_fds=list_marks(), stdin=0, stdout=2)\n"
        "print(me.pid, me.started, flush=True); os._exit(0)"
    )
    with subprocess.Popen(
        [sys.executable, "-Ic", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, started = process.stdout.read().split()
        process.wait()
        gone = replace(get_own_holder(), pid=int(pid), started=started)
        assert gone.find_standing(tmp_path) == "ending"
        assert process.stdin is not None
        process.stdin.close()
        (mark,) = (tmp_path / "holders").iterdir()
        with mark.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # waits until what was left has ended
        assert gone.find_standing(tmp_path) == "gone"


def test_marks_are_swept_but_those_that_are_locked_or_that_a_lease_names(tmp_path: Path, mark: HolderMark) -> None:
    path = leave_mark(tmp_path)
    sweep_marks(tmp_path, {ELSEWHERE.mark})
    assert path.exists()
    sweep_marks(tmp_path, ())
    assert [one.name for one in (tmp_path / "holders").iterdir()] == [get_own_holder().mark]
    assert len(list_marks()) == 1


@pytest.mark.parametrize(
    ("pid", "standing"), [(os.getpid(), "alive"), (1, "alive"), (2**22 + 1, "gone")], ids=["own", "first", "none"]
)
def test_without_proc_a_process_is_alive_when_it_answers(
    pid: int, standing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    assert replace(get_own_holder(), pid=pid, started="").find_standing(tmp_path) == standing
