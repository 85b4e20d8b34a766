"""Landlock: what a process and all it starts may do with files, by the folders they lie in, and nothing it can undo."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from contextlib import closing

from foregate.agent.sandbox.system_calls import StepFailed, call, name_step

EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_DEVICES = 1 << 6 | 1 << 11
_MOVE, _TRUNCATE, _CONTROL_DEVICES = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE | READ | _TRUNCATE | _CONTROL_DEVICES
# Without it, no rule can allow to move a file from folder to folder.
_MOVE_SINCE = 2
HOLDS_TRUNCATION_SINCE, _NETWORK_SINCE, _CONTROL_SINCE, HOLDS_SIGNALS_SINCE = 3, 4, 5, 6
_ASK_VERSION = 1
_BENEATH_PATH = 1


def has_landlock() -> bool:
    """Whether this kernel has Landlock and it is turned on."""
    return find_version() > 0


def find_version() -> int:
    """Return the version of Landlock, 0 for none."""
    try:
        return call("landlock_create_ruleset", None, 0, _ASK_VERSION)
    except OSError:
        return 0


def list_all_rights(version: int) -> int:
    """Return every right on files a version of Landlock can refuse."""
    rights = _MOVE - 1
    for right, since in ((_MOVE, _MOVE_SINCE), (_TRUNCATE, HOLDS_TRUNCATION_SINCE), (_CONTROL_DEVICES, _CONTROL_SINCE)):
        rights |= right if version >= since else 0
    return rights


class LandlockRules:
    """What stays allowed of the rights that are `handled`: those granted, each with all that lies beneath a file.

    With `alone` there are also no ports, and no signals and abstract sockets of others, as far as `version` goes.
    """

    def __init__(self, version: int, handled: int, *, alone: bool = False) -> None:
        self._handled = handled
        ports = 3 if alone and version >= _NETWORK_SINCE else 0
        others = 3 if alone and version >= HOLDS_SIGNALS_SINCE else 0
        self._rules = call("landlock_create_ruleset", struct.pack("=QQQ", handled, ports, others), 24, 0)

    def grant(self, file: int, rights: int, *, folder: bool = True) -> None:
        """Allow rights on an open file, and where that is a folder on all that lies beneath it."""
        granted = rights & self._handled & (-1 if folder else _OF_FILES)
        call("landlock_add_rule", self._rules, _BENEATH_PATH, struct.pack("=Qi", granted, file), 0)

    def enforce(self) -> None:
        """Hold this process and all it starts. Needs `no_new_privs`."""
        call("landlock_restrict_self", self._rules, 0)

    def close(self) -> None:
        """Let go of the rules; a process they hold stays held."""
        os.close(self._rules)


def allow_writing_only_in(folders: Iterable[str]) -> None:
    """Refuse this process and all it starts to write elsewhere, where the kernel can.

    It is a second lock: a read-only mount does not stop writing to a named pipe, behind which a process of the machine
    may read. Needs `no_new_privs`; raises StepFailed.
    """
    version = find_version()
    if not version:
        return
    handled = list_all_rights(version) & (WRITE | _MOVE)
    with (
        name_step("landlock", "the rules of Landlock could not be set"),
        closing(LandlockRules(version, handled)) as rules,
    ):
        for path in folders:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rules.grant(folder, handled)
            os.close(folder)
        rules.enforce()


def require_landlock() -> int:
    """Return the version of Landlock; raise StepFailed without it."""
    if version := find_version():
        return version
    raise StepFailed("landlock", 0, "this kernel has no Landlock, or it is turned off")
