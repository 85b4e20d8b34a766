"""Whatever descends from a process: caught when it loses its parent, listed, buried and killed."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE)
"""The signals that merely wake a process that watches its children."""
_PR_SET_CHILD_SUBREAPER = 36
_LIBRARY = ctypes.CDLL(None)


def watch_children() -> int:
    """Become the parent of whatever loses its own here; return what can be read once a child has ended."""
    # Elsewhere than on Linux what goes to the background is not caught.
    with suppress(AttributeError, OSError):
        _LIBRARY.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    # Who ends this process is Foregate, by closing its end.
    for number in HANDLED:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    return woken


def reap_children() -> dict[int, int]:
    """Return the status of each child that has ended."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def kill_tree(pid: int, program: int) -> None:
    """Kill whatever descends from a process, and the group of a program, which is all that is known without /proc."""
    for one in list_tree(pid):
        with suppress(OSError):
            os.kill(one, signal.SIGKILL)
    with suppress(OSError):
        if program:
            os.killpg(program, signal.SIGKILL)


def list_children(pid: int) -> list[int]:
    """Return the children of a process, none where the system does not tell."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib takes long to import
            with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123
                found += [int(word) for word in file.read().split()]
    return found


def list_tree(pid: int) -> list[int]:
    """Return whatever descends from a process, without itself."""
    found = list_children(pid)
    for child in found:
        found += list_children(child)
    return found
