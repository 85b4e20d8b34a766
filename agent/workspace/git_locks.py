"""The lock files of a git command that was killed: git never removes them, and every command after it fails.

A lock is removed where all of this holds: it is a plain file of our own, made after the dead call began. No living
process has it open, and no living git works in the repository. Any doubt leaves it there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from foregate.agent.workspace.git_folder import find_common_folder
from foregate.agent.workspace.workspace import Workspace, refuse_errors

_TICK = 10_000_000
"""Nanoseconds by which a file system's clock is behind: it stands still between two ticks of the kernel (100 Hz)."""


def remove_dead_locks(workspace: Workspace, git: str, since: int) -> list[str]:
    """Remove the locks in a git folder that were made since a time and that nobody holds; return their paths.

    `since` is in nanoseconds since 1970. Raises WorkspaceError where the folder cannot be read or a lock not removed.
    """
    removed = []
    for path in sorted(_list_locks(workspace, git)):
        with refuse_errors("remove", path), workspace.parent(path) as (folder, name):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            made = min(about.st_mtime_ns, about.st_ctime_ns)
            is_own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_nlink == 1
            if is_own and made >= since - _TICK and not _is_held(about, (workspace.root, workspace.root / git)):
                os.unlink(name, dir_fd=folder)
                removed.append(path)
    return removed


def _list_locks(workspace: Workspace, git: str) -> Iterator[str]:
    """Yield the locks of index, HEAD, settings, packed refs and branches, also where a linked worktree shares them."""
    for top in dict.fromkeys((git, find_common_folder(workspace, git))):
        pending = [top]
        while pending:
            here = pending.pop()
            with refuse_errors("list", here), workspace.directory(here) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".lock") and entry.is_file(follow_symlinks=False):
                        yield f"{here}/{entry.name}"
                    elif (here != top or entry.name == "refs") and entry.is_dir(follow_symlinks=False):
                        pending.append(f"{here}/{entry.name}")


def _is_held(lock: os.stat_result, places: Sequence[Path]) -> bool:
    """Whether a living process may hold a lock; so it is where the system does not list what its processes have open.

    Git closes a lock while an editor has the message of a commit, so a git that works in one of the places counts too.
    """
    processes = [one for one in _list(Path("/proc")) if one.name.isdigit()]
    return not processes or any(_has_open(one, lock) or _is_git_in(one, places) for one in processes)


def _has_open(process: Path, lock: os.stat_result) -> bool:
    for number in _list(process / "fd"):
        with suppress(OSError):
            found = number.stat()
            if (found.st_dev, found.st_ino) == (lock.st_dev, lock.st_ino):
                return True
    return False


def _list(folder: Path) -> list[Path]:
    """Return what is in a folder of /proc: nothing of a process that has ended, or that is another user's.

    None of those made a file of our own.
    """
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_git_in(process: Path, places: Sequence[Path]) -> bool:
    """Whether a process is a git that works in one of some folders, as its own folder or its words say."""
    with suppress(OSError):
        if not (process / "comm").read_bytes().startswith(b"git"):
            return False
        here = (process / "cwd").readlink()
        words = b"\0".join((process / name).read_bytes() for name in ("cmdline", "environ"))
        return any(here.is_relative_to(place) or os.fsencode(place) in words for place in places)
    return False


def describe_removed(paths: Sequence[str]) -> str:
    """Return what is said of locks that were removed, "" for none.

    >>> describe_removed([".git/index.lock"])
    'the lock it left, `.git/index.lock`, was removed'
    """
    if not paths:
        return ""
    what = "the lock it left" if len(paths) == 1 else "the locks it left"
    return f"{what}, {', '.join(f'`{path}`' for path in paths)}, {'was' if len(paths) == 1 else 'were'} removed"
