"""What sandboxes made stays in a layer of its own, which later ones show over the workspace as if nothing had been."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from foregate.agent.sandbox.caches import keep_folders, prune_caches, release_folders
from foregate.agent.sandbox.changes import list_changes
from foregate.agent.sandbox.removal import remove_tree
from foregate.schemas.errors import WorkspaceError
from tests.agent.sandbox.place import PATH, Place
from tests.agent.sandbox.trees import RUNNER, STEPS, TREES, Seen, make_tree
from tests.agent.sandbox.users import run_as

PYTHON = shutil.which("python3", path=PATH)
NUMBERS = count()
BOUNDS = {"max_paths": 1000, "max_bytes": 1 << 20}


@contextmanager
def open_workspace(place: Place, tree: dict[str, tuple[str, str]]) -> Iterator[Place]:
    """Give a place whose workspace holds a tree."""
    one = Place(place.store / f"{os.getpid()}-{next(NUMBERS)}", place.store, place.user)
    run_as(place.user, one.base.mkdir)
    make_tree(one.workspace, tree, place.user)
    yield one
    run_as(place.user, lambda: remove_tree(str(one.base)))


@pytest.fixture
def one(place: Place) -> Iterator[Place]:
    with open_workspace(place, {"a/a": ("file", "one"), "b/a": ("file", "two")}) as opened:
        yield opened


def work(place: Place, script: str, *folders: str, release: bool = False) -> list[str]:
    """Run a script over what was kept, keep these folders, and return what else it changed, and what it printed.

    With `release` they are let go of again.
    """
    caches, workspace = str(place.base / "caches"), str(place.workspace)
    run_as(place.user, lambda: prune_caches(caches, workspace))
    plan = place.make_work_plan(masks=(), caches=caches)
    ran = place.run_inside("/bin/bash", "-c", script, **plan)
    assert ran.returncode == 0, ran.stderr

    def keep() -> list[str]:
        keep_folders(plan["upper"], caches, workspace, folders, **BOUNDS)
        if release:
            release_folders(plan["upper"], caches, folders)
        listed = list_changes(plan["upper"], workspace, caches=caches, **BOUNDS)
        remove_tree(plan["upper"])
        return [f"{change.effect} {change.path}" for change in listed]

    return [*run_as(place.user, keep), *ran.stdout.splitlines()]


def test_what_was_kept_is_seen_later_and_is_no_change_of_the_workspace(one: Place) -> None:
    assert work(one, "mkdir a/c; echo x > a/c/x; echo y > new", "a/c", "nothing", "a/a", "a/a/b") == ["create new"]
    assert work(one, "cat a/c/x; echo more >> a/c/x; chmod 711 a/c", "a/c") == ["x"]
    assert work(one, "cat a/c/x; rm a/c/x", "a/c") == ["x", "more"]
    assert work(one, "ls a a/c; stat -c %a a/c; rmdir a/c", "a/c") == ["a:", "a", "c", "", "a/c:", "711"]
    assert work(one, "ls a") == ["a"]
    assert not (one.workspace / "a/c").exists()


@pytest.mark.parametrize("left", ["", '{"a/c": [1'])
def test_where_half_of_the_list_is_left_nothing_is_kept_and_nothing_hidden(one: Place, left: str) -> None:
    work(one, "rm a/a; echo x > a/x; rm -r b", "a", "b")
    for listed in (one.base / "caches").glob("*.json"):
        listed.write_text(left)
    assert work(one, "echo y > new; cat a/a b/a; mkdir b/c", "b/c") == ["create new", "onetwo"]
    assert work(one, "ls b") == ["a", "c"]


def test_what_is_changed_and_not_kept_is_told_against_what_was_kept(one: Place) -> None:
    work(one, "mkdir a/c; echo x > a/c/x", "a/c")
    assert work(one, "rm -r a; mkdir -p b/c") == ["delete a/c/x", "delete a/c", "delete a/a", "delete a", "create b/c"]


def test_what_is_released_is_told_against_the_workspace_and_not_kept_any_more(one: Place) -> None:
    work(one, "mkdir a/c b/c; echo x > a/c/x; echo y > a/c/y; echo z > b/c/z", "a/c", "b/c")
    told = work(one, "cat a/c/x; rm a/c/y; echo new > a/c/new; rm -r b/c", "a/c", "b/c", "none", release=True)
    assert told == ["create a/c", "create a/c/new", "create a/c/x", "x"]
    assert work(one, "ls a b") == ["a:", "a", "", "b:", "a"]


def test_a_folder_of_the_workspace_stays_seen_under_what_was_kept_of_it(one: Place) -> None:
    work(one, "echo new > a/b; rm a/a; echo c > a/c", "a")
    assert work(one, "cat a/*; rm a/b", "a") == ["new", "c"]
    assert work(one, "ls a; rm -r a; mkdir a; echo z > a/z", "a") == ["c"]
    assert work(one, "ls a") == ["z"]
    assert (one.workspace / "a/a").read_text() == "one"


def test_a_folder_of_the_workspace_that_is_deleted_takes_along_what_was_kept_of_it(one: Place) -> None:
    work(one, "echo new > b/a; echo x > b/x", "b")
    assert work(one, "rm -r b", "b") == ["delete b/a", "delete b"]
    assert work(one, "cat b/*") == ["two"]  # it was not applied


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: shutil.rmtree(folder / "b"),
        lambda folder: shutil.move(folder / "b", folder / "c"),
        lambda folder: (folder / "b/c/x").mkdir(parents=True),
        lambda folder: (folder / "b/c").write_text("x"),
        lambda folder: (shutil.rmtree(folder / "b"), (folder / "b").symlink_to("a")),
    ],
)
def test_what_the_workspace_lost_or_made_itself_hides_nothing_of_it(one: Place, change: Any) -> None:
    work(one, "mkdir -p b/c a/c; echo x > b/c/kept; echo x > a/c/kept", "b/c", "a/c")
    run_as(one.user, lambda: change(one.workspace) and None)
    assert work(one, "cat a/c/kept") == ["x"]
    seen = sorted(str(path.relative_to(one.workspace)) for path in one.workspace.rglob("*") if path.name != "kept")
    assert sorted(work(one, "find . -not -path './a/c*' | tail -n +2 | cut -c3-")) == seen


def test_a_folder_above_what_was_kept_is_as_in_the_workspace(one: Place) -> None:
    work(one, "mkdir b/c", "b/c")
    run_as(one.user, lambda: (one.workspace / "b").chmod(0o711))
    assert work(one, "stat -c %a b; touch b/a") == ["711"]


def test_a_folder_in_one_that_was_kept_belongs_to_it(one: Place) -> None:
    run_as(one.user, (one.workspace / "b/c").mkdir)
    work(one, "mkdir b/c/d; echo x > b/c/d/x", "b/c/d")
    work(one, "echo y > b/c/y", "b/c")
    work(one, "echo z > b/c/d/z", "b/c/d")
    assert work(one, "cat b/c/*/* b/c/y", "b/c/d") == ["x", "z", "y"]
    (listed,) = (json.loads(path.read_text()) for path in (one.base / "caches").glob("*.json"))
    assert list(listed) == ["b/c"]


@pytest.mark.parametrize("name", ["..", "a/../../x", "/etc", ""])
def test_what_is_outside_is_never_kept(one: Place, name: str) -> None:
    with pytest.raises(WorkspaceError, match="names no folder"):
        work(one, "true", name)


def test_a_link_leads_no_folder_elsewhere(one: Place) -> None:
    """In the layer as in what is moved there."""
    target = one.base / "elsewhere"
    run_as(one.user, target.mkdir)
    work(one, f"mkdir -p b/c; ln -s {target} b/c/d; ln -s {target} b/e", "b/c", "b/e/f")
    work(one, "rm b/c/d; mkdir -p b/c/d/f; echo x > b/c/d/f/x", "b/c/d/f")
    assert work(one, "cat b/c/d/f/x") == ["x"]
    assert list(target.iterdir()) == []


@given(tree=TREES, rounds=st.lists(STEPS, min_size=1, max_size=3))
@example(tree={"a": ("file", "x")}, rounds=[[("unlink", "a"), ("mkdir", "a")], [("rmdir", "a")], [("mkdir", "a")]])
@example(tree={"a/a": ("file", "x")}, rounds=[[("rmtree", "a")], [("mkdir", "a")], [("rename", "a", "b")]])
@example(tree={"a/a/a": ("file", "x")}, rounds=[[("renew", "a/a")], [("rmtree", "a")], [("write", "a/b", "")]])
@example(tree={"a/a": ("file", "x")}, rounds=[[("mkdir", "b"), ("write", "b/a", "x")], [("unlink", "b/a")]])
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])
@pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
def test_kept_round_after_round_it_is_as_if_it_were_one_place(
    place: Place, tree: dict[str, tuple[str, str]], rounds: Sequence[Sequence[Sequence[Any]]]
) -> None:
    """The same steps, all in one folder, are run in sandboxes that keep it, and in a plain copy.

    But for hard links: what is written to one name in a later round does not show under the others, as the page of the
    sandbox says.
    """
    rounds = [[step for step in steps if step[0] != "link"] for steps in rounds]
    inner = {f"k/{path}": what for path, what in tree.items()} | {"k/z": ("file", "")}
    with open_workspace(place, inner) as kept, open_workspace(place, inner) as plain:
        for steps in [*rounds, []]:
            moved = [[step[0], *(f"k/{word}" if is_path(word) else word for word in step[1:])] for step in steps]
            bare = {**plain.make_plan(()), "writable": True}
            plan = kept.make_work_plan(masks=(), caches=str(kept.base / "caches"))
            assert run(kept, moved, plan) == run(plain, moved, bare)
            about = (plan["upper"], plan["caches"], str(kept.workspace), ["k"])
            run_as(place.user, lambda about=about: keep_folders(*about, **BOUNDS))
        assert list(Path(plan["upper"], "upper").iterdir()) == []


def is_path(word: object) -> bool:
    return isinstance(word, str) and all(part in ("a", "b", "ü c") for part in word.split("/"))


def run(place: Place, steps: Sequence[Sequence[Any]], plan: Any) -> list[Seen]:
    """Return what is seen before the steps and after them."""
    assert PYTHON is not None
    ran = place.run_inside(PYTHON, "-c", RUNNER, json.dumps(steps), **plan)
    assert ran.returncode == 0, ran.stderr
    found: list[Seen] = json.loads(ran.stdout)
    return found
