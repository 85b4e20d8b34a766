"""Runs the zygote in an interpreter of its own, `python -IS zygote.py`: of Foregate only this folder is there."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from types import ModuleType

parts = ["foregate", "agent", "sandbox"]
for end in range(1, len(parts) + 1):
    sys.modules[".".join(parts[:end])] = package = ModuleType(parts[end - 1])
    package.__path__ = [os.path.dirname(__file__)] if end == len(parts) else []  # noqa: PTH120

from foregate.agent.sandbox.forking import CONTROL, Zygote  # noqa: E402

if __name__ == "__main__":
    os.setsid()
    os.chdir("/")
    os.set_inheritable(CONTROL, False)
    os.closerange(CONTROL + 1, os.sysconf("SC_OPEN_MAX"))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # The kernel lets nobody handle these two.
    for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(each, signal.SIG_DFL)
    # What a collection touches is copied in every child.
    gc.disable()
    Zygote(socket.socket(fileno=CONTROL)).serve()
