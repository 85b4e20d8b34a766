"""What a snapshot reads, what it says it cannot bring back, and what becomes of it when somebody comes in between."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from foregate.agent.workspace import snapshot_restore, snapshot_store
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.snapshot import begin, compare, find_reason_to_ask, load_snapshot, settle, take_snapshot
from foregate.agent.workspace.snapshot_restore import restore
from foregate.agent.workspace.snapshot_store import FileSnapshotStore
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from tests.agent.sandbox.place import NOBODY
from tests.agent.sandbox.users import run_as
from tests.agent.tools.builtin.test_git import git
from tests.agent.workspace.snapshot_trees import look
from tests.policies import policy_with


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileSnapshotStore]:
    """A store that is held."""
    with FileSnapshotStore(tmp_path / "store") as held:
        yield held


@pytest.fixture
def project(folder: Path) -> Path:
    """A repository with a tracked, an untracked and an ignored file."""
    git(folder, "init", "-q")
    (folder / "src").mkdir()
    for name, text in (("src/a.py", "a\n"), ("README.md", "one\n"), (".gitignore", "cache\n")):
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (folder / "new.txt").write_text("untracked\n")
    (folder / "cache").mkdir()
    (folder / "cache/x").write_text("ignored\n")
    return folder


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is put forward, as nothing is settled that changed within the last two seconds."""
    now = snapshot_store.time.time_ns()
    monkeypatch.setattr(snapshot_store.time, "time_ns", lambda: now + 10_000_000_000)


def bound(files: int = 1000, size: int = 1 << 20) -> Policy:
    return policy_with({"commands.sandbox.snapshot": {"files": files, "bytes": size}})


def count(folder: Path) -> int:
    return len(list(folder.rglob("*"))) + 1


def test_everything_is_kept_with_what_git_ignores_and_git_itself(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore
) -> None:
    snapshot = take_snapshot(workspace, policy, store)
    assert find_reason_to_ask(snapshot) == ""
    assert len(snapshot.entries) == count(project)
    before = look(project)
    git(project, "add", ".")
    git(project, "commit", "-qm", "two")
    git(project, "config", "user.name", "somebody")
    (project / "cache/x").unlink()
    changed = {change.path for change in compare(workspace, policy, store, snapshot)}
    assert {".git/config", ".git/index", ".git/logs/HEAD", "cache/x"} <= changed
    assert restore(workspace, policy, store, snapshot) == []
    assert look(project) == before


def test_objects_of_git_are_kept_by_a_further_name_and_come_back(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore
) -> None:
    snapshot = take_snapshot(workspace, policy, store)
    objects = [path for path in (project / ".git/objects").rglob("*") if path.is_file()]
    assert objects
    assert {path.stat().st_nlink for path in objects} == {2}
    assert {path.stat().st_nlink for path in (project / "src/a.py", project / "README.md")} == {1}
    for path in objects:
        path.unlink()
    changes = {change.path: change for change in compare(workspace, policy, store, snapshot)}
    assert all(changes[str(path.relative_to(project))].before.hash for path in objects)
    assert restore(workspace, policy, store, snapshot) == []
    git(project, "fsck", "--strict")


