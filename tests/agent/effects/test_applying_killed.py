"""Whenever the process that applies or takes back changes is killed, what comes of it is all or nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foregate.agent.loop.applying import apply_changes, build_undo_step, go_on_or_back, keep_images
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.workspace import path_state
from foregate.agent.workspace.local import LocalWorkspace
from foregate.schemas.sandbox import PathChange
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.agent.effects.trees import (
    NO_SHRINKING,
    Node,
    Tree,
    build_tree,
    draw_trees,
    find_parted,
    forget_twins,
    list_changes,
    read_tree,
    tell_after,
)
from tests.policies import EVERYTHING_OFF, policy_with

pytestmark = pytest.mark.usefixtures("no_power_cut")
POLICY = policy_with(EVERYTHING_OFF)
KILLED, FINISHED, FAILED = 9, 0, 1
CHANGING = {
    f"os.{name}"
    for name in ["mkdir", "rmdir", "remove", "rename", "link", "symlink", "chmod", "chown", "utime", "setxattr"]
}
few = settings(max_examples=2, phases=NO_SHRINKING, deadline=None)


def run_killed(act: Callable[[], object], steps: int) -> int:
    """Run something in a process of its own that is killed before the file system is changed once more than `steps`.

    Returns how it ended.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = steps

    def count() -> None:
        nonlocal left
        if left == 0:
            os._exit(KILLED)
        left -= 1

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGING or (event == "open" and int(str(arguments[2])) & os.O_CREAT):
            count()

    rename = path_state.rename_with

    def rename_counted(*arguments: object) -> bool:
        count()
        return rename(*arguments)  # type: ignore[arg-type]

    try:
        path_state.rename_with = rename_counted
        sys.addaudithook(watch)
        act()
        os._exit(FINISHED)
    except BaseException:
        os._exit(FAILED)


class Place:
    """A workspace that is furnished anew for each attempt, and the changes to apply there."""

    def __init__(self, top: Path, before: Tree, after: Tree) -> None:
        self.folder, self.upper, self.before = top / "workspace", top / "upper", before
        build_tree(self.upper, after)
        self.furnish()
        self.changes: list[PathChange] = list_changes(self.folder, self.upper)
        self.was = read_tree(self.folder)
        names = {one.path for one in self.changes}
        self.parted = find_parted(self.was, names)
        self.unchanged = read_tree(self.upper).keys() - names
        self.blobs = MemoryBlobs()

    def furnish(self) -> Snapshots:
        build_tree(self.folder, self.before)
        self.space = LocalWorkspace(self.folder)
        return Snapshots(self.space, POLICY, getattr(self, "blobs", MemoryBlobs()))

    def is_undone(self, *, root: bool = True) -> bool:
        was = {name: value for name, value in self.was.items() if root or name != "."}
        return forget_twins(read_tree(self.folder, root=root), self.parted) == forget_twins(was, self.parted)

    def is_after(self) -> bool:
        return tell_after(self.folder, self.unchanged) == tell_after(self.upper, self.unchanged)


@contextmanager
def furnished(before: Tree, after: Tree) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as top:
        yield Place(Path(top), before, after)


def undo(place: Snapshots, kept: str, changes: object, *, again: bool = False) -> None:
    step = build_undo_step(place, kept, changes)  # type: ignore[arg-type]
    step.check(again)
    step.take_back()
    step.verify()


def kill_at_each_step(place: Place, act: Callable[[Snapshots, str], object]) -> Iterator[tuple[Snapshots, str]]:
    """Yield the place after each way to be killed, until it comes to its end."""
    for steps in range(10_000):
        snapshots = place.furnish()
        kept = keep_images(snapshots, place.changes, place.upper)
        ended = run_killed(lambda: act(snapshots, kept), steps)  # noqa: B023
        assert ended in (KILLED, FINISHED), "it failed where nothing stood in its way"
        yield snapshots, kept
        place.space.close()
        if ended == FINISHED:
            return


