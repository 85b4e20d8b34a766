"""The workspace: nothing outside its root is read, written, deleted or moved, however a path is spelt or swapped."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foregate.agent.workspace import directory
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import PathFacts, Workspace
from foregate.schemas.errors import WorkspaceError

PARTS = st.sampled_from(["a", "b", "..", ".", "in", "out", "loop", "abs", "", "...", "ä", "x" * 300])


@pytest.fixture
def outside(folder: Path) -> Path:
    """A folder beside the workspace with a file in it that nothing may touch."""
    path = folder.parent / "outside"
    path.mkdir()
    (path / "secret.txt").write_text("outside")
    return path


@pytest.mark.parametrize("path", ["..", "a/../..", "/etc/passwd", "../outside/secret.txt", "", "a\0b", "x" * 5000])
def test_paths_that_lead_out_are_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(WorkspaceError):
        workspace.resolve(path)


@pytest.mark.parametrize("target", ["../outside", "/etc", "../outside/secret.txt"])
def test_a_link_out_is_refused_and_the_link_itself_can_be_deleted(
    folder: Path, workspace: Workspace, outside: Path, target: str
) -> None:
    (folder / "link").symlink_to(target)
    with pytest.raises(WorkspaceError):
        workspace.resolve("link")
    assert workspace.resolve("link", follow=False) == "link"
    workspace.remove("link")
    assert (outside / "secret.txt").read_text() == "outside"


def test_a_link_in_the_middle_is_followed_even_when_the_last_part_is_not(folder: Path, workspace: Workspace) -> None:
    (folder / "real").mkdir()
    (folder / "way").symlink_to("real")
    (folder / "real/x").symlink_to("y")
    assert workspace.resolve("way/x", follow=False) == "real/x"
    assert workspace.resolve("way/x") == "real/y"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PARTS, max_size=8).map("/".join))
def test_what_resolves_lies_beneath_the_root_and_resolves_to_itself(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    if not root.exists():
        (root / "a/b").mkdir(parents=True)
        (root / "in").symlink_to("a/b")
        (root / "out").symlink_to("../..")
        (root / "loop").symlink_to("loop")
        (root / "abs").symlink_to("/")
    workspace = LocalWorkspace(root)
    try:
        found = workspace.resolve(path)
        assert workspace.resolve(found) == found
        assert (root / found).resolve().is_relative_to(root)
    except WorkspaceError:
        pass
    finally:
        workspace.close()


def test_pipes_sockets_and_devices_are_neither_opened_nor_replaced(folder: Path, workspace: Workspace) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "sock"))
        for name in ("pipe", "sock"):
            assert workspace.look(name, max_hash=10).kind == "other"
            for act in (workspace.read, lambda path: workspace.write(path, b"x"), workspace.remove):
                with pytest.raises(WorkspaceError, match=r"regular file|not a file"):
                    act(name)
            with pytest.raises(WorkspaceError, match="neither file nor directory"):
                workspace.move(name, "elsewhere")


def test_writing_keeps_the_mode_and_does_not_reach_through_a_hard_link(
    folder: Path, workspace: Workspace, outside: Path
) -> None:
    os.link(outside / "secret.txt", folder / "here.txt")
    (folder / "here.txt").chmod(0o750)
    workspace.write("here.txt", b"new")
    assert (folder / "here.txt").read_text() == "new"
    assert stat.S_IMODE((folder / "here.txt").stat().st_mode) == 0o750
    assert (outside / "secret.txt").read_text() == "outside"


def test_a_move_never_overwrites_and_leaves_nothing_behind_when_it_fails(folder: Path, workspace: Workspace) -> None:
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")
    (folder / "d/e").mkdir(parents=True)
    for source, destination in (("a", "b"), ("a", "d"), ("d", "b"), ("d", "d/e/f"), ("missing", "new"), (".", "z")):
        with pytest.raises(WorkspaceError):
            workspace.move(source, destination)
    assert sorted(path.name for path in folder.rglob("*")) == ["a", "b", "d", "e"]
    workspace.move("a", "deep/down/c")
    workspace.move("d", "deep/d")
    assert (folder / "deep/down/c").read_text() == "a"
    assert (folder / "deep/d/e").is_dir()


def test_deleting_a_tree_deletes_links_and_not_what_they_point_to(
    folder: Path, workspace: Workspace, outside: Path
) -> None:
    (folder / "d/sub").mkdir(parents=True)
    (folder / "d/sub/f").write_text("f")
    (folder / "d/link").symlink_to(outside)
    os.mkfifo(folder / "d/pipe")
    assert directory.delete_tree(workspace, "d") == 5
    assert not (folder / "d").exists()
    assert (outside / "secret.txt").exists()


def test_a_directory_hundreds_deep_is_listed_and_deleted(folder: Path, workspace: Workspace) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert len(directory.list_tree(workspace, "d", 5000).entries) == 399
    directory.delete_tree(workspace, "d")
    assert workspace.look("d") == PathFacts()


def test_a_known_hash_is_not_believed_of_a_file_written_again_at_once(folder: Path, workspace: Workspace) -> None:
    seen = set()
    for number in range(50):
        (folder / "f").write_text(f"{number:02}")
        seen.add(workspace.look("f", max_hash=10).hash)
    assert len(seen) == 50


@pytest.mark.parametrize(
    "act",
    [
        lambda space: space.write("d/f", b"attack"),
        lambda space: space.make_directory("d/new"),
        lambda space: space.remove("d/secret.txt"),
        lambda space: space.move("mine", "d/moved"),
        lambda space: space.move("d/secret.txt", "stolen"),
        lambda space: directory.delete_tree(space, "d"),
    ],
)
def test_nothing_outside_changes_while_a_directory_is_swapped_for_a_link(
    folder: Path, workspace: Workspace, outside: Path, act: Callable[[Workspace], object]
) -> None:
    """A thread swaps `d` between a directory and a link to the outside while the workspace acts on what is in it."""
    (folder / "mine").write_text("mine")
    (folder / "real").mkdir()
    (folder / "link").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        for _ in range(2000):
            for name in ("real", "link"):
                try:
                    os.rename(folder / name, folder / "d")
                    os.rename(folder / "d", folder / name)
                except OSError:
                    (folder / "real").mkdir(exist_ok=True)
        stop.set()

    thread = threading.Thread(target=swap)
    thread.start()
    while not stop.is_set():
        try:
            act(workspace)
        except WorkspaceError:
            continue
        finally:
            if not (folder / "mine").exists():
                (folder / "mine").write_text("mine")
    thread.join()
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "outside"


def test_a_workspace_whose_name_is_no_text_is_refused_in_one_sentence(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    odd.mkdir()
    with pytest.raises(WorkspaceError, match="no valid text; rename it"):
        LocalWorkspace(odd)


def test_two_that_list_the_root_at_the_same_time_do_not_share_their_place_in_it(workspace: Workspace) -> None:
    with workspace.directory(".") as first, workspace.directory(".") as second:
        os.lseek(first, 1, os.SEEK_SET)
        assert os.lseek(second, 0, os.SEEK_CUR) == 0
