"""The private folder of a call in the tier `limited`: made before it, and gone after it, however it ended."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.removal import remove_at
from foregate.agent.sandbox.system_calls import StepFailed

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
