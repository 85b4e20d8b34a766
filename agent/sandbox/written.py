"""How much a command has written to disk: bounded while it runs, so that no disk is ever full because of it."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan

_SLICE = 0.002
"""Seconds of a look that may go into counting."""
_PAUSE = 5.0
"""Seconds after which all is counted once more even though the disk shows nothing."""
_DEEPEST = min(768, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)
"""How many folders in folders are counted: each holds a descriptor, and a frame of Python's stack of a thousand."""
_BLOCK = 512
_UNBOUNDED = 1 << 62
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def list_stores(plan: SandboxPlan) -> list[str]:
    """Return the folders that hold what the command of a plan writes, none where nothing is written to disk."""
    return [f"{store}/upper" for store in (plan["upper"], *plan["layers"].values()) if store]


class WrittenPaths:
    """What a command writes to some folders. Made before it starts; `find_excess` looks on meanwhile.

    What is free on the disk is looked at each time. Where that says that a bound could have been passed, and now and
    then, everything that has changed since the start is counted, a little each time. Where not all can be counted, for
    a command can close a folder, what the disk lost counts instead. Nobody may take more than half of what was free,
    counted or not: a file without a name is on no list.
    """

    def __init__(self, folders: Sequence[str], limits: ProcessLimits) -> None:
        self._folders = folders
        self._disk = next(str(up) for up in (Path(folders[0]), *Path(folders[0]).parents) if up.exists())
        self._bounds = (limits.get("written_bytes", _UNBOUNDED), limits.get("written_files", _UNBOUNDED))
        # The clock of files is coarse.
        self._start = time.time() - 0.1
        self._first = self._last = self._look()
        self._counted = (0, 0)
        self._counting: Iterator[tuple[int, int]] | None = None
        self._is_complete = True
        self._next = time.monotonic() + _PAUSE

    def find_excess(self) -> str:
        """Return which bound was passed, as a clause about the command; "" for none."""
        free = self._look()
        if any(now < first // 2 for now, first in zip(free, self._first, strict=True)):
            return (
                "more than half of what was free on the disk was used up while it ran; free some, or have it write less"
            )
        if self._counting is None:
            taken = _subtract(self._last, free)
            could_be = any(
                known + more > bound for known, more, bound in zip(self._counted, taken, self._bounds, strict=True)
            )
            if not could_be and time.monotonic() < self._next:
                return ""
            self._counting, self._is_complete, self._last = self._count(), True, free
        return self._describe(self._go_on_counting(free))

    def close(self) -> None:
        """Do nothing: what was written is for others to use."""

    def _go_on_counting(self, free: tuple[int, int]) -> tuple[int, int]:
        """Count for a slice of time; return what is known to be written, in bytes and in files."""
        assert self._counting is not None
        until = time.monotonic() + _SLICE
        found = (0, 0)
        for found in self._counting:
            if time.monotonic() >= until:
                return found
        self._counting, self._next = None, time.monotonic() + _PAUSE
        self._counted = found if self._is_complete else _subtract(self._first, free)
        return self._counted

    def _describe(self, written: tuple[int, int]) -> str:
        for amount, bound, what in zip(written, self._bounds, ("bytes", "files"), strict=True):
            if amount > bound:
                return f"it wrote more than the {bound} {what} a command may write; have it write less at once"
        return ""

    def _look(self) -> tuple[int, int]:
        """Return what the disk has left for this user, in bytes and in files."""
        found = os.statvfs(self._disk)
        return found.f_bavail * found.f_frsize, found.f_favail

    def _count(self) -> Iterator[tuple[int, int]]:
        """Yield the bytes and the number of what has changed since the start, again and again until all is counted."""
        known: set[tuple[int, int]] = set()
        size = number = 0
        for status in (one for folder in self._folders for one in self._walk(None, folder, 0)):
            if status.st_ctime >= self._start and (status.st_dev, status.st_ino) not in known:
                if status.st_nlink > 1:
                    known.add((status.st_dev, status.st_ino))
                size, number = size + status.st_blocks * _BLOCK, number + 1
            yield size, number
        yield size, number

    def _walk(self, parent: int | None, name: str, depth: int) -> Iterator[os.stat_result]:
        try:
            folder = os.open(name, _FOLDER, dir_fd=parent)
        except OSError as error:
            self._is_complete &= isinstance(error, FileNotFoundError)
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        yield entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            if depth < _DEEPEST:
                                yield from self._walk(folder, entry.name, depth + 1)
                            else:
                                self._is_complete = False
        except PermissionError:
            self._is_complete = False
        finally:
            os.close(folder)


def _subtract(before: tuple[int, int], now: tuple[int, int]) -> tuple[int, int]:
    return before[0] - now[0], before[1] - now[1]
