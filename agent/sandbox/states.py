"""What lies at a path, read through the open folder above it: kind, content, mode, owner, extended attributes."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress

from foregate.agent.sandbox.attributes import hash_attributes, read_attributes
from foregate.agent.sandbox.layers import open_entry
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathKind, PathState

_CHUNK = 1 << 20
_CAPABILITIES = "security.capability"


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
