"""What the guard of a call sees to from outside: how much is written to disk, and its private folder and bounds."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan
from foregate.agent.sandbox.removal import remove_at
from foregate.agent.sandbox.system_calls import StepFailed, name_step

_SLICE = 0.002
"""Seconds of a look that may go into counting."""
_RECOUNT = 5.0
"""Seconds after which all is counted once more even though the disk shows nothing."""
_DEEPEST = min(768, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)
"""How many folders in folders are counted: each holds a descriptor, and a frame of Python's stack of a thousand."""
_BLOCK = 512
_UNBOUNDED = 1 << 62
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PAUSE = 0.1
"""Seconds between two counts of processes."""
_MOST_FILES = 65536


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
        self._next = time.monotonic() + _RECOUNT

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
        self._counting, self._next = None, time.monotonic() + _RECOUNT
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


class Watch:
    """Looks from time to time at what a call uses, which no namespace bounds; `list_tree` lists its processes.

    Raises StepFailed where no private folder can be made.
    """

    def __init__(self, plan: SandboxPlan, list_tree: Callable[[], Collection[int]]) -> None:
        self._plan, self._list_tree = plan, list_tree
        self._parent, self._next = os.getppid(), 0.0
        with name_step("scratch", f"no private folder can be made in {plan['scratch']}"):
            self.scratch = Scratch(plan["scratch"])
        bounds = ProcessLimits(written_bytes=plan["scratch_bytes"], written_files=_MOST_FILES)
        self._written = [WrittenPaths([self.scratch.path], bounds)]
        if plan["writable"]:
            self._written.append(WrittenPaths([plan["workspace"]], plan["limits"]))

    def find_excess(self) -> str:
        """Return why the call has to end, as a clause about the command; "" for nothing."""
        # Were this process killed too, nobody would end what the command started.
        if os.getppid() != self._parent:
            return "the process that starts programs was ended from outside"
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            most = self._plan["limits"].get("processes", 0)
            if most and _count_threads(self._list_tree()) > most:
                return f"it had more than {most} processes and threads; have it start fewer at once"
        return next(filter(None, (written.find_excess() for written in self._written)), "")

    def close(self) -> None:
        """Remove the private folder; what cannot be removed now is with the next one."""
        with suppress(OSError):
            self.scratch.remove()


def _count_threads(tree: Collection[int]) -> int:
    count = 0
    for pid in tree:
        with suppress(OSError):
            count += len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - pathlib takes long to import
    return count


_SHARED = "foregate-scratch-"
# "0123456789abcdef".
_OWN = re.compile("[0-9a-f]{16}")


class Scratch:
    """A folder with `home` and `tmp` in it, and a lock on it that ends with this process.

    It lies with others of this user in one folder of `place`. Those whose process has gone are removed on the way.
    Raises StepFailed, and OSError where it cannot be made.
    """

    def __init__(self, place: str) -> None:
        self._above = _open_shared(place)
        self._sweep()
        # Another call may sweep it before it is locked.
        while not self._make():
            pass
        for name in ("home", "tmp"):
            os.mkdir(name, 0o700, dir_fd=self._folder)
        self.path = f"{os.path.realpath(place)}/{_SHARED}{os.geteuid()}/{self._name}"

    def _make(self) -> bool:
        self._name = os.urandom(8).hex()
        os.mkdir(self._name, 0o700, dir_fd=self._above)
        with suppress(FileNotFoundError, BlockingIOError):
            self._folder = os.open(self._name, _FOLDER, dir_fd=self._above)
            fcntl.flock(self._folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(self._folder).st_nlink:
                return True
        return False

    def remove(self) -> None:
        """Remove it with all that is in it; nobody writes to it any more. Raises OSError."""
        remove_at(self._above, self._name)
        os.close(self._folder)
        os.close(self._above)

    def _sweep(self) -> None:
        for name in filter(_OWN.fullmatch, os.listdir(self._above)):  # noqa: PTH208 - a descriptor is no path
            with suppress(OSError):
                folder = os.open(name, _FOLDER, dir_fd=self._above)
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_at(self._above, name)
                finally:
                    os.close(folder)


def _open_shared(place: str) -> int:
    """Open the folder for all such folders of this user; nobody else may have made it."""
    path = Path(place, f"{_SHARED}{os.geteuid()}")
    path.mkdir(0o700, exist_ok=True)
    folder = os.open(path, _FOLDER)
    found = os.fstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(folder)
        raise StepFailed("scratch", 0, f"the folder {path} is not this user's alone; remove it")
    return folder
