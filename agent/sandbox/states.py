"""What lies at a path, read through the open folder above it, and folders marked as renamed that are made whole."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from foregate.agent.sandbox.attributes import choose_attributes, hash_attributes, read_attributes
from foregate.agent.sandbox.layers import (
    LayerEntry,
    Merged,
    OverlayLayer,
    is_opaque,
    is_whiteout,
    list_names,
    open_entry,
    read_mark,
)
from foregate.agent.sandbox.view import TRUSTED
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathKind, PathState

_CHUNK = 1 << 20
_CAPABILITIES = "security.capability"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_MOVED_CHUNK = 1 << 26


class Budget:
    """How much may still be looked at: paths, and bytes of files. What is more than that raises WorkspaceError."""

    def __init__(self, paths: int, size: int) -> None:
        self._paths, self._size = paths, size
        self._sentence = f"the command changed more than can be judged at once ({paths} paths, {size} bytes of files)"

    def take(self, *, paths: int = 0, size: int = 0) -> None:
        """Count what is looked at."""
        self._paths -= paths
        self._size -= size
        if self._paths < 0 or self._size < 0:
            raise WorkspaceError(f"{self._sentence}; have it do less in one call, or write to `/tmp`")


def get_kind(mode: int) -> PathKind:
    """Return the kind of what has this mode."""
    kinds: dict[int, PathKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "other")


def read_state(folder: int, name: str, budget: Budget, *, own: bool = False) -> PathState:
    """Return what is called `name` in an open folder; "." is the folder itself. Raises OSError and WorkspaceError.

    A file that cannot be read has no hash. `own` is as for `open_entry`.
    """
    status = os.lstat(name, dir_fd=folder)
    kind, content = get_kind(status.st_mode), b""
    attributes: dict[str, bytes] = {}
    if kind == "link":
        content = os.fsencode(os.readlink(name, dir_fd=folder))
    elif kind == "other":
        content = f"{stat.S_IFMT(status.st_mode)} {status.st_rdev}".encode()
    digest = hashlib.sha256(content).hexdigest() if content else ""
    if kind in ("file", "directory"):
        with suppress(PermissionError), open_entry(folder, name, own=own) as entry:
            attributes = read_attributes(entry)
            if kind == "file":
                budget.take(size=status.st_size)
                digest = _hash(entry)
    return PathState(
        kind=kind,
        hash=digest,
        mode=stat.S_IMODE(status.st_mode),
        size=0 if kind == "directory" else status.st_size,
        traits=hash_attributes(attributes),
        owner=f"{status.st_uid}:{status.st_gid}",
    )


def is_privileged(folder: int, name: str) -> bool:
    """Whether a file of an open folder of ours gives whoever runs it the rights of somebody else."""
    status = os.lstat(name, dir_fd=folder)
    if not stat.S_ISREG(status.st_mode):
        return False
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return True
    with open_entry(folder, name, own=True) as entry:
        return _CAPABILITIES in os.listxattr(entry)


def _hash(file: int) -> str:
    digest = hashlib.sha256()
    while data := os.read(file, _CHUNK):
        digest.update(data)
    return digest.hexdigest()


class Unfolding:
    """Makes whole what was renamed in the upper layer; `below` is what the view was laid over."""

    def __init__(self, below: Merged, budget: Budget) -> None:
        self._below, self._budget = below, budget

    def run(self, upper: OverlayLayer) -> None:
        """Make all of the layer whole. Raises OSError, and WorkspaceError where that is more than the budget."""
        if upper.marks == TRUSTED:
            self._look(upper, self._below)

    def _look(self, folder: OverlayLayer, source: Merged | None) -> None:
        """Look for renamed folders in an open one, which lies over `source`."""
        for name in _list_folders(folder):
            with open_entry(folder.folder, name, own=True) as opened:
                inside = OverlayLayer(opened, folder.marks)
                with self._find_source(inside, name, source) as (found, is_renamed):
                    if is_renamed:
                        self._fill(inside, found)
                        os.setxattr(opened, folder.marks + "opaque", b"y")
                        os.removexattr(opened, folder.marks + "redirect")
                    else:
                        self._look(inside, found)

    @contextmanager
    def _find_source(
        self, folder: OverlayLayer, name: str, source: Merged | None
    ) -> Iterator[tuple[Merged | None, bool]]:
        """Open what an open folder of that name shows besides its own; also say whether a mark leads there."""
        redirect = os.fsdecode(read_mark(folder, "redirect"))
        if is_opaque(folder) or (source is None and not redirect.startswith("/")):
            yield None, bool(redirect)
            return
        top = self._below if redirect.startswith("/") else source
        assert top is not None
        names = redirect.strip("/").split("/") if redirect else [name]
        with top.open_beneath(names) as found:
            yield found, bool(redirect)

    def _fill(self, folder: OverlayLayer, source: Merged | None) -> None:
        """Bring into an open folder all that it shows of `source`, and do so in the folders in it."""
        status = os.fstat(folder.folder)
        there = set(list_names(folder.folder))
        for name in _list_folders(folder):
            with open_entry(folder.folder, name, own=True) as opened:
                inside = OverlayLayer(opened, folder.marks)
                with self._find_source(inside, name, source) as (found, is_renamed):
                    self._fill(inside, found)
                    if is_renamed:
                        os.removexattr(opened, folder.marks + "redirect")
        for name in source.list_names() if source else []:
            if name not in there and source and (entry := source.find(name)):
                self._copy(source, entry, folder)
        for name in there:
            if is_whiteout(os.lstat(name, dir_fd=folder.folder)):
                os.unlink(name, dir_fd=folder.folder)
        os.utime(folder.folder, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _copy(self, source: Merged, entry: LayerEntry, folder: OverlayLayer) -> None:
        """Copy what is seen in `source` into an open folder, with all it has; its own marks are made anew."""
        name, status, into = entry.name, entry.status, folder.folder
        self._budget.take(paths=1)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=entry.layer.folder), name, dir_fd=into)
            os.chown(name, status.st_uid, status.st_gid, dir_fd=into, follow_symlinks=False)
        elif entry.is_folder:
            os.mkdir(name, 0o700, dir_fd=into)
            with open_entry(into, name, own=True) as made, source.open(name) as inner:
                if inner is None:
                    return
                for one in inner.list_names():
                    if found := inner.find(one):
                        self._copy(inner, found, OverlayLayer(made, folder.marks))
                copy_traits(inner.layers[0].folder, status, made)
        elif stat.S_ISREG(status.st_mode):
            self._budget.take(size=status.st_size)
            with open_entry(entry.layer.folder, name, own=bool(entry.layer.marks)) as file:
                made = os.open(name, _NEW, 0o600, dir_fd=into)
                try:
                    while os.copy_file_range(file, made, _MOVED_CHUNK):
                        pass
                    copy_traits(file, status, made)
                finally:
                    os.close(made)
        else:
            os.mknod(name, status.st_mode, status.st_rdev, dir_fd=into)
            os.chown(name, status.st_uid, status.st_gid, dir_fd=into)


def _list_folders(folder: OverlayLayer) -> list[str]:
    names = list_names(folder.folder)
    return [name for name in names if stat.S_ISDIR(os.lstat(name, dir_fd=folder.folder).st_mode)]


def copy_traits(source: int, status: os.stat_result, copy: int) -> None:
    """Give an open file or folder all that another one has beside its content. Raises OSError."""
    with suppress(PermissionError):
        os.fchown(copy, status.st_uid, status.st_gid)
    for name, value in choose_attributes(read_attributes(source)).items():
        with suppress(OSError):
            os.setxattr(copy, name, value)
    os.fchmod(copy, stat.S_IMODE(status.st_mode))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