def test_only_what_has_changed_since_the_last_snapshot_is_read(
    project: Path,
    workspace: Workspace,
    policy: Policy,
    store: FileSnapshotStore,
    late: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    put_file = store.put_file

    def note(file: int) -> str:
        read.append(os.readlink(f"/proc/self/fd/{file}"))
        return put_file(file)

    monkeypatch.setattr(store, "put_file", note)
    take_snapshot(workspace, policy, store)
    assert str(project / "src/a.py") in read
    read.clear()
    (project / "README.md").write_text("two\n")
    take_snapshot(workspace, policy, store)
    assert read == [str(project / "README.md")]


def test_a_file_that_changed_a_moment_ago_is_read_again(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore
) -> None:
    """Its times alone could not tell that it changed once more within the same tick of the clock."""
    path = project / "README.md"
    snapshot = take_snapshot(workspace, policy, store)
    assert not snapshot.entries[b"README.md"].settled
    with path.open("r+b") as file:
        file.write(b"two")
    os.utime(path, ns=(path.stat().st_atime_ns, snapshot.entries[b"README.md"].stamp.modified))
    (change,) = compare(workspace, policy, store, snapshot)
    assert (change.path, change.effect) == ("README.md", "edit")


@pytest.mark.parametrize(("files", "size"), [(60, 1 << 20), (1000, 4000)])
def test_past_its_bound_what_git_ignores_is_left_out_and_asked_about(
    project: Path, workspace: Workspace, store: FileSnapshotStore, files: int, size: int
) -> None:
    many, large = (90, 1) if files < 100 else (1, 50_000)
    for number in range(many):
        (project / f"cache/{number}").write_bytes(bytes(large))
    policy = bound(files, size + sum(path.stat().st_size for path in (project / ".git").rglob("*") if path.is_file()))
    for _ in range(2):
        snapshot = take_snapshot(workspace, policy, store)
        assert "`cache` could change" in find_reason_to_ask(snapshot)
        assert b"README.md" in snapshot.entries
        assert b"cache/x" not in snapshot.entries
    (project / "cache/x").write_text("changed")
    (project / "new.txt").unlink()
    assert [change.path for change in compare(workspace, policy, store, snapshot)] == ["new.txt"]


def test_a_workspace_past_its_bound_asks_and_nothing_of_it_is_kept(
    project: Path, workspace: Workspace, store: FileSnapshotStore, tmp_path: Path
) -> None:
    policy = bound(files=5)
    snapshot = take_snapshot(workspace, policy, store)
    assert "more than 5 files" in find_reason_to_ask(snapshot)
    assert [path.name for path in (tmp_path / "store").iterdir() if len(path.name) > 30] == []
    with pytest.raises(WorkspaceError, match="nothing was kept"):
        compare(workspace, policy, store, snapshot)
    with pytest.raises(WorkspaceError, match="git"):
        restore(workspace, policy, store, snapshot)


def test_a_folder_without_a_repository_that_is_too_large_asks(
    folder: Path, workspace: Workspace, store: FileSnapshotStore
) -> None:
    (folder / "a").write_bytes(bytes(100))
    assert find_reason_to_ask(take_snapshot(workspace, bound(size=200), store)) == ""
    assert "50 bytes" in find_reason_to_ask(take_snapshot(workspace, bound(size=50), store))


def test_a_socket_is_said_to_be_lost(
    folder: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore
) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(folder / "socket"))
        assert "`socket` is a device or a socket" in find_reason_to_ask(take_snapshot(workspace, policy, store))


def test_a_file_with_a_name_outside_of_the_workspace_asks(
    folder: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore, tmp_path: Path
) -> None:
    (folder / "inside").write_text("x")
    (folder / "other").hardlink_to(folder / "inside")
    assert find_reason_to_ask(take_snapshot(workspace, policy, store)) == ""
    (tmp_path / "outside").hardlink_to(folder / "inside")
    assert "also the name of a file outside" in find_reason_to_ask(take_snapshot(workspace, policy, store))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and become somebody else")
def test_what_this_user_cannot_read_or_give_back_asks(policy: Policy) -> None:
    base = Path(tempfile.mkdtemp(prefix="foregate-snapshot-"))
    try:
        folder = base / "workspace"
        folder.mkdir()
        for name in ("own", "foreign"):
            (folder / name).write_text("x")
        for path in (base, folder, folder / "own"):
            os.chown(path, NOBODY, NOBODY)

        def find_reason() -> str:
            with closing(LocalWorkspace(folder)) as workspace, FileSnapshotStore(base / "store") as store:
                return find_reason_to_ask(take_snapshot(workspace, policy, store))

        assert "`foreign` belongs to another user" in run_as(NOBODY, find_reason)
        (folder / "own").chmod(0)
        (folder / "foreign").unlink()
        assert "`own` cannot be read" in run_as(NOBODY, find_reason)
    finally:
        shutil.rmtree(base)


def test_what_somebody_saved_after_the_comparison_is_left_and_named(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore
) -> None:
    snapshot = take_snapshot(workspace, policy, store)
    for name in ("README.md", "new.txt", "made"):
        (project / name).write_text("by the command\n")
    compare(workspace, policy, store, snapshot)
    (project / "README.md").write_text("by somebody\n")
    (project / "made").write_text("by somebody as well\n")
    (project / "beside").write_text("new\n")
    assert restore(workspace, policy, store, snapshot) == ["README.md", "made"]
    texts = [(project / name).read_text() for name in ("README.md", "new.txt", "made", "beside")]
    assert texts == ["by somebody\n", "untracked\n", "by somebody as well\n", "new\n"]


@pytest.mark.parametrize("after", range(12))
def test_a_restoration_that_is_cut_off_anywhere_goes_on(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore, after: int
) -> None:
    snapshot = take_snapshot(workspace, policy, store)
    before = look(project)
    (project / "src/a.py").write_text("changed\n")
    (project / "README.md").unlink()
    (project / "README.md").mkdir()
    (project / "README.md/x").write_text("x\n")
    (project / "src").rename(project / "source")
    with pytest.MonkeyPatch.context() as patch:
        left = iter(range(after))

        def cut(work: object) -> object:
            def act(*arguments: object, **more: object) -> object:
                next(left)  # ends with StopIteration, which nothing in the way takes for a failure of a path
                return work(*arguments, **more)  # type: ignore[operator]

            return act

        for name in ("rename", "unlink", "rmdir", "mkdir", "utime"):
            patch.setattr(snapshot_restore.os, name, cut(getattr(os, name)))
        with suppress(StopIteration, RuntimeError):
            restore(workspace, policy, store, snapshot)
    assert restore(workspace, policy, load_store(store), load_snapshot(store, snapshot.id)) == []
    assert look(project) == before


