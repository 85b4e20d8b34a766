"""Renames that overwrite nothing, and renames of two things into each other's place, in one step of the kernel."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

_NO_REPLACE, _EXCHANGE = 1, 2
_NOT_OFFERED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""What a kernel or a file system says that knows no such rename."""


@cache
def _load_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def exchange(old: int, source: str, new: int, target: str) -> bool:
    """Swap two names of open folders at once; return False where that is not offered. Raises OSError."""
    return rename_with(old, source, new, target, _EXCHANGE)


def move_new(old: int, source: str, new: int, target: str) -> None:
    """Rename a thing of one open folder to a name of another where nothing is; raise OSError, also where something is.

    Where no rename that overwrites nothing is offered, what comes into the place between looking and renaming is lost.
    """
    if rename_with(old, source, new, target, _NO_REPLACE):
        return
    try:
        os.stat(target, dir_fd=new, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=old, dst_dir_fd=new)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)


def rename_with(old: int, source: str, new: int, target: str, flags: int) -> bool:
    """Rename with flags of the kernel; return False where it does not offer them. Raises OSError."""
    call = getattr(_load_library(), "renameat2", None)
    if call is None:
        return False
    if call(old, os.fsencode(source), new, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), target)
