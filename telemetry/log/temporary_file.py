"""Files that are whole or not there: written under another name first, and stored bytes named by their content."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError
from foregate.schemas.late_pattern import compile_late

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# ".foregate-0123456789abcdef.tmp", ".new-0123456789abcdef.tmp".
_NAME = compile_late(r"\.(?:foregate|new)-[0-9a-f]{16}\.tmp")
_NOT_OFFERED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""What a file system says that has no way to put a folder on disk by itself."""
# "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".
_BLOB_NAME = compile_late(r"[0-9a-f]{64}")
Sync = Callable[[int], object]
"""Has an open file or folder survive a power cut."""
_LOCK = ".lock"
"""The file that is locked while bytes are removed, and while somebody says that they need some."""


def create_temporary(folder: int, prefix: str, mode: int) -> tuple[int, str]:
    """Create a file in an open folder; return its descriptor, open for writing, and its name.

    The file is locked while the descriptor is open, so keep it open until the file is renamed: the lock ends with the
    process, however that ends, and a file without one belongs to nobody. Raises OSError.
    """
    while True:
        name = f"{prefix}{secrets.token_hex(8)}.tmp"
        file = os.open(name, _NEW, mode, dir_fd=folder)
        try:
            # A sweep holds it; or there are no locks here, and then nothing is swept either.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink:
                return file, name
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that `create_temporary` gives."""
    return _NAME.fullmatch(name) is not None


def sweep_temporary(folder: int, name: str) -> None:
    """Remove a temporary file of an open folder where the process that made it is gone; one in use stays."""
    with suppress(OSError):
        file = os.open(name, _OLD, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(file)


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put `data` in the place of a file: whoever reads sees all of the one or all of the other. Raises OSError."""
    with open_folder(path.parent) as folder:
        file, name = create_temporary(folder, ".foregate-", mode)
        try:
            with os.fdopen(file, "wb") as stream:
                os.fchmod(file, mode)
                stream.write(data)
                stream.flush()
                os.fsync(file)
                os.replace(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            sync_folder(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise


def sync_folder(folder: int) -> None:
    """Have it survive a power cut what an open folder holds by name; raise OSError where the disk refuses."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise


def sync_all(folder: int) -> None:
    """Have all survive a power cut that waits on the file system of an open folder, or on all where none can be named.

    Raises OSError where the disk refuses, also where it refused something since the folder was opened.
    """
    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        os.sync()
    elif sync(folder):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Open a folder and return its descriptor; raise OSError where it cannot be opened."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class StoredBlob(NamedTuple):
    """Bytes of a store: their name and how many they are."""

    name: str
    size: int


class FileBlobs:
    """Bytes by their SHA-256 below `folder`, two levels deep, for the owner only; several processes may share it.

    Opening it removes what processes that are gone left half-written; with `read_only` it is left as it is, and nothing
    can be stored.
    """

    def __init__(self, folder: Path | str, *, read_only: bool = False) -> None:
        self.folder, self._read_only = Path(folder), read_only
        if read_only:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_folder(self.folder) as opened:
                for name in filter(is_temporary, os.listdir(opened)):  # noqa: PTH208 - a descriptor is no path
                    sweep_temporary(opened, name)
        except OSError as error:
            raise _build_error("make", self.folder, error) from None

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its SHA-256; what is stored already is checked and left alone.

        Raises LogError when it cannot be stored.
        """
        return self._store(data, os.fsync, sync_folder)

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Store contents as `put` does, durably when all are; it takes one sync."""
        names = [self._store(data, _put_off, _put_off) for data in contents]
        try:
            with open_folder(self.folder) as opened:
                sync_all(opened)
        except OSError as error:
            raise _build_error("store bytes in", self.folder, error) from None
        return names

    def _store(self, data: bytes, sync_file: Sync, sync_above: Sync) -> str:
        if self._read_only:
            raise LogError(f"`{self.folder}` was opened only to be read; nothing can be stored there")
        name = strict_json.sha256(data)
        path = self._find_path(name)
        try:
            if path.is_file() and _read_file(path) == data and self._keep(path):
                return name
            for folder in (path.parent.parent, path.parent):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, exist_ok=True)
                    with open_folder(folder.parent) as opened:
                        sync_above(opened)
            self._write_file(path, data, sync_file, sync_above)
        except OSError as error:
            raise _build_error("store bytes in", self.folder, error) from None
        return name

    def get(self, hash: str) -> bytes:  # noqa: A002
        """Return the bytes; raise LogError when they are missing or do not match their name."""
        if not _BLOB_NAME.fullmatch(hash):
            raise LogError(f"`{hash[:80]}` cannot name stored bytes; a name is 64 lower-case hexadecimal digits")
        try:
            data = _read_file(self._find_path(hash))
        except FileNotFoundError:
            raise LogError(f"no stored bytes are named `{hash}` in `{self.folder}`") from None
        except OSError as error:
            raise _build_error("read bytes from", self.folder, error) from None
        if strict_json.sha256(data) != hash:
            raise LogError(f"the stored bytes `{hash}` were changed or damaged; restore them from a copy")
        return data

    def list_blobs(self) -> Iterator[StoredBlob]:
        """Yield what is stored."""
        for path in self.folder.glob("??/??/*"):
            # It may be removed meanwhile.
            with suppress(OSError):
                if _BLOB_NAME.fullmatch(path.name) and path.name.startswith(f"{path.parts[-3]}{path.parts[-2]}"):
                    yield StoredBlob(path.name, path.stat(follow_symlinks=False).st_size)

    def read_unchecked(self, name: str) -> bytes:
        """Return stored bytes as they are, also changed ones; none where they are gone."""
        try:
            return _read_file(self._find_path(name))
        except OSError:
            return b""

    def remove(self, name: str, *, unless_since: float) -> bool:
        """Remove stored bytes, unless somebody has stored them after a time; return whether they are gone."""
        path = self._find_path(name)
        try:
            with self._locked(fcntl.LOCK_EX):
                if path.stat(follow_symlinks=False).st_mtime > unless_since:
                    return False
                path.unlink()
        except FileNotFoundError:
            return True
        except OSError as error:
            raise _build_error("remove bytes from", self.folder, error) from None
        with suppress(OSError):
            path.parent.rmdir()
        return True

    def _keep(self, path: Path) -> bool:
        """Say that stored bytes are needed again, so that nobody removes them; False where somebody just has."""
        with self._locked(fcntl.LOCK_SH):
            try:
                os.utime(path, follow_symlinks=False)
            except FileNotFoundError:
                return False
        return True

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        file = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # Where a file system knows no locks, what is needed again has a new time at least.
            with suppress(OSError):
                fcntl.flock(file, how)
            yield
        finally:
            os.close(file)

    def _find_path(self, name: str) -> Path:
        return self.folder / name[:2] / name[2:4] / name

    def _write_file(self, path: Path, data: bytes, sync_file: Sync, sync_above: Sync) -> None:
        """Put `data` at `path` in one step that survives a power cut: readers find nothing or all of it.

        Where the sync is put off, a power cut before it may leave less, which `get` refuses and a further `put` mends.

        It is written in the folder of the store, so that what is left half-written is found without a search.
        """
        with open_folder(self.folder) as top, open_folder(path.parent) as folder:
            file, temporary = create_temporary(top, ".new-", 0o600)
            try:
                with os.fdopen(file, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    sync_file(stream.fileno())
                    os.rename(temporary, path.name, src_dir_fd=top, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=top)
                raise
            sync_above(folder)


def _put_off(file: int) -> None:
    """Leave it to one sync for all."""


def _read_file(path: Path) -> bytes:
    """Read a file that is no link and, like a pipe put in its place, cannot make us wait."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        return stream.read()


def _build_error(verb: str, folder: Path, error: OSError) -> LogError:
    return LogError(f"cannot {verb} `{folder}` ({error.strerror}); make sure the folder and its disk can be used")
