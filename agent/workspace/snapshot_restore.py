"""Bringing a workspace back to a snapshot: everything the command changed, and nothing that others changed after it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from foregate.agent.sandbox.attributes import unpack_attributes
from foregate.agent.sandbox.removal import remove_at
from foregate.agent.workspace.copying import copy_content
from foregate.agent.workspace.file_traits import FileTraits, set_traits
from foregate.agent.workspace.snapshot import FileSnapshot, Stamps, find_stamps
from foregate.agent.workspace.snapshot_store import (
    DEEPEST,
    FileSnapshotStore,
    Met,
    SnapshotEntry,
    Stamp,
    look_at,
    stamp,
)
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import scrub
from foregate.telemetry.log.temporary_file import is_temporary, sweep_temporary

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def restore(workspace: Workspace, policy: Policy, store: FileSnapshotStore, snapshot: FileSnapshot) -> list[str]:
    """Put everything back that a command changed, with modes, times, attributes and further names; it is on disk then.

    Returns the paths, sorted, that were left, as they are otherwise now than the command left them, or could not be
    brought back. Doing it again goes on where a crash has cut it off. Raises WorkspaceError where nothing was kept, and
    SyncError.
    """
    work = _Restoration(workspace, store, snapshot, find_stamps(workspace, policy, store, snapshot))
    work.run()
    workspace.sync()
    return sorted(scrub(path) for path in work.left)


class _Restoration:
    def __init__(self, workspace: Workspace, store: FileSnapshotStore, snapshot: FileSnapshot, after: Stamps) -> None:
        self._workspace, self._store, self._entries = workspace, store, snapshot.entries
        self._after = {os.fsdecode(path): stamp for path, stamp in after.items()}
        self._names, self._inside = self._group_names(), self._group_folders()
        self.left: set[str] = set()

    def run(self) -> None:
        """Remove what is to go, make folders, put files and links back, and last give folders what they had."""
        self._sweep()
        outermost = sorted(self._after, key=lambda path: path.split("/"))
        wanted = [(path, entry) for path in outermost if (entry := self._find(path)) is not None]
        folders = [(path, entry) for path, entry in wanted if entry.stamp.kind == "directory"]
        for path in reversed(outermost):
            self._try(path, self._remove, self._find(path))
        for path, entry in folders:
            self._try(path, self._make_folder, entry)
        for path, entry in wanted:
            if entry.stamp.kind != "directory":
                self._try(path, self._put, entry)
        for path in sorted(self._inside, key=lambda path: path.split("/"), reverse=True):
            if (found := self._find(path)) is not None and found.stamp.kind == "directory":
                self._try(path, self._finish_folder, found)

    def _sweep(self) -> None:
        """Remove what an earlier restoration left that was cut off."""
        for path, names in self._inside.items():
            with suppress(OSError, WorkspaceError), self._workspace.directory(path) as folder:
                for name in os.listdir(folder):  # noqa: PTH208 - a descriptor is no path
                    if is_temporary(name) and name not in names:
                        sweep_temporary(folder, name)

    def _find(self, path: str) -> SnapshotEntry | None:
        return self._entries.get(os.fsencode(path))

    def _group_names(self) -> dict[tuple[int, int], list[str]]:
        """Return the names of each file that has several."""
        found: dict[tuple[int, int], list[str]] = {}
        for path, entry in self._entries.items():
            if entry.stamp.links > 1:
                found.setdefault(entry.stamp.inode, []).append(os.fsdecode(path))
        return found

    def _group_folders(self) -> dict[str, set[str]]:
        """Return the names that were in each folder that is otherwise now, or that something is brought back in."""
        found: dict[str, set[str]] = {path: set() for path in (*self._after, *map(_get_folder, self._after))}
        for path in map(os.fsdecode, self._entries):
            if path != "." and _get_folder(path) in found:
                found[_get_folder(path)].add(path.rpartition("/")[2])
        return found

    def _try(self, path: str, act: Callable[[str, SnapshotEntry], None], entry: SnapshotEntry | None) -> None:
        try:
            act(path, entry)  # type: ignore[arg-type]
        except (OSError, WorkspaceError):
            self.left.add(path)

    @contextmanager
    def _meet(self, path: str) -> Iterator[tuple[int, str, Met | None]]:
        """Open the folder of a path, and look what is there."""
        if path == ".":
            with self._workspace.directory(".") as top:
                yield top, ".", Met(".", top, ".", os.fstat(top))
            return
        with self._workspace.parent(path) as (folder, name):
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                yield folder, name, None
            else:
                yield folder, name, Met(path, folder, name, found)

    def _is_as_left(self, path: str, met: Met) -> bool:
        """Whether something is what the command left; its names may be fewer by now."""
        left, now = self._after.get(path), stamp(met.found)
        return left is not None and _identify(left) == _identify(now)

    def _remove(self, path: str, entry: SnapshotEntry | None) -> None:
        """Remove what is in the place of something else, or of nothing; a folder only where nothing is left in it, or
        where it lies too deep to be looked into."""
        with suppress(FileNotFoundError, NotADirectoryError), self._meet(path) as (folder, name, met):
            if met is None or (entry is not None and entry.stamp.kind == stamp(met.found).kind):
                return
            if path.count("/") >= DEEPEST:
                # Nobody has looked into it, and nothing that was there lay as deep.
                remove_at(folder, name)
            elif stat.S_ISDIR(met.found.st_mode):
                os.rmdir(name, dir_fd=folder)
            elif self._is_as_left(path, met):
                os.unlink(name, dir_fd=folder)
            else:
                self.left.add(path)

    def _make_folder(self, path: str, entry: SnapshotEntry) -> None:
        with self._meet(path) as (folder, name, met):
            if met is None:
                os.mkdir(name, 0o700, dir_fd=folder)

    def _put(self, path: str, entry: SnapshotEntry) -> None:
        """Put a file or link in its place, unless it is there, or something else that the command did not leave."""
        with self._meet(path) as (folder, name, met):
            if met is not None and self._is_back(met, entry):
                return
            if met is not None and not self._is_as_left(path, met):
                self.left.add(path)
                return
            # By this form `_sweep` finds it, where the process ends in between.
            new = f".foregate-{secrets.token_hex(8)}.tmp"
            try:
                self._fill(path, entry, folder, new)
                os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                # Also where it is one more name of what is there.
                with suppress(FileNotFoundError):
                    os.unlink(new, dir_fd=folder)

    def _is_back(self, met: Met, entry: SnapshotEntry) -> bool:
        """Whether something is as it was, whatever its number, and with those of its names that are back."""
        if entry.stamp == stamp(met.found) and entry.settled:
            return True
        if not _has_content(met, entry):
            return False
        return entry.stamp.links < 2 or met.found.st_ino in self._find_numbers(entry)

    def _find_numbers(self, entry: SnapshotEntry) -> set[int]:
        """Return the numbers of the files that the names of an entry lead to, where that is one."""
        found = set()
        for path in self._names[entry.stamp.inode]:
            with suppress(OSError, WorkspaceError), self._meet(path) as (_, _, met):
                found.add(met.found.st_ino if met is not None else 0)
        return found if len(found) == 1 else set()

    def _fill(self, path: str, entry: SnapshotEntry, folder: int, new: str) -> None:
        """Make what a path is to be under a new name."""
        about = entry.stamp
        if about.kind == "file" and not self._link_other_name(path, entry, folder, new):
            if entry.name:
                self._store.link_back(entry.name, folder, new)
            else:
                self._copy(entry, folder, new)
            file = os.open(new, _FILE, dir_fd=folder)
            try:
                self._give(file, entry)
            finally:
                os.close(file)
        elif about.kind != "file":
            if about.kind == "link":
                os.symlink(os.fsdecode(self._store.get(entry.content)), new, dir_fd=folder)
            elif stat.S_ISFIFO(about.mode):
                os.mkfifo(new, dir_fd=folder)
                os.chmod(new, stat.S_IMODE(about.mode), dir_fd=folder)
            else:
                raise WorkspaceError(f"`{scrub(path)[:80]}` is a device or a socket, which nobody can make again")
            if (found := os.stat(new, dir_fd=folder, follow_symlinks=False)) and about.owner != stamp(found).owner:
                os.chown(new, *about.owner, dir_fd=folder, follow_symlinks=False)
            os.utime(new, ns=(about.modified, about.modified), dir_fd=folder, follow_symlinks=False)

    def _link_other_name(self, path: str, entry: SnapshotEntry, folder: int, new: str) -> bool:
        """Make a further name of the same file where another of its names is back already."""
        for other in self._names.get(entry.stamp.inode, ()):
            if other == path:
                continue
            with suppress(OSError, WorkspaceError), self._meet(other) as (above, name, met):
                one = self._find(other)
                if met is None or one is None or not _has_content(met, one):
                    continue
                os.link(name, new, src_dir_fd=above, dst_dir_fd=folder, follow_symlinks=False)
                return True
        return False

    def _copy(self, entry: SnapshotEntry, folder: int, new: str) -> None:
        source, file = self._store.open(entry.content), os.open(new, _NEW, 0o600, dir_fd=folder)
        try:
            if copy_content(source, file) != entry.content:
                raise WorkspaceError("the copies of the workspace were damaged; look what is in it")
        finally:
            os.close(source)
            os.close(file)

    def _give(self, file: int, entry: SnapshotEntry) -> None:
        """Give an open file or folder what it had beside its content."""
        about = entry.stamp
        attributes = unpack_attributes(self._store.get(entry.attributes)) if entry.attributes else {}
        set_traits(file, FileTraits(stat.S_IMODE(about.mode), about.modified, attributes, about.owner))

    def _finish_folder(self, path: str, entry: SnapshotEntry) -> None:
        """Give a folder what it had; its time only where just that is in it again."""
        with self._workspace.directory(path) as folder:
            inside = set(os.listdir(folder))  # noqa: PTH208 - a descriptor is no path
            time = entry.stamp.modified if inside == self._inside[path] else 0
            self._give(folder, replace(entry, stamp=replace(entry.stamp, modified=time)))


def _get_folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _identify(about: Stamp) -> tuple[object, ...]:
    return about.mode, about.owner, about.size, about.modified, about.inode


def _has_content(met: Met, entry: SnapshotEntry) -> bool:
    """Whether something is as it was, but for its names; what nobody may write to is known by its number."""
    now = look_at(met)
    if entry.name and now.stamp.inode == entry.stamp.inode:
        now = replace(now, content="")
    about = (now.state, now.stamp.owner, now.stamp.modified)
    return about == (entry.state, entry.stamp.owner, entry.stamp.modified)
