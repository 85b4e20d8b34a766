"""What a sandbox changed becomes the workspace, exactly, and an undo takes exactly that back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings

from foregate.agent.loop.applying import (
    apply_changes,
    build_undo_step,
    find_conflicts,
    keep_images,
)
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.workspace.local import LocalWorkspace
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.agent.effects.trees import (
    NO_SHRINKING,
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
few = settings(max_examples=40, phases=NO_SHRINKING)
POLICY = policy_with(EVERYTHING_OFF)


@contextmanager
def made(before: Tree, after: Tree) -> Iterator[tuple[Path, Path, Snapshots]]:
    """A workspace, a folder with what it is to become, and where images are kept."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as top:
        old, new = Path(top) / "workspace", Path(top) / "upper"
        build_tree(old, before)
        build_tree(new, after)
        space = LocalWorkspace(old)
        try:
            yield old, new, Snapshots(space, POLICY, MemoryBlobs())
        finally:
            space.close()


@few
@given(before=draw_trees(), after=draw_trees())
def test_a_workspace_becomes_what_a_sandbox_made_of_it_and_goes_back_exactly(before: Tree, after: Tree) -> None:
    with made(before, after) as (old, new, place):
        changes = list_changes(old, new)
        was = read_tree(old)
        parted = find_parted(was, {one.path for one in changes})
        assert find_conflicts(place.workspace, changes) == []
        kept = keep_images(place, changes, new)
        result = apply_changes(place, kept, new)
        assert result.ok
        unchanged = read_tree(new).keys() - {one.path for one in changes}
        assert tell_after(old, unchanged) == tell_after(new, unchanged)
        step = build_undo_step(place, kept, result.changes)
        step.check(False)
        step.take_back()
        step.verify()
        assert forget_twins(read_tree(old), parted) == forget_twins(was, parted)
        assert ("without hard links" in step.words) == bool(parted)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
@settings(few, max_examples=20)
@given(before=draw_trees(), after=draw_trees())
def test_a_user_who_is_not_root_changes_what_lies_in_folders_closed_to_writing(before: Tree, after: Tree) -> None:
    with made(before, after) as (old, new, place):
        for path in (old.parent, old, new, *old.rglob("*"), *new.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        changes = list_changes(old, new)
        os.setegid(65534)
        os.seteuid(65534)
        try:
            kept = keep_images(place, changes, new)
            result = apply_changes(place, kept, new)
            assert list_changes(old, new) == []
            build_undo_step(place, kept, result.changes).take_back()
        finally:
            os.seteuid(0)
            os.setegid(0)
        assert list_changes(old, new) == changes
