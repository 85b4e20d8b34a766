"""Keeping the environment this process was started with from the programs it starts.

A command the agent runs has an environment of its own, but the same user: it may read what its parent was started with
in `/proc/PID/environ`, keys and tokens with it. So on Linux, before anything is started, the strings are overwritten
where the kernel reads them: gone for everybody, also for root. Python has read them into `os.environ` before, and the C
library is given copies of its own, so that the program and its libraries see no difference.

The process is also marked as not dumpable, so that an ordinary user may neither read its memory nor attach to it. Root
may, and nothing a process does to itself prevents that.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
"""Places of `env_start` and `env_end` among the fields of `/proc/PID/stat` that follow the name of the program."""


def hide_environment() -> None:
    """Overwrite the strings this process was started with, and forbid ordinary users to read its memory. Where the
    system offers no way, nothing is touched: the secrets Foregate knows of are masked by value all the same."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    library = ctypes.CDLL(None)
    with suppress(OSError, ValueError, IndexError):
        # First, since a process that is not dumpable may no longer open its own memory as an ordinary user.
        _overwrite_strings(library)
    library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _overwrite_strings(library: Any) -> None:
    """Write zeros over the strings of the environment; raise OSError where the memory cannot be opened.

    This goes through `/proc/self/mem` and not through pointers: a wrong address is an error there, not a crash.
    """
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    block = Path("/proc/self/environ").read_bytes()
    memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        if not block or len(block) != end - start or os.pread(memory, len(block), start) != block:
            return
        # The C library's pointers lead into the block.
        library.clearenv()
        for name, value in os.environb.items():
            if name:
                os.putenv(name, value)
        os.pwrite(memory, bytes(len(block)), start)
    finally:
        os.close(memory)
