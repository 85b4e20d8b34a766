"""Who holds a session: one process, told apart from a later one that happens to get the same number."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")


class LeaseHolder(Struct, frozen=True):
    """A process: its number, when it started (in ticks of its kernel, "" where that cannot be told), its machine.

    `place` names the boot and the process namespace, because a number means something only inside both.
    """

    pid: int
    started: str
    boot: str
    place: str

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs. One we cannot see, in another container of this boot, counts as alive."""
        if self.boot != _read_boot():
            return False
        if self.place != _read_namespace():
            return True
        if not _PROC.joinpath("self/stat").exists():
            return _is_answering(self.pid)
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
    """Return the start time of a running process in kernel ticks, "" when there is none or it has already died."""
    try:
        text = _PROC.joinpath(str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if len(fields) < 20 or fields[0] in ("Z", "X", "x") else fields[19]


def _is_answering(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


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
