"""A snapshot of a workspace, taken before a command works in place, and what that command changed since."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from foregate.agent.sandbox.programs import is_linked_python
from foregate.agent.workspace.copying import hash_content
from foregate.agent.workspace.git_repository import seek_repository
from foregate.agent.workspace.snapshot_store import (
    AFTER,
    DEEPEST,
    LATEST,
    PENDING,
    FileSnapshotStore,
    Met,
    SnapshotEntry,
    Stamp,
    look_at,
    read_entry,
    scan,
    stamp,
)
from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.policy.commands_section import SnapshotBounds
from foregate.policy.policy import Policy
from foregate.schemas.errors import NotText, WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import PathChange, PathState, Refusal
from foregate.schemas.strict_json import scrub, sha256
from foregate.schemas.tool_spec import Effect

_WRITABLE = 0o222
# ".git/objects/9f/86d081884c7d659a2feaa0c55ad015a3bf4f1b".
_OBJECTS = compile_late(r"(?:.*/)?\.git/objects/.*")
"""What git writes once and never changes, which is therefore kept by a further name instead of a copy."""
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
_NOTHING = PathState()
_CAPABILITIES = "security.capability"
Stamps = Mapping[bytes, Stamp | None]
"""By path, what a command left where it changed something; None is nothing."""


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


def compare(workspace: Workspace, policy: Policy, store: FileSnapshotStore, snapshot: FileSnapshot) -> list[PathChange]:
    """Return what is otherwise than in the snapshot, as a work sandbox lists it: deletions first, innermost first.

    A file whose times alone have changed is none of it; `restore` brings them back as well. Raises WorkspaceError where
    nothing was kept, and where there is more to read than `commands.sandbox.snapshot` has room for; the command can be
    taken back all the same.
    """
    bounds = policy.commands.sandbox.snapshot
    comparison = _Comparison(workspace, store, snapshot, bounds.files, bounds.bytes)
    with refuse_errors("read", "."):
        comparison.run()
    store.note(AFTER, msgspec.msgpack.encode((snapshot.id, comparison.stamps)))
    if comparison.is_deep:
        raise WorkspaceError(f"the command made folders more than {DEEPEST} deep; have it make fewer")
    if comparison.is_over:
        raise WorkspaceError(
            f"the command changed more than can be judged at once ({bounds.files} paths, {bounds.bytes} bytes of "
            "files); have it do less in one call"
        )
    deleted = [change for change in comparison.changes if change.effect is Effect.DELETE]
    others = [change for change in comparison.changes if change.effect is not Effect.DELETE]
    return sorted(deleted, key=_place, reverse=True) + sorted(others, key=_place)


def find_stamps(workspace: Workspace, policy: Policy, store: FileSnapshotStore, snapshot: FileSnapshot) -> Stamps:
    """Return what the command left where it changed something, as the last comparison found it, or found now."""
    for _ in range(2):
        with suppress(msgspec.MsgspecError):
            compared, stamps = msgspec.msgpack.decode(
                store.read_note(AFTER), type=tuple[str, dict[bytes, Stamp | None]]
            )
            if compared == snapshot.id:
                return stamps
        with suppress(WorkspaceError):
            compare(workspace, policy, store, snapshot)
    raise WorkspaceError("what the command changed cannot be told; look with git")


def _place(change: PathChange) -> list[str]:
    return [] if change.path == "." else change.path.split("/")


class _Comparison(Struct):
    workspace: Workspace
    store: FileSnapshotStore
    snapshot: FileSnapshot
    paths: int
    size: int
    is_deep: bool = False
    changes: list[PathChange] = field(default_factory=list)
    stamps: dict[bytes, Stamp | None] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.paths < 0 or self.size < 0

    def run(self) -> None:
        snapshot = self.snapshot
        if not snapshot.entries:
            raise WorkspaceError(f"nothing was kept of the workspace before the command, as {snapshot.reason}")
        gone = {**snapshot.entries}
        with self.workspace.directory(".") as top:
            for met in scan(top, skips=snapshot.is_left_out, opens=self._is_new, leaves=self._leave):
                path = os.fsencode(met.path)
                before = gone.pop(path, None)
                if before is None or not before.is_still(stamp(met.found)):
                    self._look(path, met, before)
        for path, entry in gone.items():
            self.stamps[path] = None
            self._add(path, self._describe(entry), _NOTHING, "")

    def _leave(self, path: str) -> None:
        """Note that a folder lies too deep to be looked into, which nothing in the snapshot did."""
        self.is_deep = True

    def _is_new(self, path: str) -> bool:
        return os.fsencode(path) not in self.snapshot.entries

    def _look(self, path: bytes, met: Met, before: SnapshotEntry | None) -> None:
        now = stamp(met.found)
        self.size -= now.size if now.kind == "file" else 0
        if self.is_over:
            self.stamps[path] = now
            return
        after = look_at(met)
        if before is None or before.stamp != now:
            self.stamps[path] = now
        states = _NOTHING if before is None else self._describe(before), after.state
        if states[0] != states[1]:
            self.stamps[path] = now
            self._add(path, *states, self._refuse(met, after))

    def _describe(self, entry: SnapshotEntry) -> PathState:
        """Return the state of an entry, hashing now what was only linked."""
        if not entry.name:
            return entry.state
        file = self.store.open(entry.name)
        try:
            return replace(entry.state, hash=hash_content(file))
        finally:
            os.close(file)

    def _refuse(self, met: Met, after: SnapshotEntry) -> Refusal:
        """Return why what is there now may never stay."""
        if after.stamp.kind == "other":
            return "special"
        if after.stamp.kind == "link":
            try:
                self.workspace.resolve(met.path)
            except NotText:
                return ""
            except WorkspaceError:
                path = os.fsdecode(met.path)
                return "" if is_linked_python(path, f"{self.workspace.root}/{path}") else "leads_out"
        if after.stamp.kind == "file":
            with suppress(OSError):
                path = f"/proc/self/fd/{met.folder}/{met.name}"
                lends = met.found.st_mode & (stat.S_ISUID | stat.S_ISGID) or _CAPABILITIES in os.listxattr(path)
                return "privileged" if lends else ""
        return ""

    def _add(self, path: bytes, before: PathState, after: PathState, refused: Refusal) -> None:
        self.paths -= 1
        if self.is_over:
            return
        text = path.decode("utf-8", "backslashreplace")
        # A name that cannot be written down cannot be judged.
        if text != os.fsdecode(path):
            refused = refused or "special"
        effect = Effect.CREATE if not before.kind else Effect.DELETE if not after.kind else Effect.EDIT
        self.changes.append(PathChange(text, effect, before, after, refused))
