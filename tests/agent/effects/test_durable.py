"""What a log says is done is on disk: nothing waits for it when `tool_finished` or `effect_undone` is written."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.reconcile import reconcile_calls
from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.session.session import Session
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.python_tool import tool
from foregate.agent.workspace import local
from foregate.agent.workspace.file_traits import FileTraits
from foregate.agent.workspace.local import LocalWorkspace
from foregate.schemas.errors import SyncError
from foregate.schemas.event_body import OutcomeUnknown, ToolFinished
from foregate.schemas.protocols import Reply
from tests.agent.effects.changes import CHANGES, furnish
from tests.conftest import OpenSession
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, policy_with

POLICY = policy_with(EVERYTHING_OFF)


class Disk:
    """What has changed below a folder and is not on disk, by watching how this process changes and syncs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: dict[int, str] = {}
        self.seen: list[str] = []
        self.refuses: int = 0
        """The kind of file whose sync fails, as of `stat.S_IFMT`."""
        self._open, self._fsync = os.open, os.fsync
        for name in ("mkdir", "unlink", "rmdir", "symlink"):
            monkeypatch.setattr(os, name, self._watch(name, getattr(os, name)))
        self._rename = os.rename
        self._fchmod = os.fchmod
        monkeypatch.setattr(os, "fchmod", self._change_mode)
        monkeypatch.setattr(os, "open", self._open_file)
        monkeypatch.setattr(os, "rename", self._move)
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.setattr(local, "sync_file_system", self._sync_all)

    def _note(self, what: str, fd: int | None) -> None:
        if fd is not None:
            self.waiting[os.fstat(fd).st_ino] = what
            self.seen.append(what)

    def _watch(self, name: str, act: Any) -> Any:
        def acted(*arguments: Any, dir_fd: int | None = None, **more: Any) -> None:
            act(*arguments, dir_fd=dir_fd, **more)
            self._note(f"{name} {arguments[-1] if name == 'symlink' else arguments[0]}", dir_fd)
            if name == "rmdir":  # nothing needs to be synced in a folder that is gone
                self.waiting = {number: what for number, what in self.waiting.items() if number in self._numbers()}

        return acted

    def _change_mode(self, fd: int, mode: int) -> None:
        self._fchmod(fd, mode)
        self._note(f"mode {mode:o}", fd)

    def _numbers(self) -> set[int]:
        return {path.lstat().st_ino for path in [self.root, *self.root.rglob("*")]}

    root = Path()

    def _open_file(self, path: Any, flags: int, *mode: int, dir_fd: int | None = None) -> int:
        file = self._open(path, flags, *mode, dir_fd=dir_fd)
        if flags & os.O_CREAT and dir_fd is not None:
            self._note(f"open {path}", dir_fd)
            self._note(f"write {path}", file)
        return file

    def _move(self, source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        moved = os.stat(source, dir_fd=src_dir_fd, follow_symlinks=False)
        with suppress(FileNotFoundError):  # what is replaced need not be on disk
            self.waiting.pop(os.stat(target, dir_fd=dst_dir_fd, follow_symlinks=False).st_ino, None)
        if moved.st_ino in self._numbers() and stat.S_ISREG(moved.st_mode):
            assert moved.st_ino not in self.waiting, f"{source} is renamed to {target} before it is on disk"
        self._rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._note(f"rename from {source}", src_dir_fd)
        self._note(f"rename to {target}", dst_dir_fd)

    def _sync(self, fd: int) -> None:
        found = os.fstat(fd)
        if stat.S_IFMT(found.st_mode) == self.refuses and Path(os.readlink(f"/proc/self/fd/{fd}")).is_relative_to(
            self.root
        ):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fsync(fd)
        self.waiting.pop(found.st_ino, None)

    def _sync_all(self, fd: int) -> None:
        if self.refuses == -1:
            raise SyncError("what was changed may not outlast a power cut (Input/output error); check the disk")
        self.waiting.clear()
        self.seen.append("all")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Disk]:
    """The disk below the workspace, and a few things on it."""
    furnish(folder)
    with monkeypatch.context() as patched:
        found = Disk(patched)
        found.root = folder
        yield found


