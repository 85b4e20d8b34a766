"""The folder in which new contents wait and replaced ones lie, and renames in one step that overwrite nothing."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache

from foregate.agent.workspace.path_state import READ_FOLDER, Step, is_at, look_at, open_parent
from foregate.agent.workspace.workspace import Workspace, refuse_errors

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


_AT_ONCE = 8
_READY = "ready"
"""A name in a staging folder that says that everything is written: from now on things come and go."""


def mark_ready(staging: int) -> None:
    """Say of an open staging folder that everything in it is written, before the first of it is put in its place."""
    os.close(os.open(_READY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=staging))


def remove_staging(root: int, name: str) -> None:
    """Remove a staging folder and what is left in it, as far as that can be done."""
    with suppress(OSError):
        staging = os.open(name, READ_FOLDER, dir_fd=root)
        try:
            inside = os.listdir(staging)  # noqa: PTH208 - a descriptor is no path
            # Starting threads takes longer.
            if len(inside) <= _AT_ONCE:
                for old in inside:
                    os.unlink(old, dir_fd=staging)
            else:
                # One after the other, each waits for a busy disk.
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    list(pool.map(lambda old: os.unlink(old, dir_fd=staging), inside))
        finally:
            os.close(staging)
        os.rmdir(name, dir_fd=root)


def clear_staging(workspace: Workspace, name: str, steps: Sequence[Step]) -> list[str]:
    """Remove the staging folder of a dead process; return the paths to which it had to bring something back.

    That is what came out of a place and is not what was to be replaced: somebody saved it in the last moment. Raises
    WorkspaceError where it cannot be brought back.
    """
    found = []
    with refuse_errors("read", name), workspace.directory(".") as root:
        if not workspace.look(name).kind:
            return []
        staging = os.open(name, READ_FOLDER, dir_fd=root)
        try:
            by_number = {str(step.number): step for step in steps}
            names = os.listdir(staging)  # noqa: PTH208 - a descriptor is no path
            for inside in sorted(names) if _READY in names else ():
                step = by_number.get(inside.removesuffix(".old"))
                if step is not None and _bring_back(workspace, staging, inside, step):
                    found.append(step.path)
        finally:
            os.close(staging)
        remove_staging(root, name)
    return found


def _bring_back(workspace: Workspace, staging: int, name: str, step: Step) -> bool:
    """Bring back what came out of the place of a step, where it is not what was to; return whether it was so."""
    state = look_at(staging, name).state
    if is_at(state, step.now) or is_at(state, step.then):
        return False
    with suppress(FileNotFoundError, NotADirectoryError), open_parent(workspace, step.path) as (folder, own):
        there = look_at(folder, own).state
        if not there.kind and step.now.kind:
            move_new(staging, name, folder, own)
            return True
        if there.kind and is_at(there, step.then):
            return exchange(staging, name, folder, own)
    return False
