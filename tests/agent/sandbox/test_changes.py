"""What is told of the changes a command made in a work sandbox, and which of them are refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.sandbox import layers
from foregate.agent.sandbox.changes import list_changes
from foregate.agent.workspace.path_state import is_at, look_at
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathChange
from tests.agent.sandbox.place import PATH, Place
from tests.agent.sandbox.users import run_as

PYTHON = shutil.which("python3", path=PATH) or "/usr/bin/python3"
MASKS = [".env", "conf/secrets"]
Work = Callable[..., dict[str, PathChange]]


@pytest.fixture
def work(place: Place) -> Work:
    """Runs a script in a work sandbox and lists what it changed, by path."""

    def run(script: str, *, max_paths: int = 1000, max_bytes: int = 1 << 24, **more: Any) -> dict[str, PathChange]:
        plan = {**place.make_work_plan(), **more}
        ran = place.run_inside("/bin/bash", "-c", script, **plan)
        assert ran.returncode == 0, ran.stderr
        about = {"masks": MASKS, "max_paths": max_paths, "max_bytes": max_bytes}
        listed = run_as(place.user, lambda: list_changes(plan["upper"], str(place.workspace), **about))
        assert len({change.path for change in listed}) == len(listed)
        return {change.path: change for change in listed}

    return run


def refusals(changes: dict[str, PathChange]) -> dict[str, str]:
    return {path: change.refused for path, change in changes.items()}


def test_nothing_written_is_no_change_and_a_copy_that_stayed_the_same_is_none(work: Work) -> None:
    assert work("true") == {}
    assert work("touch README.md conf data.json; chmod +x data.json; chmod -x data.json; echo x > n; rm n") == {}


def test_a_file_that_was_edited_is_told_with_both_states(place: Place, work: Work) -> None:
    (change,) = work("echo more >> data.json; chmod 700 data.json").values()
    old = (place.workspace / "data.json").stat()
    assert (change.path, change.effect, change.refused) == ("data.json", "edit", "")
    assert (change.before.size, change.after.size) == (old.st_size, old.st_size + 5)
    assert (change.before.mode, change.after.mode) == (old.st_mode & 0o777, 0o700)
    assert change.before.hash != change.after.hash
    assert change.before.owner == change.after.owner == f"{old.st_uid}:{old.st_gid}"


def test_a_folder_that_was_deleted_comes_after_what_was_in_it(work: Work) -> None:
    changes = work("rm -r src 'white space'; mkdir src; echo new > src/main.py")
    assert list(changes) == ["white space/ümläut.txt", "white space", "src/data.csv", "src/main.py"]
    assert [change.effect for change in changes.values()] == ["delete", "delete", "delete", "edit"]


def test_a_file_in_place_of_a_folder_is_one_change_after_what_was_in_it(work: Work) -> None:
    changes = work("rm -r src; echo x > src; rm README.md; mkdir -p README.md/a")
    kinds = {path: (change.effect, change.before.kind, change.after.kind) for path, change in changes.items()}
    assert list(kinds.items()) == [
        ("src/main.py", ("delete", "file", "")),
        ("src/data.csv", ("delete", "file", "")),
        ("README.md", ("edit", "file", "directory")),
        ("README.md/a", ("create", "", "directory")),
        ("src", ("edit", "directory", "file")),
    ]


def test_an_attribute_and_the_mode_of_the_workspace_are_changes(work: Work) -> None:
    changes = work("chmod 700 .; python3 -c \"import os; os.setxattr('data.json', 'user.a', b'1')\"")
    assert list(changes) == [".", "data.json"]
    assert changes["data.json"].after.traits != changes["data.json"].before.traits == ""


def test_what_was_there_is_told_as_applying_sees_it(place: Place, work: Work) -> None:
    """Else a change would look as if somebody else had changed the file meanwhile."""
    paths = ["data.json", "src", "link"]
    (place.workspace / "link").symlink_to("src")
    for path in paths[:2]:
        os.setxattr(place.workspace / path, "user.a", b"1")
    folder = os.open(place.workspace, os.O_RDONLY)
    try:
        changes = work("rm -r data.json src link")
        assert [path for path in paths if not is_at(look_at(folder, path).state, changes[path].before)] == []
    finally:
        os.close(folder)
        (place.workspace / "link").unlink()
        for path in paths[:2]:
            os.removexattr(place.workspace / path, "user.a")


def test_what_was_moved_lies_where_it_was_moved_to(place: Place, work: Work) -> None:
    changes = work("git mv src sources || mv src sources; echo more >> sources/main.py")
    moved = {path: change.after.hash for path, change in changes.items() if not path.startswith(".git")}
    assert set(moved) == {"src", "src/main.py", "src/data.csv", "sources", "sources/main.py", "sources/data.csv"}
    assert moved["sources/data.csv"] == changes["src/data.csv"].before.hash


@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ("ln -s /etc/passwd out", {"out": "leads_out"}),
        ("ln -s ../x out", {"out": "leads_out"}),
        (
            "ln -s ../README.md src/in; ln -s $PWD/src/../src in; ln -s nowhere/x in2",
            {"src/in": "", "in": "", "in2": ""},
        ),
        ("ln -s src s; ln -s s/../../x out", {"s": "", "out": "leads_out"}),
        ("ln -s $PWD/../x out; ln -s $PWD.x out2", {"out": "leads_out", "out2": "leads_out"}),
        ("ln -s b a; ln -s a b", {"a": "", "b": ""}),
        (
            "ln -s . a; ln -s a/a/../b b; mkdir d; ln -s ../a/.. d/e",
            {"a": "", "b": "leads_out", "d": "", "d/e": "leads_out"},
        ),
        (
            f"mkdir -p v/bin; cd v/bin; ln -s {PYTHON} python; ln -s python python3; ln -s {PYTHON} tool;"
            "cp -d python ..; ln -s /etc/passwd python4; ln -s /usr/bin/env python5",
            {
                "v": "",
                "v/bin": "",
                "v/bin/python": "",
                "v/bin/python3": "",
                "v/python": "leads_out",
                **dict.fromkeys(("v/bin/tool", "v/bin/python4", "v/bin/python5"), "leads_out"),
            },
        ),
        ("mkfifo pipe", {"pipe": "special"}),
        ("echo x > p; chmod u+s p", {"p": "privileged"}),
        ("echo x > p; chmod g+s p; mkdir d; chmod g+s d", {"p": "privileged", "d": ""}),
        ("echo x > .env", {".env": "unseen"}),
        ("mkdir conf/secrets; echo x > conf/secrets/key", {"conf/secrets": "unseen", "conf/secrets/key": "unseen"}),
        ("rm -r conf", {"conf/app.toml": "", "conf": "unseen"}),
        ("rm -r conf; echo x > conf", {"conf/app.toml": "", "conf": "unseen"}),
        ("mv conf c2", {"conf/app.toml": "", "conf": "unseen", "c2": "", "c2/app.toml": ""}),
        ("rm conf/app.toml", {"conf/app.toml": ""}),
        ("printf x > $'bad\\xff'", {"bad\\xff": "special"}),
    ],
)
def test_what_is_never_applied_says_why(work: Work, script: str, refused: dict[str, str]) -> None:
    assert refusals(work(script)) == refused


def test_a_link_through_one_that_was_there_and_leads_out_is_refused(place: Place, work: Work) -> None:
    link = place.workspace / "elsewhere"
    link.symlink_to("/usr")
    try:
        assert refusals(work("ln -s elsewhere/lib out")) == {"out": "leads_out"}
    finally:
        link.unlink()


def test_the_secret_in_a_folder_that_was_moved_does_not_travel(place: Place, work: Work) -> None:
    plan = place.make_work_plan()
    work("mv conf c2", **plan)
    assert not list(Path(plan["upper"]).rglob("secrets"))


def test_what_a_command_made_unreadable_is_read_and_stays_unreadable(place: Place, work: Work) -> None:
    plan = place.make_work_plan()
    changes = work("mkdir d; echo x > d/f; chmod 0 d/f d", **plan)
    assert [(path, change.after.mode) for path, change in changes.items()] == [("d", 0), ("d/f", 0)]
    assert changes["d/f"].after.size == 2
    assert changes["d/f"].after.hash
    assert os.lstat(f"{plan['upper']}/upper/d").st_mode & 0o777 == 0


def test_a_deleted_folder_of_the_workspace_that_cannot_be_read_counts_as_not_seen(place: Place, work: Work) -> None:
    folder = place.workspace / "closed"
    folder.mkdir(0)
    try:
        if place.user is not None:
            os.chown(folder, place.user, place.user)
        can_read = place.user is None and os.geteuid() == 0
        assert refusals(work("rmdir closed")) == {"closed": "" if can_read else "unseen"}
    finally:
        folder.rmdir()


@pytest.mark.parametrize(
    ("script", "bounds", "sentence"),
    [
        ("touch {1..20}", {"max_paths": 10}, "more than can be judged"),
        ("head -c 5000 /dev/zero > big", {"max_bytes": 4000}, "more than can be judged"),
        ("rm README.md", {"max_bytes": 10}, "more than can be judged"),
        ("mkdir -p $(printf 'a/%.0s' {1..150})", {}, "more than 100 deep"),
    ],
)
def test_more_than_can_be_judged_is_told_in_one_sentence(
    work: Work, script: str, bounds: dict[str, int], sentence: str
) -> None:
    with pytest.raises(WorkspaceError, match=sentence):
        work(script, **bounds)


def test_what_lies_on_another_mount_is_refused(place: Place, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox shows it empty; here a folder merely counts as one on which something is mounted."""
    volume = place.workspace / "src"
    for module in (layers, "foregate.agent.sandbox.changes"):
        target = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{target}.list_submounts", lambda workspace: [str(volume)])
    assert refusals(work("rm -r src; mkdir src; echo x > src/x")) == {"src": "unseen", "src/x": "unseen"}


def test_mounts_in_a_workspace_are_found() -> None:
    assert "/proc" in layers.list_submounts("")
    assert layers.list_submounts("/nowhere") == []
