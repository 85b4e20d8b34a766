"""Copies of a file's content: shared with the original where the file system can, and hashed as they are on disk."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress

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
