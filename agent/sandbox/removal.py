"""Removing a folder that a command has filled: however deep it is, whatever its modes, and without following a link."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a folder of this user with all that is in it; nothing happens where nothing is. Raises OSError."""
    above, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow a link
    with suppress(FileNotFoundError):
        parent = os.open(above, _FOLDER)
        try:
            remove_at(parent, name)
        finally:
            os.close(parent)


def remove_at(parent: int, name: str) -> None:
    """Remove what is called `name` in an open folder, with all that is in it. Raises OSError."""
    if not _is_folder(parent, name):
        os.unlink(name, dir_fd=parent)
        return
    top = open_folder(parent, name)
    try:
        # What lies deeper is moved up into the top, which needs no depth of calls or of descriptors.
        token, moved = os.urandom(8).hex(), 0
        while names := os.listdir(top):  # noqa: PTH208
            for one in names:
                moved = _remove_flat(top, one, token, moved)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _remove_flat(top: int, name: str, token: str, moved: int) -> int:
    """Remove one entry of `top`; the folders in it become entries of `top`. Return how many were moved so far."""
    if not _is_folder(top, name):
        os.unlink(name, dir_fd=top)
        return moved
    folder = open_folder(top, name)
    try:
        for one in os.listdir(folder):  # noqa: PTH208
            if not _is_folder(folder, one):
                os.unlink(one, dir_fd=folder)
                continue
            # A folder that cannot be written to cannot be moved.
            os.close(open_folder(folder, one))
            moved += 1
            os.rename(one, f"{token}.{moved}", src_dir_fd=folder, dst_dir_fd=top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)
    return moved


def _is_folder(parent: int, name: str) -> bool:
    return stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)


def open_folder(parent: int, name: str) -> int:
    """Open a folder of this user in an open one, and see to it that it can be read and changed. Raises OSError."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(found).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{found}", mode | stat.S_IRWXU)  # noqa: PTH101
        return os.open(".", _FOLDER, dir_fd=found)
    finally:
        os.close(found)
