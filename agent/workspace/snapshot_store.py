"""Where snapshots of a workspace are kept: contents by their SHA-256, and what names them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from foregate.agent.workspace.copying import copy_content, sync_file_system
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGE = 1 << 20
_HALF = ".half"
LATEST, PENDING, AFTER = "latest", "pending", "after"
"""The notes: the snapshot that was taken last, that its command is not settled, and where that changed something."""


class FileSnapshotStore:
    """A folder for the snapshots of one workspace, closed to other users; one process at a time may hold it.

    `with` holds it. Contents are on disk after `sync` and not before. Raises WorkspaceError where it cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self._folder = folder, -1
        self._has_new = False

    def __enter__(self) -> FileSnapshotStore:
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            self._folder = os.open(self.path, _FOLDER)
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            raise WorkspaceError("another command changes this workspace; wait until it has ended") from None
        except OSError as error:
            raise WorkspaceError(f"no copies can be kept in `{self.path}` ({error.strerror}); make room") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def put(self, data: bytes) -> str:
        """Keep bytes and return their hash."""
        name = strict_json.sha256(data)
        if not self._has(name):
            self._write(_HALF, data)
            self._place(name)
        return name

    def put_file(self, file: int) -> str:
        """Keep the content of an open file, read from where it is, and return its hash."""
        if os.fstat(file).st_size < _LARGE:
            return self.put(os.read(file, _LARGE))
        half = os.open(_HALF, _NEW, 0o600, dir_fd=self._folder)
        try:
            name = copy_content(file, half)
        finally:
            os.close(half)
        self._place(name)
        return name

    def link(self, folder: int, name: str, as_name: str) -> bool:
        """Keep a file of an open folder by giving it a further name; False where that cannot be done."""
        try:
            os.link(name, as_name, src_dir_fd=folder, dst_dir_fd=self._folder, follow_symlinks=False)
        except FileExistsError:
            return os.path.samestat(os.lstat(name, dir_fd=folder), os.lstat(as_name, dir_fd=self._folder))
        except OSError:
            return False
        self._has_new = True
        return True

    def link_back(self, as_name: str, folder: int, name: str) -> None:
        """Give a file that was linked its name in an open folder again. Raises OSError."""
        os.link(as_name, name, src_dir_fd=self._folder, dst_dir_fd=folder, follow_symlinks=False)

    def open(self, name: str) -> int:
        """Open what is kept under a name for reading; raise WorkspaceError where it is gone."""
        try:
            return os.open(name, _READ, dir_fd=self._folder)
        except OSError as error:
            raise WorkspaceError(f"a copy in `{self.path}` cannot be read ({error.strerror})") from None

    def get(self, name: str) -> bytes:
        """Return bytes that were kept, raise WorkspaceError where they are gone or others."""
        with os.fdopen(self.open(name), "rb") as stream:
            data = stream.read()
        if strict_json.sha256(data) != name:
            raise WorkspaceError(f"the copies in `{self.path}` were damaged; look what is in the workspace")
        return data

    def note(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write a note of that name anew; a durable one survives a power cut."""
        self._write(_HALF, data, durable=durable)
        os.rename(_HALF, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        if durable:
            os.fsync(self._folder)

    def read_note(self, name: str) -> bytes:
        """Return what was noted under a name, nothing where nothing was."""
        try:
            file = os.open(name, _READ, dir_fd=self._folder)
        except FileNotFoundError:
            return b""
        with os.fdopen(file, "rb") as stream:
            return stream.read()

    def keep_only(self, names: Iterable[str]) -> None:
        """Remove every copy but those of these names; notes stay."""
        wanted = {*names, LATEST, PENDING, AFTER}
        for name in os.listdir(self._folder):  # noqa: PTH208 - a descriptor is no path
            if name not in wanted:
                os.unlink(name, dir_fd=self._folder)

    def forget(self, name: str) -> None:
        """Remove a note."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def sync(self) -> None:
        """Put what was kept on disk; raise SyncError where the disk refuses."""
        if self._has_new:
            sync_file_system(self._folder)
            self._has_new = False

    def _has(self, name: str) -> bool:
        with suppress(OSError):
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            return True
        return False

    def _write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        file = os.open(name, _NEW, 0o600, dir_fd=self._folder)
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(file)

    def _place(self, name: str) -> None:
        os.rename(_HALF, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._has_new = True
