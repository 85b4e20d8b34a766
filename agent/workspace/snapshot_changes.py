"""What a command that worked in place changed: the difference between the snapshot from before it and what is there."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from foregate.agent.sandbox.programs import is_linked_python
from foregate.agent.workspace.copying import hash_content
from foregate.agent.workspace.scan import DEEPEST, Met, scan
from foregate.agent.workspace.snapshot import FileSnapshot
from foregate.agent.workspace.snapshot_entry import SnapshotEntry, Stamp, look_at, stamp
from foregate.agent.workspace.snapshot_store import AFTER, FileSnapshotStore
from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.policy.policy import Policy
from foregate.schemas.errors import NotText, WorkspaceError
from foregate.schemas.sandbox import PathChange, PathState, Refusal
from foregate.schemas.tool_spec import Effect

_NOTHING = PathState()
_CAPABILITIES = "security.capability"
Stamps = Mapping[bytes, Stamp | None]
"""By path, what a command left where it changed something; None is nothing."""


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
