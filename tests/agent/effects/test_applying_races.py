"""What others save while changes are applied is never lost, and nothing is ever written outside the workspace."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from foregate.agent.loop.applying import (
    apply_changes,
    build_undo_step,
    find_conflicts,
    go_on_or_back,
    keep_images,
)
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.loop.stored_changes import load_changes
from foregate.agent.workspace import path_state, placement
from foregate.agent.workspace.path_state import Conflict, PlacementFailed
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathChange, PathState
from foregate.schemas.tool_spec import Effect
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.agent.effects.test_applying_killed import KILLED, run_killed
from tests.agent.effects.trees import Node, Tree, build_tree, list_changes, read_tree
from tests.policies import EVERYTHING_OFF, policy_with

BEFORE: Tree = {
    "a": Node("file", "old a"),
    "d": Node("directory", mode=0o755),
    "d/b": Node("file", "old b"),
    "d/keep": Node("file", "keep"),
    "gone": Node("directory", mode=0o755),
    "gone/f": Node("file", "old f"),
    "link": Node("link", "a", 0o777),
}
AFTER: Tree = {
    "a": Node("file", "new a"),
    "d": Node("directory", mode=0o755),
    "d/b": Node("file", "new b"),
    "d/keep": Node("file", "keep"),
    "d/new": Node("file", "new"),
    "link": Node("link", "d", 0o777),
    "made": Node("directory", mode=0o700),
    "made/f": Node("file", "new f"),
}


class Bench:
    """A workspace, what it is to become, and the changes."""

    def __init__(self, folder: Path, workspace: Workspace) -> None:
        self.folder, self.upper = folder, folder.parent / "upper"
        build_tree(self.upper, AFTER)
        for name in sorted(BEFORE):
            build_node(folder / name, BEFORE[name])
        os.utime(folder, ns=(10**18, 10**18))
        self.place = Snapshots(workspace, policy_with(EVERYTHING_OFF), MemoryBlobs())
        self.changes = list_changes(folder, self.upper)
        self.kept = keep_images(self.place, self.changes, self.upper)
        self.was = read_tree(folder)

    def apply(self) -> None:
        assert apply_changes(self.place, self.kept, self.upper).ok


def build_node(path: Path, node: Node) -> None:
    if node.kind == "directory":
        path.mkdir()
    elif node.kind == "link":
        path.symlink_to(node.text)
    else:
        path.write_text(node.text)


@pytest.fixture
def bench(folder: Path, workspace: Workspace) -> Bench:
    return Bench(folder, workspace)


def save(path: Path, text: str) -> None:
    """Save as editors do: beside the file, then over it."""
    path.with_name("editor").write_text(text)
    path.with_name("editor").rename(path)


def save_in_place(path: Path, text: str) -> None:
    path.write_text(text)


SAVES = (save, save_in_place)


@pytest.mark.parametrize("write", SAVES)
def test_what_was_saved_after_the_judgement_is_named_and_nothing_is_applied(
    bench: Bench, write: Callable[[Path, str], None]
) -> None:
    assert find_conflicts(bench.place.workspace, bench.changes) == []
    write(bench.folder / "d/b", "mine")
    write(bench.folder / "gone/mine", "mine")
    saved = read_tree(bench.folder)
    assert find_conflicts(bench.place.workspace, bench.changes) == ["d/b", "gone/mine"]
    with pytest.raises(Conflict, match=r"`d/b`, `gone/mine` changed meanwhile") as caught:
        bench.apply()
    assert caught.value.paths == ("d/b", "gone/mine")
    assert read_tree(bench.folder) == saved


def test_where_nothing_can_be_written_one_sentence_says_what_to_do(bench: Bench) -> None:
    (bench.folder / f".foregate-{bench.kept[:16]}.tmp").touch()
    saved = read_tree(bench.folder)
    with pytest.raises(PlacementFailed, match=r"free some space, or let this user write there"):
        bench.apply()
    assert read_tree(bench.folder) == saved


def test_a_folder_missing_above_a_new_file_and_git_at_work_are_conflicts(bench: Bench) -> None:
    changes = [
        PathChange("nowhere/f", Effect.CREATE, PathState(), PathState("file", "0" * 64, 0o644)),
        PathChange(".git/index", Effect.CREATE, PathState(), PathState("file", "0" * 64, 0o644)),
    ]
    (bench.folder / ".git").mkdir()
    (bench.folder / ".git/index.lock").touch()
    assert find_conflicts(bench.place.workspace, changes) == [".git/index.lock", "nowhere"]


@pytest.mark.parametrize("write", SAVES)
@pytest.mark.parametrize(("path", "turn"), [("a", 0), ("d/b", 0), ("a", 2), ("made/mine", 3), ("gone/mine", 3)])
def test_what_is_saved_while_changes_are_applied_stays_and_all_else_goes_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None], path: str, turn: int
) -> None:
    """The editor saves between the last look and the swap; each `turn` is a rename later."""
    rename, turns = path_state.rename_with, [turn]

    def rename_late(old: int, source: str, new: int, target: str, flags: int) -> bool:
        turns[0] -= 1
        if turns[0] == -1:
            write(bench.folder / path, "mine")
        return rename(old, source, new, target, flags)

    monkeypatch.setattr(path_state, "rename_with", rename_late)
    with suppress(Conflict):
        result = apply_changes(bench.place, bench.kept, bench.upper)
        assert result.ok or result.error == "partly_done"
    found, wanted = (
        {name: one[4] for name, one in tree.items() if one[4]} for tree in (read_tree(bench.folder), bench.was)
    )
    new = {name: one[4] for name, one in read_tree(bench.upper).items() if one[4]}
    assert found in (wanted | {path: b"mine"}, new | {path: b"mine"})


@pytest.mark.parametrize("turn", range(8))
def test_a_link_planted_in_the_way_leads_nothing_outside(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, turn: int
) -> None:
    outside, rename, turns = tmp_path / "outside", path_state.rename_with, [turn]
    outside.mkdir()
    for name in ("b", "keep", "f"):
        (outside / name).write_text("theirs")
    before = read_tree(outside)

    def rename_late(*arguments: object) -> bool:
        turns[0] -= 1
        if turns[0] == -1:
            for name in ("d", "gone", "made"):
                if (bench.folder / name).is_dir():
                    (bench.folder / name).rename(bench.folder / f"{name} away")
                (bench.folder / name).symlink_to(outside)
        return rename(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(path_state, "rename_with", rename_late)
    with suppress(WorkspaceError):
        apply_changes(bench.place, bench.kept, bench.upper)
    assert read_tree(outside) == before


def test_contents_that_are_not_what_was_judged_stop_everything(bench: Bench) -> None:
    (bench.upper / "d/new").write_text("swapped")
    with pytest.raises(PlacementFailed, match="what `d/new` is to hold is not what was judged; nothing was done"):
        bench.apply()
    assert read_tree(bench.folder) == bench.was


@pytest.mark.parametrize("name", ["copy_content", "set_traits", "move_new"])
def test_a_disk_that_refuses_leaves_everything_as_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    act, left = getattr(placement, name), [3]

    def refuse(*arguments: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return act(*arguments)

    monkeypatch.setattr(placement, name, refuse)
    with pytest.raises(PlacementFailed, match="No space left on device"):
        bench.apply()
    assert read_tree(bench.folder) == bench.was


def test_where_names_cannot_be_swapped_at_once_changes_are_applied_and_taken_back_as_well(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_state, "rename_with", lambda *arguments: False)
    bench.apply()
    assert list_changes(bench.folder, bench.upper) == []
    step = build_undo_step(bench.place, bench.kept, apply_report(bench))
    step.check(False)
    step.take_back()
    assert read_tree(bench.folder) == bench.was


def apply_report(bench: Bench) -> tuple[object, ...]:
    """Return the changes that are there, as a recovery reports them."""
    return go_on_or_back(bench.place, bench.kept, bench.upper).changes


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "a//b", ".", "a/.", "", "a\0", "a\ud800"])
def test_a_path_that_is_none_of_the_workspace_is_refused(bench: Bench, path: str) -> None:
    change = PathChange(path, Effect.CREATE, PathState(), PathState("file", "0" * 64, 0o644))
    with pytest.raises(WorkspaceError, match="is no path that can be changed; nothing was done"):
        keep_images(bench.place, [change], bench.upper)


@pytest.mark.parametrize(
    "change",
    [
        PathChange("x", Effect.CREATE, PathState(), PathState("link", "0" * 64), "leads_out"),
        PathChange("x", Effect.CREATE, PathState(), PathState("other")),
        PathChange("x", Effect.CREATE, PathState(), PathState("file", "0" * 64, 0o4755)),
    ],
)
def test_what_is_never_applied_is_refused_whoever_lists_it(bench: Bench, change: PathChange) -> None:
    with pytest.raises(WorkspaceError, match="is never applied"):
        find_conflicts(bench.place.workspace, [change])


def test_a_path_changed_by_others_after_a_crash_is_left_and_named(bench: Bench) -> None:
    assert run_killed(lambda: apply_changes(bench.place, bench.kept, bench.upper), 22) == KILLED
    (bench.folder / "d/b").write_text("mine")
    result = go_on_or_back(bench.place, bench.kept, bench.upper)
    assert (result.ok, result.error) == (False, "partly_done")
    assert "left as they are: `d/b`" in result.content
    assert [one.path for one in list_changes(bench.folder, bench.upper)] == ["d/b"]
    step = build_undo_step(bench.place, bench.kept, result.changes)
    step.check(False)
    step.take_back()
    assert {one.path for one in list_states_apart(bench)} == {"d/b"}


def list_states_apart(bench: Bench) -> list[PathChange]:
    """Return how the workspace differs from what it was at first."""
    fresh = bench.folder.parent / "fresh"
    build_tree(fresh, BEFORE)
    return list_changes(fresh, bench.folder)


def test_what_was_saved_in_the_last_moment_before_a_crash_comes_back(bench: Bench) -> None:
    def apply() -> None:
        rename = path_state.rename_with

        def rename_last(*arguments: object) -> bool:
            save(bench.folder / "a", "mine")
            rename(*arguments)  # type: ignore[arg-type]
            os._exit(KILLED)

        path_state.rename_with = rename_last
        apply_changes(bench.place, bench.kept, bench.upper)

    changes = [one for one in bench.changes if one.path == "a"]
    bench.kept = keep_images(bench.place, changes, bench.upper)
    assert run_killed(apply, 10_000) == KILLED
    assert (bench.folder / "a").read_text() == "new a"
    result = go_on_or_back(bench.place, bench.kept, bench.upper)
    assert (result.error, (bench.folder / "a").read_text()) == ("partly_done", "mine")
    assert not [one for one in bench.folder.iterdir() if one.name.startswith(".foregate-")]


def test_files_too_large_to_keep_are_named_and_are_not_taken_back(bench: Bench) -> None:
    policy = policy_with({**EVERYTHING_OFF, "files.max_hash": 4})
    place = Snapshots(bench.place.workspace, policy, bench.place.blobs)
    kept = keep_images(place, bench.changes, bench.upper)
    assert load_changes(place.blobs, kept).lost == ("a", "d/b", "gone/f")
    result = apply_changes(place, kept, bench.upper)
    assert result.ok
    with pytest.raises(WorkspaceError, match="no copy was kept of `a`, `d/b`, `gone/f`; change it by hand"):
        build_undo_step(place, kept, result.changes).check(False)
