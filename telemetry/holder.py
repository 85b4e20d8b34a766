"""Who holds a session: a process of this machine, and the mark that stays locked while anything of it runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

_PROC = Path("/proc")
_MARKS = "holders"
HolderStanding = Literal["alive", "ending", "gone"]
"""A holder runs; it has ended, but something it started has not yet; or nothing of it runs any more."""


class LeaseHolder(Struct, frozen=True):
    """A process: its number, when it started (in ticks of its kernel, "" where that cannot be told), its machine.

    `place` names the boot and the process namespace, because a number means something only inside both.
    """

    pid: int
    started: str
    boot: str
    place: str

    def find_standing(self, folder: Path) -> HolderStanding:
        """Return whether the process still runs, or something it started; `folder` is where it would have its mark.

        One of another container that left no mark cannot be seen, and counts as alive.
        """
        # The machine was started again since: no process of then runs.
        if self.boot != _read_boot():
            return "gone"
        marked = is_marked(folder / _MARKS / self.mark)
        if self.place != _read_namespace():
            return "gone" if marked is False else "alive"
        return "alive" if self._answers else "ending" if marked else "gone"

    @property
    def mark(self) -> str:
        """The name of the file the process keeps locked; no other process of this boot has the same."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:32]

    @property
    def _answers(self) -> bool:
        """Whether a process of this container still runs."""
        if not _PROC.joinpath("self/stat").exists():
            try:
                os.kill(self.pid, 0)
            except OSError as error:
                # A process that may not be signalled is there.
                return not isinstance(error, ProcessLookupError)
            return True
        return read_start_time(self.pid) == self.started != ""

    @property
    def description(self) -> str:
        """The process as a person would look for it."""
        if self.pid == os.getpid() and self.place == _read_namespace():
            return f"this process ({self.pid})"
        return f"process {self.pid}" if self.place == _read_namespace() else f"process {self.pid} of another container"


def get_own_holder() -> LeaseHolder:
    """Return the running process."""
    return LeaseHolder(os.getpid(), read_start_time(os.getpid()), _read_boot(), _read_namespace())


def read_start_time(pid: int) -> str:
    """Return the start time of a running process in kernel ticks, "" for one that is missing or has died."""
    try:
        text = _PROC.joinpath(str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The program's name stands in brackets before these fields, and may hold blanks and brackets itself.
    fields = text.rpartition(")")[2].split()
    # A process in one of these states is dead, and its parent has not asked for its end yet.
    return "" if len(fields) < 20 or fields[0] in ("Z", "X", "x") else fields[19]


@lru_cache(maxsize=1)
def _read_boot() -> str:
    """Return what changes with each start of the machine; its name where the kernel does not tell."""
    try:
        return _PROC.joinpath("sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


@lru_cache(maxsize=1)
def _read_namespace() -> str:
    """Return the process namespace, "" where there are none."""
    try:
        return str(_PROC.joinpath("self/ns/pid").readlink())
    except OSError:
        return ""


class HolderMark:
    """A file in the folder of a log that this process keeps locked; it stays locked while any copy of it is open.

    Where the file system knows no locks none is taken, and this process counts as alive in other containers.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = -1
        path = folder / _MARKS / get_own_holder().mark
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            # Somebody may sweep it in between.
            while self._descriptor < 0 or not is_same_file(path, self._descriptor):
                self.close()
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            _held[self._descriptor] = os.getpid()

    def close(self) -> None:
        """Let go of the file; doing it twice is harmless."""
        if self._descriptor >= 0:
            _held.pop(self._descriptor, None)
            os.close(self._descriptor)
            self._descriptor = -1


_held: dict[int, int] = {}
"""The process of each open mark, by its descriptor: a fork is not the process it was forked from."""


def list_marks() -> list[int]:
    """Return the descriptors that keep this process's marks locked, for whatever it starts to keep them open too."""
    return [descriptor for descriptor, owner in list(_held.items()) if owner == os.getpid()]


def is_marked(path: Path) -> bool | None:
    """Whether anybody keeps a mark locked; None where there is no such mark."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def sweep_marks(folder: Path, named: Collection[str]) -> None:
    """Remove the marks nobody keeps locked, but those a lease still names: they prove that its holder has gone."""
    with suppress(OSError):
        for path in [path for path in (folder / _MARKS).iterdir() if path.name not in named]:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            os.close(descriptor)


def is_same_file(path: Path, descriptor: int) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False
