"""A work sandbox shows the workspace writable at its own path, and holds what is written elsewhere."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sandbox.place import PATH, Place

PYTHON = shutil.which("python3", path=PATH)
CACHE = ".cache/pip"


@pytest.fixture
def upper(place: Place) -> Path:
    """A folder for what one sandbox writes."""
    return place.store / os.urandom(8).hex()


def work(place: Place, upper: Path, script: str, **more: object) -> str:
    """Run a script in a work sandbox and return what it printed."""
    ran = place.run_inside("/bin/bash", "-c", script, **{**place.make_work_plan(upper.name), **more})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_what_is_written_is_seen_inside_and_held_in_the_upper_folder(place: Place, upper: Path) -> None:
    script = "echo new > src/new; rm data.json; echo more >> README.md; mkdir -p a/b; ls; cat src/new; pwd"
    before = (place.workspace / "README.md").read_bytes()
    shown = work(place, upper, script).split()
    assert shown[-2:] == ["new", str(place.workspace)]
    assert "a" in shown
    assert "data.json" not in shown
    assert (place.workspace / "README.md").read_bytes() == before
    assert sorted(path.name for path in (upper / "upper").iterdir()) == [
        ".env",
        "README.md",
        "a",
        "conf",
        "data.json",
        "src",
    ]
    assert (place.workspace / "data.json").exists()


def test_what_is_held_goes_on_in_a_later_sandbox(place: Place, upper: Path) -> None:
    work(place, upper, "echo 1 > one; rm data.json; chmod 700 conf")
    shown = work(place, upper, "cat one; test ! -e data.json; stat -c %a conf; ls conf")
    assert shown.split() == ["1", "700", "app.toml"]


def test_the_upper_folder_is_closed_to_other_users_and_the_workspace_keeps_its_mode(place: Place, upper: Path) -> None:
    told = work(place, upper, "stat -c '%a %Y' . conf")
    assert upper.stat().st_mode & 0o777 == 0o700
    folders = (place.workspace, place.workspace / "conf")
    assert told.split("\n")[:2] == [f"{at.stat().st_mode & 0o777:o} {int(at.stat().st_mtime)}" for at in folders]


def test_git_works_as_it_does_in_place(place: Place, upper: Path) -> None:
    script = "git add -A && git commit -qm Three && git checkout -qb other && git stash list && git status --porcelain"
    assert work(place, upper, script) == ""
    assert work(place, upper, "git log --format=%s -1; git branch --show-current") == "Three\nother\n"


def test_root_renames_a_folder_that_is_there_and_for_others_it_fails(place: Place, upper: Path) -> None:
    """`mv` copies in that case, and works for everybody."""
    if PYTHON is None:
        pytest.skip("no system Python that a sandbox can show")
    line = f"git mv src sources; {PYTHON} -c 'import os; os.rename(\"conf\", \"config\")'; mv 'white space' w; ls w"
    ran = place.run_inside("/bin/bash", "-c", line, **place.make_work_plan(upper.name))
    failed = ran.stderr.count("Invalid cross-device link")
    assert failed == (0 if place.user is None and os.geteuid() == 0 else 2)
    assert ran.stdout == "ümläut.txt\n"


def test_a_path_that_stays_can_be_read_and_not_changed(place: Place, upper: Path) -> None:
    kept = [str(place.workspace / name) for name in (".git/hooks", "data.json", "nowhere")]
    script = "touch .git/hooks/x || rm data.json || echo x > data.json || mv data.json y || cat data.json"
    assert json.loads(work(place, upper, script, kept=kept))["name"] == "app"


def test_a_named_pipe_of_the_workspace_leads_nowhere(place: Place, upper: Path) -> None:
    pipe = place.workspace / "leads"
    os.mkfifo(pipe)
    pipe.chmod(0o777)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        work(place, upper, "timeout 1 bash -c 'echo x > leads' || true")
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)
        pipe.unlink()


@pytest.fixture
def cache(place: Place) -> Iterator[Path]:
    """A package cache in the home of the user."""
    folder = place.home / CACHE
    folder.mkdir(parents=True)
    (folder / "there").write_text("real\n")
    if place.user is not None:
        for path in (folder.parent, folder, folder / "there"):
            os.chown(path, place.user, place.user)
    yield folder
    shutil.rmtree(folder.parent)


def test_a_package_cache_is_seen_and_what_is_added_is_kept_beside_it(place: Place, upper: Path, cache: Path) -> None:
    plan = place.make_work_plan(upper.name, packages=f"{upper}.packages")
    run = lambda line: place.run_inside("/bin/sh", "-c", line, **plan).stdout  # noqa: E731
    assert run(f"cat ~/{CACHE}/there; echo more > ~/{CACHE}/more; echo n > ~/.npm/n") == "real\n"
    assert (
        run(f"cat ~/{CACHE}/more ~/.npm/n; ls -A ~")
        == "more\nn\n.bun\n.cache\n.cargo\n.local\n.m2\n.npm\n.nuget\n.yarn\ngo\n"
    )
    assert [path.name for path in cache.iterdir()] == ["there"]
    assert not (place.home / ".npm").exists()


def test_a_layer_in_a_folder_that_is_shown_read_only_is_left_out(place: Place, upper: Path) -> None:
    layers = {"/usr/lib/foregate-nowhere": str(upper / "layer")}
    assert work(place, upper, "ls /usr/lib/foregate-nowhere || echo none", layers=layers) == "none\n"


@pytest.mark.parametrize("inside", ["held", "."])
def test_a_workspace_cannot_hold_what_is_written_to_it(place: Place, inside: str) -> None:
    plan = {**place.make_work_plan(), "upper": str(place.workspace / inside)}
    ran = place.run_inside("/bin/true", **plan)
    assert json.loads(ran.stderr)["step"] == "upper"
    assert not (place.workspace / "held").exists()


def test_what_a_sandbox_of_another_kind_wrote_is_not_gone_on_with(place: Place, upper: Path) -> None:
    work(place, upper, "mkdir new")
    (upper / "marks").write_text("other.overlay.")
    ran = place.run_inside("/bin/true", **place.make_work_plan(upper.name))
    assert json.loads(ran.stderr)["step"] == "upper"


def test_a_folder_that_takes_nothing_is_told(place: Place) -> None:
    """A /proc takes no folders."""
    ran = place.run_inside("/bin/true", **{**place.make_work_plan(), "upper": "/proc/foregate"})
    assert json.loads(ran.stderr)["step"] == "upper"