ACTS: dict[str, Callable[[LocalWorkspace], object]] = {
    "write": lambda space: space.write("new/deep/n.txt", b"x", FileTraits(0o600, 7, {})),
    "replace": lambda space: space.write("a.sh", b"x"),
    "make a link": lambda space: space.make_link("new/link", b"x", modified=7),
    "make a folder": lambda space: space.make_directory("x/y", FileTraits(0o700)),
    "remove": lambda space: space.remove("a.sh"),
    "remove a folder": lambda space: space.remove_directory("empty"),
    "move": lambda space: space.move("tree", "far/off"),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_a_workspace_changed_is_on_disk_when_it_returns(workspace: LocalWorkspace, disk: Disk, act: str) -> None:
    ACTS[act](workspace)
    assert (bool(disk.seen), disk.waiting, "all" in disk.seen) == (True, {}, False)


def check_records(session: Session, disk: Disk) -> list[str]:
    """Have nothing wait for the disk when it is recorded that something is done; return what was recorded so."""
    record, told = session.record, []

    async def checked(*drafts: Any) -> Any:
        for draft in drafts:
            if draft.kind in ("tool_finished", "effect_undone", "outcome_resolved"):
                assert not disk.waiting, f"{draft.kind} comes before {list(disk.waiting.values())}"
                told.append(draft.kind)
        return await record(*drafts)

    session.record = checked  # type: ignore[method-assign]
    return told


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_and_its_undo_are_on_disk_before_they_are_recorded(
    workspace: LocalWorkspace, open_session: OpenSession, disk: Disk, name: str
) -> None:
    tools = [one for one in builtin_tools(workspace, POLICY) if one.spec.name not in ("read_file", "edit_file")]
    session = await open_session(calls(CHANGES[name]), says("done"), policy=POLICY, tools=tools)
    told = check_records(session, disk)
    await run(session, "go")
    (finished,) = bodies(await session.log.read(), ToolFinished)
    assert (finished.ok, "all" in disk.seen) == (True, False), finished
    report = await undo(session)
    assert report.done, report.reason
    assert told == ["tool_finished", "effect_undone"]


def init_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


@pytest.mark.usefixtures("no_sandboxes")
async def test_what_commands_git_and_own_tools_changed_is_synced_at_once_and_looks_sync_nothing(
    folder: Path, workspace: LocalWorkspace, open_session: OpenSession, disk: Disk
) -> None:
    init_repository(folder)

    @tool(effect="edit", external=False, reversible=True, needs_approval=False, targets={"path": "file"})
    def shout(path: str) -> str:
        """Make a file loud."""
        (folder / path).write_text("ONE")
        disk.seen.append("shout")
        return "done"

    tools = [one for one in builtin_tools(workspace, POLICY) if one.spec.name not in ("read_file", "edit_file")]
    steps: list[tuple[str, dict[str, Any]]] = [
        ("run_command", {"argv": ["cat", "a.sh"]}),
        ("read_file", {"path": "a.sh"}),
        ("git_status", {}),
        ("run_command", {"argv": ["touch", "b.txt"]}),
        ("git_add", {"paths": ["a.sh"]}),
        ("shout", {"path": "a.sh"}),
    ]
    session = await open_session(
        *(calls(step) for step in steps),
        says("done"),
        policy=POLICY,
        tools=[*tools, shout],
        person=ScriptedPerson([Reply("yes")]),
    )
    synced: list[tuple[str, int]] = []
    session.subscribe(
        lambda event: (
            synced.append((event.body.tool, disk.seen.count("all"))) if isinstance(event.body, ToolFinished) else None
        )
    )
    await run(session, "go")
    names = ["run_command", "read_file", "git_status", "run_command", "git_add", "shout"]
    assert synced == list(zip(names, [0, 0, 0, 1, 2, 3], strict=True))
    assert disk.seen[-2:] == ["shout", "all"]
    undone = len(disk.seen)
    assert (await undo(session)).done
    assert "all" in disk.seen[undone:]


@pytest.mark.parametrize(
    ("call", "refuses"),
    [
        (CHANGES["create"], stat.S_IFDIR),
        (CHANGES["edit"], stat.S_IFDIR),
        (("move_path", {"source": "a.sh", "destination": "tree/b.txt"}), stat.S_IFDIR),
        (CHANGES["delete"], stat.S_IFDIR),
        (CHANGES["replace"], stat.S_IFREG),
        (("run_command", {"argv": ["touch", "b.txt"]}), -1),
    ],
    ids=["create", "edit", "move", "delete", "content", "command"],
)
async def test_a_disk_that_refuses_makes_a_call_fail_in_one_sentence_and_nothing_is_called_done(
    folder: Path, workspace: LocalWorkspace, open_session: OpenSession, disk: Disk, call: Any, refuses: int
) -> None:
    tools = [one for one in builtin_tools(workspace, POLICY) if one.spec.name not in ("read_file", "edit_file")]
    person = ScriptedPerson([Reply("yes")])
    session = await open_session(calls(call), says("done"), policy=POLICY, tools=tools, person=person)
    disk.refuses = refuses
    await run(session, "go")
    events = await session.log.read()
    unknown, finished = bodies(events, OutcomeUnknown), bodies(events, ToolFinished)
    if call in (CHANGES["create"], CHANGES["replace"]):  # it failed before anything took its place
        assert not unknown
        assert not finished[0].ok
        assert not finished[0].changes
        assert "Input/output error" in finished[0].content
        assert sorted(path.name for path in folder.iterdir()) == ["a.sh", "empty", "link", "tree"]
        assert (folder / "a.sh").read_text() == "one\n"
    else:
        assert not finished
        assert "may not outlast a power cut (Input/output error)" in unknown[0].reason
        assert unknown[0].reason.count(".") <= call[1].get("path", "").count(".") + 1


async def test_an_undo_whose_disk_refuses_is_not_done_and_the_next_one_finishes_it(
    folder: Path, workspace: LocalWorkspace, open_session: OpenSession, disk: Disk
) -> None:
    session = await open_session(calls(CHANGES["edit"]), says("done"), policy=POLICY)
    await run(session, "go")
    disk.refuses = -1
    report = await undo(session)
    assert (report.done, "power cut" in report.reason) == (False, True)
    assert "effect_undone" not in [event.kind for event in await session.log.read()]
    disk.refuses = 0
    assert (await undo(session)).done
    assert (folder / "a.sh").read_text() == "one\n"


async def test_what_is_seen_after_a_crash_is_on_disk_before_it_is_called_done(
    folder: Path, workspace: LocalWorkspace, open_session: OpenSession, disk: Disk
) -> None:
    tools = [one for one in builtin_tools(workspace, POLICY) if one.spec.name not in ("read_file", "edit_file")]
    session = await open_session(calls(CHANGES["edit"]), says("done"), policy=POLICY, tools=tools)
    disk.refuses = stat.S_IFDIR
    await run(session, "go")
    disk.refuses = -1
    assert await reconcile_calls(session) == []
    disk.refuses = 0
    told = check_records(session, disk)
    assert [one.outcome for one in await reconcile_calls(session)] == ["done"]
    assert told == ["outcome_resolved"]
