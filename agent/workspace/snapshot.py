"""A snapshot of a workspace, taken before a command works in place, so that what it did can be told and taken back.

In order: `take_snapshot`, `begin`, then the command, `compare`, and either `restore` or nothing, and last `settle`,
each with the `SnapshotStore` held. After a crash, `load_snapshot` with the id that was recorded goes on from there.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from foregate.agent.workspace.git_repository import seek_repository
from foregate.agent.workspace.scan import Met, scan
from foregate.agent.workspace.snapshot_entry import SnapshotEntry, read_entry, stamp
from foregate.agent.workspace.snapshot_store import AFTER, LATEST, PENDING, FileSnapshotStore
from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.policy.commands_section import SnapshotBounds
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import scrub, sha256

_WRITABLE = 0o222
# ".git/objects/9f/86d081884c7d659a2feaa0c55ad015a3bf4f1b".
_OBJECTS = compile_late(r"(?:.*/)?\.git/objects/.*")
"""What git writes once and never changes, which is therefore kept by a further name instead of a copy."""
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")


class FileSnapshot(Struct, frozen=True, dict=True):
    """What a workspace was. `left_out` are the ignored paths it does not cover, `reason` why it is not all.

    Paths are bytes, as a name need not be text; "." is the workspace itself.
    """

    entries: dict[bytes, SnapshotEntry]
    left_out: tuple[bytes, ...] = ()
    reason: str = ""

    @property
    def id(self) -> str:
        """What names it in a log and in its store."""
        return sha256(msgspec.msgpack.encode(self))

    def is_left_out(self, path: str) -> bool:
        """Whether a path is one that was left out; what is in one is never asked for."""
        return bool(self.left_out) and os.fsencode(path) in self._left_out

    @property
    def _left_out(self) -> frozenset[bytes]:
        found: frozenset[bytes] = self.__dict__.setdefault("left out", frozenset(self.left_out))
        return found


class _TooMuch(Exception):
    """More than a snapshot may hold."""


def take_snapshot(workspace: Workspace, policy: Policy, store: FileSnapshotStore) -> FileSnapshot:
    """Keep what the workspace holds, and return what names it; its `id` is to be recorded before the command runs.

    Only what has changed since the last snapshot is read. Where all of it is more than `commands.sandbox.snapshot`,
    what git ignores is left out; where it is too much still, the snapshot is empty. See `find_reason_to_ask`.

    Raises WorkspaceError where what an earlier command changed is not settled, or the workspace cannot be read, and
    SyncError where the disk does not take the copies.
    """
    if store.read_note(PENDING):
        raise WorkspaceError(
            "a command was cut off in this workspace, and what it changed is still there: resume that session, which "
            f"takes it back, or remove `{store.path / PENDING}` to keep it"
        )
    last = _load(store)
    bounds, ignored = policy.commands.sandbox.snapshot, _list_ignored(workspace, policy) if last.left_out else ()
    kept: dict[bytes, SnapshotEntry] = {}
    reason = ""
    try:
        kept = _keep_all(workspace, store, last.entries, bounds, ignored)
    except _TooMuch as error:
        reason = str(error)
        if not ignored and (ignored := _list_ignored(workspace, policy)):
            try:
                kept, reason = _keep_all(workspace, store, last.entries, bounds, ignored), ""
            except _TooMuch as again:
                reason = str(again)
    snapshot = FileSnapshot(kept, tuple(sorted(ignored)), reason or _find_gap(kept, ignored))
    data = msgspec.msgpack.encode(snapshot)
    store.sync()
    if data != store.read_note(LATEST):
        store.note(LATEST, data, durable=True)
    store.keep_only(name for entry in kept.values() for name in (entry.name or entry.content, entry.attributes))
    store.forget(AFTER)
    return snapshot


def load_snapshot(store: FileSnapshotStore, id: str) -> FileSnapshot:  # noqa: A002
    """Return the snapshot of that id; raise WorkspaceError where it is gone, as after another one was taken."""
    snapshot = _load(store)
    if snapshot.id != id:
        raise WorkspaceError("the copies from before the command are gone; look with git what it changed")
    return snapshot


def begin(store: FileSnapshotStore, id: str) -> None:  # noqa: A002
    """Note durably that a command is about to work, after which the snapshot of that id is what to go back to."""
    store.note(PENDING, id.encode(), durable=True)


def settle(store: FileSnapshotStore) -> None:
    """Note that what the command changed stays or was taken back, so that the next one may run."""
    store.forget(PENDING)


def find_reason_to_ask(snapshot: FileSnapshot) -> str:
    """Return why a person has to be asked before a command works in place, "" where all it can do can be taken back."""
    return snapshot.reason


def _load(store: FileSnapshotStore) -> FileSnapshot:
    return _decode(store.read_note(LATEST))


@lru_cache(maxsize=2)
def _decode(data: bytes) -> FileSnapshot:
    try:
        return msgspec.msgpack.decode(data, type=FileSnapshot)
    except msgspec.MsgspecError:
        # No file, or a power cut left half of one.
        return FileSnapshot({})


def _keep_all(
    workspace: Workspace,
    store: FileSnapshotStore,
    known: Mapping[bytes, SnapshotEntry],
    bounds: SnapshotBounds,
    ignored: Collection[bytes],
) -> dict[bytes, SnapshotEntry]:
    """Keep all but what is ignored, reading only what has changed."""
    kept: dict[bytes, SnapshotEntry] = {}
    size = 0
    with refuse_errors("read", "."), workspace.directory(".") as top:
        for met in scan(top, skips=lambda path: os.fsencode(path) in ignored):
            path = os.fsencode(met.path)
            entry = known.get(path)
            if entry is None or not entry.is_still(stamp(met.found)):
                try:
                    entry = _keep(met, store)
                except FileNotFoundError:
                    # It went meanwhile.
                    continue
            kept[path] = entry
            size += 0 if entry.name else entry.stamp.size
            if len(kept) > bounds.files or size > bounds.bytes:
                most = f"{bounds.files} files or {bounds.bytes} bytes"
                raise _TooMuch(f"the workspace holds more than {most}, the most that is copied while a command works")
    return kept


def _keep(met: Met, store: FileSnapshotStore) -> SnapshotEntry:
    """Keep one thing, as far as this user may read it."""
    found = met.found
    fixed = stat.S_ISREG(found.st_mode) and not found.st_mode & _WRITABLE and _OBJECTS.fullmatch(met.path)
    name = f"{found.st_dev}-{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"
    try:
        if fixed and store.link(met.folder, met.name, name):
            found = os.stat(met.name, dir_fd=met.folder, follow_symlinks=False)
            return read_entry(met._replace(found=found), store.put, lambda file: "", name=name)
        return read_entry(met, store.put, store.put_file)
    except PermissionError:
        return SnapshotEntry(stamp(found), unread=True)


def _list_ignored(workspace: Workspace, policy: Policy) -> frozenset[bytes]:
    """Return what git ignores, a folder with all in it once; nothing without a repository."""
    repository = seek_repository(workspace, policy, ".")
    if repository is None:
        return frozenset()
    listed = repository.run(*_IGNORED).read_whole("what is ignored")
    prefix = b"" if repository.id == "." else os.fsencode(f"{repository.id}/")
    return frozenset(prefix + name.rstrip(b"/") for name in listed.split(b"\0") if name)


def _find_gap(kept: Mapping[bytes, SnapshotEntry], ignored: Collection[bytes]) -> str:
    """Return what could be changed and not be brought back, "" for nothing."""
    if ignored:
        return f"{_name(min(ignored))} could change and could not be brought back, as git ignores {len(ignored)} paths"
    names = Counter(entry.stamp.inode for entry in kept.values() if entry.stamp.links > 1)
    user = os.geteuid()
    for path, entry in kept.items():
        about = entry.stamp
        if about.kind == "other" and not stat.S_ISFIFO(about.mode):
            return f"{_name(path)} is a device or a socket, and could not be brought back"
        if entry.unread:
            return f"{_name(path)} cannot be read, and could not be brought back"
        # Only root can give a file back to another user.
        if user and about.owner[0] != user:
            return f"{_name(path)} belongs to another user, and could not be brought back"
        if about.kind == "file" and about.mode & _WRITABLE and 1 < about.links != names[about.inode]:
            return f"{_name(path)} is also the name of a file outside of the workspace, which would change with it"
    return ""


def _name(path: bytes) -> str:
    return f"`{scrub(os.fsdecode(path))[:80]}`"
