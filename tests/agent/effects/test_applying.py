"""What a sandbox changed becomes the workspace, exactly, and an undo takes exactly that back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given

from foregate.agent.effects.applying import (
    apply_changes,
    build_undo_step,
    find_conflicts,
    keep_images,
)
from foregate.agent.effects.snapshots import Snapshots
from foregate.agent.workspace.local import LocalWorkspace
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.agent.effects.trees import Tree, build_tree, draw_trees, list_changes, read_tree
from tests.policies import EVERYTHING_OFF, policy_with

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


def without_times_of_folders(folder: Path, listed: set[str]) -> dict[str, object]:
    """Return what can be told of a folder; folders only changed by what lies in them have the time of now."""
    found = read_tree(folder)
    return {
        name: value if name in listed or value[4] is not None else value[:2] + value[3:]  # type: ignore[index]
        for name, value in found.items()
    }


@given(before=draw_trees(), after=draw_trees())
def test_a_workspace_becomes_what_a_sandbox_made_of_it_and_goes_back_exactly(before: Tree, after: Tree) -> None:
    with made(before, after) as (old, new, place):
        changes = list_changes(old, new)
        was = read_tree(old)
        assert find_conflicts(place.workspace, changes) == []
        kept = keep_images(place, changes)
        result = apply_changes(place, kept, new)
        assert result.ok
        unchanged = read_tree(new).keys() - {one.path for one in changes}
        assert _tell(old, unchanged) == _tell(new, unchanged)
        step = build_undo_step(place, kept, result.changes)
        step.check(False)
        step.take_back()
        step.verify()
        assert read_tree(old) == was


def _tell(folder: Path, unchanged: set[str]) -> dict[str, object]:
    """Return what can be told of a folder: of what is on no list of changes not its time and its other names."""
    found = read_tree(folder)
    return {name: value[:2] + value[3:5] if name in unchanged else value[:5] for name, value in found.items()}  # type: ignore[index]