@few
@given(before=draw_trees(), after=draw_trees())
def test_what_was_being_applied_is_applied_to_its_end_where_the_contents_are_there(before: Tree, after: Tree) -> None:
    with furnished(before, after) as place:
        for snapshots, kept in kill_at_each_step(place, lambda one, kept: apply_changes(one, kept, place.upper)):
            result = go_on_or_back(snapshots, kept, place.upper)
            assert (result.ok, result.error) == (True, "")
            assert place.is_after()
            undo(snapshots, kept, result.changes)
            assert place.is_undone()


ADJUSTED: tuple[Tree, Tree] = {"f": Node("file", mode=0o444, modified=1)}, {"f": Node("file", mode=0o755, modified=2)}
"""A file that stays where it lies, and gets its new time before its new mode."""


@few
@example(before=ADJUSTED[0], after=ADJUSTED[1])
@given(before=draw_trees(), after=draw_trees())
def test_what_was_being_applied_is_gone_where_the_contents_are_gone(before: Tree, after: Tree) -> None:
    with furnished(before, after) as place:
        for snapshots, kept in kill_at_each_step(place, lambda one, kept: apply_changes(one, kept, place.upper)):
            result = go_on_or_back(snapshots, kept, None)
            if result.ok:
                assert place.is_after()
            else:
                assert (result.error, result.changes) == ("not_done", ())
                assert place.is_undone()


@few
@example(before=ADJUSTED[0], after=ADJUSTED[1])
@given(before=draw_trees(), after=draw_trees())
def test_an_undo_that_was_killed_goes_on(before: Tree, after: Tree) -> None:
    with furnished(before, after) as place:
        changes: list[object] = []

        def apply(one: Snapshots, kept: str) -> None:
            changes[:] = apply_changes(one, kept, place.upper).changes

        for steps in range(10_000):
            snapshots = place.furnish()
            kept = keep_images(snapshots, place.changes, place.upper)
            apply(snapshots, kept)
            ended = run_killed(lambda: undo(snapshots, kept, changes), steps)  # noqa: B023
            assert ended in (KILLED, FINISHED)
            if ended == KILLED:
                undo(snapshots, kept, changes, again=True)
            assert place.is_undone(root=ended == FINISHED), "the time of the root may be that of the end"
            place.space.close()
            if ended == FINISHED:
                return


TWINS: tuple[Tree, Tree] = (
    {
        "d": Node("directory", mode=0o555, note="kept"),
        "d/f": Node("file", modified=1),
        "gone": Node("link", "a", 0o777),
    },
    {
        "d": Node("directory", mode=0o700),
        "d/f": Node("file", mode=0o755, modified=2, twin=1),
        "d/in": Node("directory", mode=0o755),
        "d/in/f": Node("file", mode=0o755, modified=2, twin=1),
        "f": Node("file", mode=0o755, modified=2, twin=1),
    },
)
"""A file of which only the mode changes, but which is one file with two new ones afterwards."""


@settings(few, max_examples=8)
@example(before=TWINS[0], after=TWINS[1], first=20, second=1)
@example(before=TWINS[0], after=TWINS[1], first=20, second=3)
@example(before=TWINS[0], after=TWINS[1], first=20, second=8)
@given(before=draw_trees(), after=draw_trees(), first=st.integers(0, 60), second=st.integers(0, 60))
def test_a_recovery_that_is_killed_is_recovered(before: Tree, after: Tree, first: int, second: int) -> None:
    with furnished(before, after) as place:
        for upper in (place.upper, None):
            snapshots = place.furnish()
            kept = keep_images(snapshots, place.changes, place.upper)
            run_killed(lambda: apply_changes(snapshots, kept, place.upper), first)  # noqa: B023
            run_killed(lambda: go_on_or_back(snapshots, kept, upper), second)  # noqa: B023
            result = go_on_or_back(snapshots, kept, upper)
            assert result.error in ("", "not_done")
            assert place.is_after() if result.ok else place.is_undone()
            place.space.close()