def load_store(store: FileSnapshotStore) -> FileSnapshotStore:
    """Return the store as another process would find it."""
    store.__exit__()
    return store.__enter__()


def test_too_much_to_judge_can_be_taken_back_all_the_same(
    project: Path, workspace: Workspace, store: FileSnapshotStore
) -> None:
    policy = bound(size=sum(path.stat().st_size for path in project.rglob("*") if path.is_file()) + 100)
    snapshot = take_snapshot(workspace, policy, store)
    assert find_reason_to_ask(snapshot) == ""
    before = look(project)
    (project / "large").write_bytes(bytes(1 << 20))
    (project / "README.md").unlink()
    with pytest.raises(WorkspaceError, match="more than can be judged"):
        compare(workspace, policy, store, snapshot)
    assert restore(workspace, policy, store, snapshot) == []
    assert look(project) == before


def test_folders_too_deep_to_be_looked_into_are_taken_back_with_all_that_is_in_them(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore
) -> None:
    before = look(project)
    snapshot = take_snapshot(workspace, policy, store)
    begin(store, snapshot.id)
    line = "import os\nfor _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\nopen('x', 'w')"
    subprocess.run([sys.executable, "-ISc", line], cwd=project / "src", check=True)
    with pytest.raises(WorkspaceError, match="more than 200 deep; have it make fewer"):
        compare(workspace, policy, store, snapshot)
    assert restore(workspace, policy, store, snapshot) == []
    assert look(project) == before


def test_no_second_command_begins_before_the_first_is_settled(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore, tmp_path: Path
) -> None:
    first = take_snapshot(workspace, policy, store)
    begin(store, first.id)
    with pytest.raises(WorkspaceError, match="was cut off in this workspace"):
        take_snapshot(workspace, policy, store)
    settle(store)
    with pytest.raises(WorkspaceError, match="another command"), FileSnapshotStore(tmp_path / "store"):
        pass
    (project / "README.md").write_text("two\n")
    take_snapshot(workspace, policy, store)
    with pytest.raises(WorkspaceError, match="are gone"):
        load_snapshot(store, first.id)


def test_what_an_earlier_command_changed_is_not_taken_for_what_this_one_did(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore, late: None
) -> None:
    """Where nothing changed in between two snapshots are the same, and so are their names."""
    first = take_snapshot(workspace, policy, store)
    assert compare(workspace, policy, store, first) == []
    second = take_snapshot(workspace, policy, store)
    assert second.id == first.id
    before = look(project)
    (project / "src/a.py").unlink()
    assert restore(workspace, policy, store, second) == []
    assert look(project) == before


def test_copies_nobody_needs_any_more_are_removed(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore, tmp_path: Path
) -> None:
    (project / "new.txt").write_text("kept for once\n")
    take_snapshot(workspace, policy, store)
    kept = {path.read_bytes() for path in (tmp_path / "store").iterdir()}
    (project / "new.txt").write_text("other\n")
    take_snapshot(workspace, policy, store)
    now = {path.read_bytes() for path in (tmp_path / "store").iterdir()}
    assert (b"kept for once\n" in kept, b"kept for once\n" in now, b"other\n" in now) == (True, False, True)


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("ln -s ../../outside link", "leads_out"),
        ("ln -s /etc/passwd link", "leads_out"),
        ("ln -s src/a.py link", ""),
        ("mkfifo link", "special"),
        ("install -m 4755 README.md link", "privileged"),
    ],
)
def test_what_may_never_stay_is_marked(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore, line: str, refused: str
) -> None:
    snapshot = take_snapshot(workspace, policy, store)
    assert os.system(f"cd {project} && {line}") == 0
    (change,) = compare(workspace, policy, store, snapshot)
    assert (change.path, change.refused) == ("link", refused)


def test_the_python_of_a_virtual_environment_may_stay_a_link_to_one_that_is_installed(
    project: Path, workspace: Workspace, policy: Policy, store: FileSnapshotStore
) -> None:
    snapshot = take_snapshot(workspace, policy, store)
    (project / "new/bin").mkdir(parents=True)
    for name, target in (("python", "/usr/bin/python3"), ("python3", "python"), ("tool", "/usr/bin/python3")):
        (project / "new/bin" / name).symlink_to(target)
    refused = {one.path: one.refused for one in compare(workspace, policy, store, snapshot)}
    links = {f"new/bin/{name}": refused[f"new/bin/{name}"] for name in ("python", "python3", "tool")}
    assert links == {"new/bin/python": "", "new/bin/python3": "", "new/bin/tool": "leads_out"}
