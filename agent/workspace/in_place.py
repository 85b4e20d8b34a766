"""Work in the tier `limited`: a command changes the workspace itself, and what it changed is taken out of it again.

In order, all in one turn of the workspace: `keep_before`, then durably the start with what it returned,
`begin_in_place`, the command, `collect_in_place` and `put_back`. From then on what it changed lies in a folder of its
own, as from a sandbox of the tier `full`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from foregate.agent.sandbox.attributes import choose_attributes, read_attributes
from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.workspace.cancelled_work import run_to_end
from foregate.agent.workspace.confinement import (
    find_folder,
    hold_turn,
    list_secret_files,
    make_upper,
    note_end,
    plan_sandbox,
    seek_turn,
)
from foregate.agent.workspace.copying import copy_content
from foregate.agent.workspace.file_traits import FileTraits, set_traits
from foregate.agent.workspace.path_state import READ_FILE, READ_FOLDER
from foregate.agent.workspace.snapshot import begin, compare, find_reason_to_ask, load_snapshot, settle, take_snapshot
from foregate.agent.workspace.snapshot_restore import restore
from foregate.agent.workspace.snapshot_store import AFTER, PENDING, FileSnapshotStore
from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.policy.policy import Policy
from foregate.schemas.errors import SyncError, WorkspaceError
from foregate.schemas.sandbox import PathChange

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMED = 8
_READ_ONLY_CACHES = ("go/pkg/mod",)
"""Of the caches at home those whose package manager uses them without changing them."""
"""Paths a text names at most."""


def find_reason_against(workspace: Workspace, policy: Policy) -> str:
    """Return why a command cannot work in this workspace and be taken back, "" where it can.

    While another command is at work nothing is looked at: it is found out then before this one starts.
    """
    with seek_turn(workspace) as is_ours:
        if not is_ours:
            return ""
        if secret := list_secret_files(workspace, policy):
            return f"`{secret[0][:80]}` holds secrets, and a command that works in place could read them"
        with _open_store(workspace) as store:
            return find_reason_to_ask(take_snapshot(workspace, policy, store))


def keep_before(workspace: Workspace, policy: Policy) -> str:
    """Keep what a workspace holds before a command works in it, and return what names that, for the log.

    Raises WorkspaceError where it cannot be kept, and SyncError where the disk does not take it.
    """
    with _open_store(workspace) as store:
        snapshot = take_snapshot(workspace, policy, store)
        if reason := find_reason_to_ask(snapshot):
            raise WorkspaceError(f"{reason}; have somebody look at that, or at `foregate doctor`")
        return snapshot.id


def begin_in_place(workspace: Workspace, kept: str) -> None:
    """Note durably that a command now works in the workspace, which is to be put back."""
    with _open_store(workspace) as store:
        begin(store, kept)


def plan_in_place(workspace: Workspace, policy: Policy, programs: Iterable[str] = ()) -> SandboxPlan:
    """Return the sandbox of a command that writes to the workspace itself; raise WorkspaceError without one."""
    plan, limits = plan_sandbox(workspace, policy, programs=programs), policy.commands.sandbox
    if plan is None or plan["tier"] != "limited":
        raise WorkspaceError("this machine has no sandbox any more; `foregate doctor` tells why")
    bounds = {**plan["limits"], "file_bytes": limits.written}
    bounds |= {"written_bytes": limits.written, "written_files": limits.files}
    folders = [*plan["folders"], *(f"{plan['home']}/{name}" for name in _READ_ONLY_CACHES)]
    return {**plan, "writable": True, "folders": folders, "limits": bounds}  # type: ignore[typeddict-item]


def collect_in_place(workspace: Workspace, policy: Policy, upper: str) -> list[PathChange]:
    """Return what a command that has ended changed in the workspace, and copy what it left there into `upper`.

    A file it has written anew keeps its mode. Raises WorkspaceError where that is too much, or nothing waits to be put
    back.
    """
    with _open_store(workspace) as store:
        snapshot = load_snapshot(store, store.read_note(PENDING).decode())
        changes = list(_keep_modes(compare(workspace, policy, store, snapshot)))
        _copy_out(workspace, [one for one in changes if not one.refused], Path(upper, "upper"))
    return changes


def _keep_modes(changes: Iterable[PathChange]) -> Iterator[PathChange]:
    """Yield changes in which files keep the modes they had: a command cannot give a new file the mode of its old one.

    `sed -i` would leave it readable for its owner alone. What lends somebody's rights goes, as with every write.
    """
    for one in changes:
        if one.before.kind == one.after.kind == "file" and one.before.mode != one.after.mode:
            one = replace(one, after=replace(one.after, mode=one.before.mode & 0o777))
        if one.before != one.after:
            yield one


def put_back(workspace: Workspace, policy: Policy, kept: str) -> bool:
    """Make the workspace what it was before a command, by what names that; False where that was done already.

    Raises SyncError where something was left as the command, or somebody after it, has left it.
    """
    with _open_store(workspace) as store:
        if store.read_note(PENDING).decode() != kept:
            return False
        try:
            left = restore(workspace, policy, store, load_snapshot(store, kept))
        except WorkspaceError as error:
            raise SyncError(f"what the command changed could not be taken back: {error}") from None
        settle(store)
    if left:
        named = ", ".join(f"`{path[:80]}`" for path in left[:_NAMED])
        raise SyncError(f"what the command changed was taken back, but for {named}; look before you go on")
    return True


async def put_back_left(workspace: Workspace, policy: Policy, kept: str) -> bool:
    """Take back what a command changed whose process ended meanwhile, with everything it had started; as `put_back`.

    What it left is kept beside, for as long as what sandboxes write is. Raises WorkspaceError, or SyncError.
    """
    async with hold_turn(workspace):
        return await run_to_end(_put_back_left, workspace, policy, kept)


def _put_back_left(workspace: Workspace, policy: Policy, kept: str) -> bool:
    with _open_store(workspace) as store:
        pending, is_compared = store.read_note(PENDING).decode(), bool(store.read_note(AFTER))
    if pending == kept and not is_compared:
        upper = make_upper(find_folder(workspace))
        with suppress(WorkspaceError):
            collect_in_place(workspace, policy, upper)
        note_end(upper)
    return put_back(workspace, policy, kept)


def _open_store(workspace: Workspace) -> FileSnapshotStore:
    return FileSnapshotStore(find_folder(workspace) / "snapshot")


def _copy_out(workspace: Workspace, changes: Sequence[PathChange], upper: Path) -> None:
    """Copy what lies at changed paths to the same paths of a folder, with times, owners and further names."""
    names: dict[tuple[int, int], Path] = {}
    made = [one for one in changes if one.after.kind and one.path != "."]
    with refuse_errors("make", str(upper)):
        upper.mkdir(0o700, parents=True, exist_ok=True)
    for one in made:
        target = upper / one.path
        with refuse_errors("copy", one.path), workspace.parent(one.path) as (folder, name):
            target.parent.mkdir(0o700, parents=True, exist_ok=True)
            if one.after.kind == "directory":
                target.mkdir(0o700, exist_ok=True)
            elif one.after.kind == "link":
                target.symlink_to(os.readlink(name, dir_fd=folder))
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
                os.utime(target, ns=(found.st_mtime_ns, found.st_mtime_ns), follow_symlinks=False)
            else:
                _copy_file(folder, name, one, target, names)
    # What is put into a folder changes its time.
    for one in reversed(made):
        if one.after.kind == "directory":
            with refuse_errors("copy", one.path), workspace.parent(one.path) as (folder, name):
                source = os.open(name, READ_FOLDER, dir_fd=folder)
                target_fd = os.open(upper / one.path, READ_FOLDER)
                try:
                    set_traits(target_fd, _read_traits(source))
                finally:
                    os.close(source)
                    os.close(target_fd)


def _copy_file(folder: int, name: str, one: PathChange, target: Path, names: dict[tuple[int, int], Path]) -> None:
    source = os.open(name, READ_FILE, dir_fd=folder)
    try:
        found = os.fstat(source)
        first = names.setdefault((found.st_dev, found.st_ino), target)
        if first != target:
            os.link(first, target)
            return
        file = os.open(target, _NEW_FILE, 0o600)
        try:
            if not stat.S_ISREG(found.st_mode) or copy_content(source, file) != one.after.hash:
                raise WorkspaceError(f"`{one.path[:80]}` changed while it was looked at; try again")
            set_traits(file, _read_traits(source))
        finally:
            os.close(file)
    finally:
        os.close(source)


def _read_traits(file: int) -> FileTraits:
    """Return what an open file has beside content and mode, which the list of changes says."""
    found = os.fstat(file)
    attributes = choose_attributes(read_attributes(file))
    return FileTraits(None, found.st_mtime_ns, attributes, (found.st_uid, found.st_gid))
