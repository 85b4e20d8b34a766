"""What the guard of a call in the tier `limited` sees to from outside: the call's private folder, and its bounds."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan
from foregate.agent.sandbox.removal import remove_at
from foregate.agent.sandbox.system_calls import StepFailed, name_step
from foregate.agent.sandbox.written import WrittenPaths

_PAUSE = 0.1
"""Seconds between two counts of processes."""
_MOST_FILES = 65536


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


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
