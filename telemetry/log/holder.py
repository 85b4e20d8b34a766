"""Who holds a session: one process, told apart from a later one that happens to get the same number."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")


class Holder(Struct, frozen=True):
    """A process: its number, when it started (in ticks of its kernel, "" where that cannot be told), its machine.

    `place` names the boot and the process namespace, because a number means something only inside both.
    """

    pid: int
    started: str
    boot: str
    place: str

    @property
    def alive(self) -> bool:
        """Whether the process still runs. One we cannot see, in another container of this boot, counts as alive."""
        if self.boot != _boot():
            return False
        if self.place != _place():
            return True
        if not _PROC.joinpath("self/stat").exists():
            return _answers(self.pid)
        return started(self.pid) == self.started != ""

    @property
    def name(self) -> str:
        """The process as a person would look for it."""
        if self.pid == os.getpid() and self.place == _place():
            return f"this process ({self.pid})"
        return f"process {self.pid}" if self.place == _place() else f"process {self.pid} of another container"


def me() -> Holder:
    """Return the running process."""
    return Holder(os.getpid(), started(os.getpid()), _boot(), _place())


def started(pid: int) -> str:
    """Return the start time of a running process in kernel ticks, "" when there is none or it has already died."""
    try:
        text = _PROC.joinpath(str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if len(fields) < 20 or fields[0] in ("Z", "X", "x") else fields[19]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@lru_cache(maxsize=1)
def _boot() -> str:
    """Return what changes with each start of the machine; its name where the kernel does not tell."""
    try:
        return _PROC.joinpath("sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


@lru_cache(maxsize=1)
def _place() -> str:
    """Return the process namespace, "" where there are none."""
    try:
        return str(_PROC.joinpath("self/ns/pid").readlink())
    except OSError:
        return ""
