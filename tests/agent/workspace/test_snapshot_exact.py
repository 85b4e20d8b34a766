"""What a snapshot tells of a change is the difference of two trees, and what it brings back is the tree before."""

from __future__ import annotations

import hashlib
import shutil
import stat
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings

from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.snapshot import compare, find_reason_to_ask, take_snapshot
from foregate.agent.workspace.snapshot_restore import restore
from foregate.agent.workspace.snapshot_store import FileSnapshotStore
from foregate.policy.source.load import default_policy
from foregate.schemas.sandbox import PathChange, PathState
from tests.agent.workspace.snapshot_trees import STEPS, TREES, look, make_tree, take_steps

NUMBERS, POLICY = count(), default_policy()
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def describe(state: PathState) -> object:
    return (state.kind, state.mode, "" if state.kind == "other" else state.hash, bool(state.traits))


def expect(entry: Any) -> object:
    if entry is None:
        return ("", 0, "", False)
    kind = KINDS.get(stat.S_IFMT(entry[0]), "other")
    content = entry[3].encode("utf-8", "surrogateescape") if kind == "link" else entry[3]
    digest = hashlib.sha256(content).hexdigest() if kind in ("file", "link") else ""
    return (kind, stat.S_IMODE(entry[0]), digest, bool(entry[4]))


def find_difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, object]:
    """Return what differs by path, as it can be written down, times and further names apart."""
    differ = {}
    for path in ({*before} | {*after}) - {"names"}:
        states = expect(before.get(path)), expect(after.get(path))
        attributes = [one[4] for one in (before.get(path), after.get(path)) if one is not None]
        if states[0] != states[1] or attributes[:1] != attributes[-1:]:
            differ[path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")] = states
    return differ


def check_order(changes: Sequence[PathChange]) -> None:
    """Deletions come first, what is in a folder before the folder; then all else, the other way round."""
    deleted = [change.path for change in changes if change.effect == "delete"]
    others = [change.path for change in changes if change.effect != "delete"]
    assert [change.path for change in changes] == deleted + others
    for paths in (deleted, others[::-1]):
        for number, path in enumerate(paths):
            assert not [later for later in paths[number:] if later.startswith(f"{path}/")]


@given(tree=TREES, first=STEPS, steps=STEPS)
@example(tree={"a": ("file", "one")}, first=[("link", "a", "b")], steps=[("replace", "b", "one")])
@example(tree={"a": ("kept", "large")}, first=[], steps=[("remove", "a"), ("make", "a"), ("write", "a/a", "")])
@example(tree={"a/b/a": ("file", "one")}, first=[], steps=[("touch", "a/b/a"), ("mode", "a/b", 0), ("touch", "a")])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_change_is_told_and_taken_back_exactly(tmp_path: Path, tree: dict[str, Any], first: Any, steps: Any) -> None:
    """A first change is kept, so that the second snapshot is made from the one before."""
    base = tmp_path / str(next(NUMBERS))
    folder = base / "workspace"
    folder.mkdir(parents=True)
    make_tree(folder, tree)
    space = LocalWorkspace(folder)
    with FileSnapshotStore(base / "store") as store:
        take_snapshot(space, POLICY, store)
        take_steps(folder, first)
        before = look(folder)
        snapshot = take_snapshot(space, POLICY, store)
        assert find_reason_to_ask(snapshot) == ""
        assert look(folder) == before
        take_steps(folder, steps)
        after = look(folder)
        changes = compare(space, POLICY, store, snapshot)
        assert {change.path: (describe(change.before), describe(change.after)) for change in changes} == (
            find_difference(before, after)
        )
        check_order(changes)
        assert look(folder) == after
        assert restore(space, POLICY, store, snapshot) == []
        assert look(folder) == before
        assert restore(space, POLICY, store, snapshot) == []
        assert look(folder) == before
        assert compare(space, POLICY, store, snapshot) == []
    space.close()
    shutil.rmtree(base)
