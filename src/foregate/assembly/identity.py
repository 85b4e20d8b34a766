"""Who works with Foregate here: the operating system's user and host."""

from __future__ import annotations

import socket
import sys

from foregate.agent.session.permissions import find_user
from foregate.schemas.identity import Identity, Via, name_person


def find_identity(via: Via = "", user: str = "") -> Identity:
    """Return who runs this process, or the `user` whom the caller has authenticated; `via` "" for what it runs at."""
    return name_person(user or find_user(), socket.gethostname(), via or find_way())


def find_way() -> Via:
    """Return whether a person types here, or a program has started this one."""
    typed = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    return "terminal" if typed else "program"
