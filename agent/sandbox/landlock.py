"""Landlock as a second lock: nothing is opened for writing outside the scratch folders, whatever kind of file it is.

A read-only mount does not stop writing to a named pipe, behind which a process of the machine may read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from foregate.agent.sandbox.system_calls import call, name_step

_ASK_VERSION = 1
_BENEATH_PATH = 1
_WRITE, _MOVE = 1 << 1, 1 << 13
_MOVE_SINCE = 2  # without it, no rule can allow to move a file from folder to folder


def has_landlock() -> bool:
    """Whether this kernel has Landlock and it is turned on."""
    return _get_version() > 0


def _get_version() -> int:
    try:
        return call("landlock_create_ruleset", None, 0, _ASK_VERSION)
    except OSError:
        return 0


def allow_writing_only_in(folders: Iterable[str]) -> None:
    """Refuse this process and all it starts to write elsewhere, where the kernel can.

    Needs `no_new_privs`; raises StepFailed.
    """
    version = _get_version()
    if not version:
        return
    handled = _WRITE | (_MOVE if version >= _MOVE_SINCE else 0)
    with name_step("landlock", "the rules of Landlock could not be set"):
        rules = call("landlock_create_ruleset", struct.pack("=Q", handled), 8, 0)
        for path in folders:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            call("landlock_add_rule", rules, _BENEATH_PATH, struct.pack("=Qi", handled, folder), 0)
            os.close(folder)
        call("landlock_restrict_self", rules, 0)
        os.close(rules)
