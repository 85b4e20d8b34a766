"""What a command writes to disk is bounded: it is ended when it wrote too much, and no disk is full because of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foregate.agent.sandbox.namespaces import NEW_MOUNTS, attach, make_all_private, make_mount
from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.removal import remove_tree
from foregate.agent.sandbox.starter import Starter
from foregate.agent.sandbox.system_calls import call
from foregate.agent.sandbox.watch import WrittenPaths, list_stores
from tests.agent.sandbox.place import LIMITS, Place
from tests.agent.sandbox.users import run_as

MUCH = 50_000_000


def run(place: Place, script: str, plan: SandboxPlan) -> tuple[str, int | None]:
    """Run a script until it ends; return why it was ended, and its exit code."""
    starter, folder = Starter(), os.open("/", os.O_RDONLY)
    words, where = ["sh", "-c", script], (plan, str(place.workspace))
    started = starter.start(
        words, program="/bin/sh", environment=place.environment, folder=folder, merged=True, sandbox=where
    )
    while not started.has_ended:
        started.look(wait=True)
    code = started.end()
    starter._close()
    os.close(folder)
    return started.excess, code


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("while :; do head -c 1000000 /dev/zero >> src/big; done", "bytes"),
        ("while :; do head -c 1000000 /dev/zero >> $HOME/.npm/big; done", "bytes"),
        ("i=0; while :; do : > f$i; i=$((i+1)); done", "files"),
        ("mkdir -p a/b; cd a/b; chmod 0 .. ; while :; do head -c 1000000 /dev/zero >> x; done", "bytes"),
    ],
)
def test_a_command_that_writes_without_end_is_ended(place: Place, script: str, what: str) -> None:
    limits = {**LIMITS, "file_bytes": 1 << 40, "written_bytes": MUCH, "written_files": 1000}
    plan = place.make_work_plan(limits=limits, packages=str(place.store / os.urandom(8).hex()))
    excess, code = run_as(place.user, lambda: run(place, script, plan))
    bound = {"bytes": MUCH, "files": 1000}[what]
    assert (excess, code) == (
        f"it wrote more than the {bound} {what} a command may write; have it write less at once",
        -9,
    )


def test_a_command_that_stays_below_its_bounds_ends_by_itself(place: Place) -> None:
    limits = {**LIMITS, "written_bytes": MUCH, "written_files": 1000}
    plan = place.make_work_plan(limits=limits)
    assert run_as(place.user, lambda: run(place, "head -c 1000000 /dev/zero > big; exit 5", plan)) == ("", 5)


@pytest.fixture
def written(place: Place) -> tuple[WrittenPaths, Path]:
    """What watches the writing of a plan with narrow bounds, and the folder that takes it."""
    plan = place.make_work_plan(limits={"written_bytes": 1 << 20, "written_files": 10})
    upper = Path(plan["upper"], "upper")
    upper.mkdir(parents=True)
    old = upper / "old"
    old.write_bytes(bytes(4 << 20))
    os.utime(old, (0, 0))
    watching = WrittenPaths(list_stores(plan), plan["limits"])
    watching._start = old.stat().st_ctime + 1e-6
    return watching, upper


def find_excess(watching: WrittenPaths) -> str:
    """Return what is found once all is counted."""
    while True:
        found = watching.find_excess()
        if found or watching._counting is None:
            return found


def test_what_others_write_to_the_disk_and_what_was_there_do_not_count(
    written: tuple[WrittenPaths, Path], tmp_path: Path
) -> None:
    watching, _ = written
    (tmp_path / "other").write_bytes(bytes(4 << 20))
    watching._next = 0
    assert find_excess(watching) == ""


def make_deep(folder: Path, depth: int, size: int) -> None:
    """Make folders in folders, too deep for a path, and a file of so many bytes in the last."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at)
    os.write(file, bytes(size))
    os.close(file)
    os.close(at)


@pytest.mark.parametrize(
    ("depth", "size", "excess"),
    [
        (600, 1 << 20, ""),
        (600, 9 << 20, "it wrote more than the 8388608 bytes a command may write; have it write less at once"),
        # Deeper than is counted, what the disk lost counts instead, and so does what others wrote.
        (1200, 1, "it wrote more than the 8388608 bytes a command may write; have it write less at once"),
    ],
)
def test_what_lies_deep_is_counted_and_what_others_write_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, size: int, excess: str
) -> None:
    (tmp_path / "own").mkdir()
    watching = WrittenPaths([str(tmp_path / "own")], {"written_bytes": 8 << 20})
    make_deep(tmp_path / "own", depth, size)
    free, files = watching._first
    monkeypatch.setattr(watching, "_look", lambda: (free - (12 << 20), files))
    assert find_excess(watching) == excess
    remove_tree(str(tmp_path / "own"))


def test_a_file_with_two_names_counts_once(written: tuple[WrittenPaths, Path]) -> None:
    watching, upper = written
    (upper / "one").write_bytes(bytes(600_000))
    for number in range(5):
        os.link(upper / "one", upper / f"name{number}")
    watching._next = 0
    assert find_excess(watching) == ""
    (upper / "two").write_bytes(bytes(600_000))
    watching._next = 0
    assert "1048576 bytes" in find_excess(watching)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_file_without_a_name_takes_at_most_half_of_what_was_free(place: Place) -> None:
    disk = place.store / "disk"
    disk.mkdir()

    def fill() -> str:
        call("unshare", NEW_MOUNTS)
        make_all_private()
        assert "shared:" not in Path("/proc/self/mountinfo").read_text()
        attach(make_mount("tmpfs", 0, size="16m"), str(disk))
        watching = WrittenPaths([str(disk / "upper")], {})
        with (disk / "unnamed").open("wb") as file:
            (disk / "unnamed").unlink()
            file.write(bytes(7 << 20))
            file.flush()
            assert watching.find_excess() == ""
            file.write(bytes(2 << 20))
            file.flush()
            return watching.find_excess()

    assert (
        run_as(0, fill)
        == "more than half of what was free on the disk was used up while it ran; free some, or have it write less"
    )
