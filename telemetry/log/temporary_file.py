"""Files that are written under a name of their own and then renamed into place; what killed processes left is swept."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foregate.schemas.late_pattern import compile_late

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# ".foregate-0123456789abcdef.tmp", ".new-0123456789abcdef.tmp".
_NAME = compile_late(r"\.(?:foregate|new)-[0-9a-f]{16}\.tmp")
_NOT_OFFERED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""What a file system says that has no way to put a folder on disk by itself."""


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
