"""Everything in a folder, met through open folders so that no link is followed, with what the kernel says of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from foregate.schemas.errors import WorkspaceError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEEPEST = 200
"""Folders inside folders that are looked into."""
_READABLE = 0o500


class Met(NamedTuple):
    """Something in a folder: its path relative to the top, "." for that itself, and the open folder it is named in.

    The folder is open until the next one is met. A path that is no text holds surrogates.
    """

    path: str
    folder: int
    name: str
    found: os.stat_result


def refuse_depth(path: str) -> None:
    """Raise WorkspaceError for a folder that lies too deep."""
    raise WorkspaceError(f"the workspace holds folders more than {DEEPEST} deep, as `{path[:80]}`; flatten them")


def scan(
    top: int,
    *,
    skips: Callable[[str], bool] = lambda path: False,
    opens: Callable[[str], bool] = lambda path: False,
    leaves: Callable[[str], None] = refuse_depth,
) -> Iterator[Met]:
    """Yield an open folder and all that is in it, each folder before what it holds, but what is skipped.

    What vanishes on the way is left out. So is what is in an unreadable folder, unless `opens` says that it may be made
    readable meanwhile. `leaves` is told of a folder that lies too deep to be looked into. Raises what that raises, and
    OSError.
    """
    yield Met(".", top, ".", os.stat(top))
    yield from _scan_folder(top, "", skips, opens, leaves, 0)


def _scan_folder(
    folder: int,
    prefix: str,
    skips: Callable[[str], bool],
    opens: Callable[[str], bool],
    leaves: Callable[[str], None],
    depth: int,
) -> Iterator[Met]:
    if depth > DEEPEST:
        leaves(prefix)
        return
    inner: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if skips(path):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield Met(path, folder, entry.name, found)
            if stat.S_ISDIR(found.st_mode):
                inner.append(entry.name)
    for name in inner:
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            opened, mode = _open(folder, name, lifts=opens(f"{prefix}{name}"))
            try:
                yield from _scan_folder(opened, f"{prefix}{name}/", skips, opens, leaves, depth + 1)
            finally:
                if mode is not None:
                    os.fchmod(opened, mode)
                os.close(opened)


def _open(folder: int, name: str, *, lifts: bool) -> tuple[int, int | None]:
    """Open a folder, and return the mode to give back to it where it had to be lifted."""
    if not lifts:
        return os.open(name, _FOLDER, dir_fd=folder), None
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(found).st_mode)
        if mode & _READABLE != _READABLE:
            os.chmod(f"/proc/self/fd/{found}", mode | _READABLE)  # noqa: PTH101 - no path
        return os.open(".", _FOLDER, dir_fd=found), mode if mode & _READABLE != _READABLE else None
    finally:
        os.close(found)
