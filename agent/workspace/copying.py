"""Copies of a file's content: shared with the original where the file system can, and hashed as they are on disk."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress

from foregate.schemas.errors import SyncError
from foregate.telemetry.log.temporary_file import sync_all, sync_folder

_CLONE = 0x40049409
"""The request of `ioctl` that has a file share the content of another (FICLONE)."""
_PIECE = 1 << 20
_NOT_OFFERED = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


def copy_content(source: int | bytes, target: int) -> str:
    """Fill an empty file, open for reading and writing, with bytes or with what an open file holds.

    Returns the SHA-256 of what it holds then. Raises OSError.
    """
    if isinstance(source, bytes):
        _write(target, source)
        return hashlib.sha256(source).hexdigest()
    if os.fstat(source).st_size > _PIECE and (_clone(source, target) or _copy_in_kernel(source, target)):
        return hash_content(target)
    digest = hashlib.sha256()
    while piece := os.read(source, _PIECE):
        digest.update(piece)
        _write(target, piece)
    return digest.hexdigest()


def hash_content(file: int) -> str:
    """Return the SHA-256 of all that an open file holds; raise OSError."""
    digest, offset = hashlib.sha256(), 0
    while piece := os.pread(file, _PIECE, offset):
        digest.update(piece)
        offset += len(piece)
    return digest.hexdigest()


def _write(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(target, left) :]


def _clone(source: int, target: int) -> bool:
    """Have a file share the content of another; return whether the file system can."""
    with suppress(ImportError, OSError):
        from fcntl import ioctl

        ioctl(target, _CLONE, source)
        return True
    return False


def _copy_in_kernel(source: int, target: int) -> bool:
    """Copy without taking the content in; return False, with nothing copied, where that is not offered."""
    if not hasattr(os, "copy_file_range"):
        return False
    copied = 0
    try:
        while count := os.copy_file_range(source, target, 1 << 30):
            copied += count
    except OSError as error:
        if copied or error.errno not in _NOT_OFFERED:
            raise
    return bool(copied)


def sync_change(path: str, *folders: int) -> None:
    """Put open folders on disk, which a change of `path` has changed; raise SyncError where the disk refuses."""
    try:
        for folder in folders:
            sync_folder(folder)
    except OSError as error:
        raise _build_error(f"the change of `{path[:80]}`", error) from None


def sync_file_system(fd: int) -> None:
    """Put all on disk that waits on the file system of an open folder, or on all where none can be named.

    Raises SyncError where the disk refuses, also where it refused something since the folder was opened.
    """
    try:
        sync_all(fd)
    except OSError as error:
        raise _build_error("what was changed", error) from None


def _build_error(what: str, error: OSError) -> SyncError:
    return SyncError(f"{what} may not outlast a power cut ({error.strerror}); check the disk, then look what is there")
