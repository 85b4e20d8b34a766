"""Many paths of a workspace brought from one state to another: all of them, or everything stays as it was.

New contents are written into a folder of their own and put on disk. Then each is swapped into its place, and what comes
out is compared with what was to be replaced. What somebody saved meanwhile is swapped back, so that nothing is lost.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct, field

from foregate.agent.sandbox.attributes import hash_attributes, read_attributes
from foregate.agent.workspace.copying import copy_content
from foregate.agent.workspace.file_traits import AS_THERE, FileTraits, set_traits
from foregate.agent.workspace.path_state import (
    READ_FILE,
    READ_FOLDER,
    Conflict,
    Content,
    PlacementFailed,
    SeenPath,
    Source,
    Step,
    exchange,
    is_at,
    look_at,
    look_at_path,
    mark_ready,
    move_new,
    open_parent,
    rank_path,
    remove_staging,
)
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathState

_STAGED = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOVED = (errno.EEXIST, errno.ENOENT, errno.ENOTEMPTY, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)
"""What the kernel says where something is not as it was looked at."""
_OPENED = stat.S_IRWXU


class Placement(Struct):
    """One way of a list of steps, by `place`. `staging` is the name of the folder of new contents, in the root.

    `folders` are, by path, the mode and time of folders that are no steps: those above the steps, and those above steps
    that are taken already.
    """

    workspace: Workspace
    steps: Sequence[Step]
    source: Source
    staging: str
    folders: Mapping[str, FileTraits]
    _back: list[tuple[str, Callable[[], object]]] = field(default_factory=list)
    _seen: dict[str, SeenPath] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)
    _modes: dict[str, int] = field(default_factory=dict)
    _inodes: dict[str, int] = field(default_factory=dict)
    _mine: dict[str, int] = field(default_factory=dict)
    _twins: dict[object, str] = field(default_factory=dict)
    _left: list[str] = field(default_factory=list)
    _staging: int = -1

    def place(self) -> None:
        """Take all steps and put them on disk.

        Raises Conflict or PlacementFailed where they cannot be taken; everything is as it was then, but for the paths
        the error says are left. Raises SyncError where it cannot be said that all is on disk.
        """
        with self.workspace.directory(".") as root:
            self._times["."] = os.fstat(root).st_mtime_ns
            try:
                os.mkdir(self.staging, 0o700, dir_fd=root)
            except OSError as error:
                why = f"nothing can be written into the workspace ({error.strerror})"
                raise PlacementFailed(f"{why}; free some space, or let this user write there") from None
            self._staging = os.open(self.staging, READ_FOLDER, dir_fd=root)
            time = self._times["."]
            try:
                self._work()
                time = self.folders.get(".", FileTraits(modified=time)).modified
            finally:
                if not self._left:
                    remove_staging(root, self.staging)
                os.close(self._staging)
                set_traits(root, FileTraits(modified=time))
        self.workspace.sync()

    def _work(self) -> None:
        path = ""
        try:
            for step in self.steps:
                path = step.path
                self._check(step)
            for step in self.steps:
                path = step.path
                if step.is_staged:
                    self._fill(step)
            mark_ready(self._staging)
            self.workspace.sync()
            for act, step in self._order():
                path = step.path
                act(step)
            self._finish()
            for step in self.steps:
                path = step.path
                self._check_place(step)
        except BaseException as error:
            left = self._go_back()
            match error:
                case Conflict():
                    raise Conflict(error.paths, left) from None
                case OSError(errno=number) if number in _MOVED:
                    raise Conflict([path], left) from None
                case OSError():
                    why = f"cannot change `{path[:80]}`: {error.strerror}"
                    raise PlacementFailed(f"{why}; free some space, or let this user write there", left) from None
                case WorkspaceError():
                    raise PlacementFailed(str(error), left) from None
            raise

    def _order(self) -> Iterator[tuple[Callable[[Step], None], Step]]:
        """Yield the steps in an order that leaves no folder in the way and git's files in a safe state.

        What a file takes the place of goes first. Folders are made outermost first and removed innermost first.
        """
        inner = sorted(self.steps, key=lambda step: step.path, reverse=True)
        gone = [
            step for step in inner if step.now.kind not in ("", "directory") and step.then.kind in ("", "directory")
        ]
        gone.sort(key=lambda step: rank_path(step.path), reverse=True)
        folders = [step for step in inner if step.now.kind == "directory" and step.then.kind != "directory"]
        replaced = {step.path for step in folders if step.then.kind}
        early = [step for step in inner if step.then.kind == "directory" or _is_beneath(step.path, replaced)]
        first = {step.path for step in early}
        yield from ((self._take_out, step) for step in gone if step.path in first)
        yield from ((self._remove_folder, step) for step in folders if step.path in first or step.then.kind)
        yield from ((self._make_folder, step) for step in reversed(inner) if step.then.kind == "directory")
        put = [step for step in reversed(inner) if step.then.kind in ("file", "link")]
        put.sort(key=lambda step: rank_path(step.path))
        yield from ((self._put if step.is_staged else self._adjust, step) for step in put)
        yield from ((self._take_out, step) for step in gone if step.path not in first)
        yield from ((self._remove_folder, step) for step in folders if step.path not in first and not step.then.kind)

    def _check(self, step: Step) -> None:
        seen = self._seen[step.path] = look_at_path(self.workspace, step.path)
        if not is_at(seen.state, step.now):
            raise Conflict([step.path])

    def _fill(self, step: Step) -> None:
        """Write what is to be at a path into the staging folder, and make sure that it is what was judged."""
        name, content = str(step.number), self.source.open_content(step.path, step.then)
        try:
            first = self._twins.get(content.twin) if content.twin is not None else None
            if first is not None:
                os.link(first, name, src_dir_fd=self._staging, dst_dir_fd=self._staging, follow_symlinks=False)
                now = look_at(self._staging, name).state
            elif step.then.kind == "link":
                self._fill_link(name, content)
                now = look_at(self._staging, name).state
            else:
                now = self._fill_file(name, content)
        finally:
            if isinstance(content.data, int):
                os.close(content.data)
        self._twins.setdefault(content.twin, name)
        if not is_at(now, step.then):
            raise PlacementFailed(f"what `{step.path[:80]}` is to hold is not what was judged; nothing was done")

    def _fill_file(self, name: str, content: Content) -> PathState:
        file = os.open(name, _STAGED, 0o600, dir_fd=self._staging)
        try:
            digest = copy_content(content.data, file)
            set_traits(file, content.traits)
            now = os.fstat(file)
            traits = hash_attributes(read_attributes(file))
            return PathState("file", digest, stat.S_IMODE(now.st_mode), now.st_size, traits)
        finally:
            os.close(file)

    def _fill_link(self, name: str, content: Content) -> None:
        assert isinstance(content.data, bytes)
        os.symlink(os.fsdecode(content.data), name, dir_fd=self._staging)
        # As with files, an owner and a time that are not taken are no failure.
        with suppress(OSError):
            if content.traits.owner is not None:
                os.chown(name, *content.traits.owner, dir_fd=self._staging, follow_symlinks=False)
            if content.traits.modified:
                times = (content.traits.modified, content.traits.modified)
                os.utime(name, ns=times, dir_fd=self._staging, follow_symlinks=False)

    @contextmanager
    def _enter(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the folder of a path to change it; one that is closed to its owner is opened until the end."""
        above = path.rpartition("/")[0] or "."
        with open_parent(self.workspace, path) as (folder, name):
            if above not in self._modes:
                found = os.fstat(folder)
                mode = self._modes[above] = stat.S_IMODE(found.st_mode)
                self._times.setdefault(above, found.st_mtime_ns)
                self._inodes[above] = found.st_ino
                # Root may write there whatever the mode says.
                if mode & _OPENED != _OPENED and os.geteuid():
                    os.fchmod(folder, mode | _OPENED)
                    self._back.append((above, lambda: self._give(above, FileTraits(mode=mode))))
            yield folder, name

    def _put(self, step: Step) -> None:
        """Swap a staged file or link into its place."""
        new = str(step.number)
        self._mine[step.path] = os.stat(new, dir_fd=self._staging, follow_symlinks=False).st_ino
        with self._enter(step.path) as (folder, name):
            if step.now.kind in ("file", "link", "other"):
                if exchange(self._staging, new, folder, name):
                    self._back.append((step.path, lambda: self._swap_back(step)))
                    self._check_taken(step, new)
                    return
                self._take_out(step, f"{new}.old")
            move_new(self._staging, new, folder, name)
            self._back.append((step.path, lambda: self._take_back(step)))

    def _take_out(self, step: Step, old: str = "") -> None:
        """Move what is at a path into the staging folder."""
        old = old or str(step.number)
        with self._enter(step.path) as (folder, name):
            move_new(folder, name, self._staging, old)
            self._back.append((step.path, lambda: self._put_back(step, old)))
        self._check_taken(step, old)

    def _check_taken(self, step: Step, old: str) -> None:
        """Raise Conflict where what came out of a place is not what was looked at."""
        found = os.stat(old, dir_fd=self._staging, follow_symlinks=False)
        if not self._seen[step.path].is_same(found) and not is_at(look_at(self._staging, old).state, step.now):
            raise Conflict([step.path])

    def _check_place(self, step: Step) -> None:
        """Raise Conflict where the folder that something was put into is not where it was any more."""
        above = step.path.rpartition("/")[0] or "."
        if step.is_staged:
            with self.workspace.directory(above) as folder:
                if os.fstat(folder).st_ino != self._inodes[above]:
                    raise Conflict([step.path])

    def _check_mine(self, step: Step, folder: int, name: str) -> None:
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino != self._mine[step.path]:
            raise Conflict([step.path])

    def _swap_back(self, step: Step) -> None:
        new = str(step.number)
        with self._enter(step.path) as (folder, name):
            exchange(self._staging, new, folder, name)
            try:
                self._check_mine(step, self._staging, new)
            except Conflict:
                exchange(self._staging, new, folder, name)
                raise

    def _take_back(self, step: Step) -> None:
        new = str(step.number)
        with self._enter(step.path) as (folder, name):
            move_new(folder, name, self._staging, new)
            try:
                self._check_mine(step, self._staging, new)
            except Conflict:
                move_new(self._staging, new, folder, name)
                raise

    def _put_back(self, step: Step, old: str) -> None:
        with self._enter(step.path) as (folder, name):
            move_new(self._staging, old, folder, name)

    def _make_folder(self, step: Step) -> None:
        if step.now.kind != "directory":
            with self._enter(step.path) as (folder, name):
                os.mkdir(name, 0o700, dir_fd=folder)
                self._back.append((step.path, lambda: self._remove_made(step.path)))

    def _remove_made(self, path: str) -> None:
        with self._enter(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def _remove_folder(self, step: Step) -> None:
        with self._enter(step.path) as (folder, name):
            traits = self._read_traits(step.path)
            os.rmdir(name, dir_fd=folder)
            self._back.append((step.path, lambda: self._make_again(step.path, traits)))

    def _make_again(self, path: str, traits: FileTraits) -> None:
        with self._enter(path) as (folder, name):
            os.mkdir(name, 0o700, dir_fd=folder)
        self._give(path, traits)

    def _adjust(self, step: Step) -> None:
        """Give a file another mode or time where it lies."""
        modified = self.source.read_traits(step.path, step.then).modified
        with open_parent(self.workspace, step.path) as (folder, name):
            file = os.open(name, READ_FILE, dir_fd=folder)
            try:
                found = os.fstat(file)
                if not self._seen[step.path].is_same(found) and not is_at(look_at(folder, name).state, step.now):
                    raise Conflict([step.path])
                was = FileTraits(stat.S_IMODE(found.st_mode), found.st_mtime_ns)
                self._back.append((step.path, lambda: self._give_file(step.path, was)))
                set_traits(file, FileTraits(modified=modified))
                # The last, as it tells whether all is done.
                set_traits(file, FileTraits(step.then.mode))
            finally:
                os.close(file)

    def _finish(self) -> None:
        """Give folders what they are to have, once nothing is put into them any more."""
        wanted = {step.path: step.then for step in self.steps if step.then.kind == "directory"}
        gone = {step.path for step in self.steps if step.then.kind != "directory"}
        for path in sorted(wanted.keys() | (self._modes.keys() | self.folders.keys()) - gone, reverse=True):
            if path not in wanted:
                given = self.folders.get(path, AS_THERE)
                mode = self._modes.get(path) if given.mode is None else given.mode
                self._give(path, FileTraits(mode, given.modified))
                continue
            was = self._read_traits(path)
            self._back.append((path, lambda path=path, was=was: self._give(path, was)))  # type: ignore[misc]
            self._give(path, self.source.read_traits(path, wanted[path]))
            if not is_at(look_at_path(self.workspace, path).state, wanted[path]):
                raise PlacementFailed(f"`{path[:80]}` does not become what was judged; nothing was done")

    def _read_traits(self, path: str) -> FileTraits:
        with self.workspace.directory(path) as fd:
            found, attributes = os.fstat(fd), read_attributes(fd)
        modified = self._times.get(path, found.st_mtime_ns)
        return FileTraits(stat.S_IMODE(found.st_mode), modified, attributes, (found.st_uid, found.st_gid))

    def _give(self, path: str, traits: FileTraits) -> None:
        with self.workspace.directory(path) as fd:
            mode = os.fstat(fd).st_mode
            if traits.attributes is not None and mode & _OPENED != _OPENED and os.geteuid():
                # It takes none while it is closed to its owner.
                os.fchmod(fd, stat.S_IMODE(mode) | _OPENED)
            set_traits(fd, traits)

    def _give_file(self, path: str, traits: FileTraits) -> None:
        with open_parent(self.workspace, path) as (folder, name):
            file = os.open(name, READ_FILE, dir_fd=folder)
            try:
                set_traits(file, traits)
            finally:
                os.close(file)

    def _go_back(self) -> list[str]:
        """Take back what was done, the last first; return the paths where that failed."""
        while self._back:
            path, act = self._back.pop()
            try:
                act()
            except (OSError, WorkspaceError):
                self._left.append(path)
        for path, time in self._times.items():
            with suppress(OSError):
                self._give(path, FileTraits(modified=time))
        return self._left


def _is_beneath(path: str, folders: Collection[str]) -> bool:
    return any(path[:end] in folders for end, letter in enumerate(path) if letter == "/")
