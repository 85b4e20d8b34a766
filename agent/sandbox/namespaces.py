"""Namespaces of a process's own: users, mounts, processes, networks, and who it is in them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping

from foregate.agent.sandbox.system_calls import PR_SET_DUMPABLE, call, name_step

NEW_MOUNTS, _NEW_NAMES, _NEW_IPC = 0x20000, 0x4000000, 0x8000000
_NEW_USERS, _NEW_PROCESSES, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_ALL = NEW_MOUNTS | _NEW_NAMES | _NEW_IPC | _NEW_USERS | _NEW_PROCESSES | _NEW_NETWORK
# CAP_SETGID, CAP_SETUID, and CAP_SETFCAP, without which a map may not hold user 0 of the namespace above.
_TO_MAP_ALL = 1 << 6 | 1 << 7 | 1 << 31


def fork_into_namespaces(run: Callable[[], object]) -> int:
    """Fork a child that is the first process of new namespaces, and runs a function there; return its number.

    Who may map every user maps every user to itself, so that files show their owners; anybody else only themselves.
    This process stays where it is, so that it can write the maps: from inside, nobody may map all. Raises StepFailed,
    and the child it has made is gone then. The process must have one thread.
    """
    # A process that dropped its user, or came from one that cannot be traced, does not own its files in /proc.
    call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    maps = _read_maps()
    mapped, tell = os.pipe()
    with name_step("namespaces", "the system refused namespaces of its own to the sandbox"):
        # `os.fork` cannot do this, and `unshare` would take another process that writes the maps from outside.
        child = call("clone", _ALL | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        try:
            os.close(tell)
            if os.read(mapped, 1):
                os.close(mapped)
                call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
                run()
        finally:
            # Nothing may return into the caller's half of the fork.
            os._exit(1)
    os.close(mapped)
    try:
        with name_step("map", "the users could not be mapped into the sandbox"):
            _write_maps(child, maps)
        os.write(tell, b"x")
        call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(tell)
    return child


def _read_maps() -> dict[str, bytes]:
    """Return what the maps of a new namespace are to hold, by the names of their files, in the order of writing."""
    if _can_map_all():
        return {name: _read_identity_map(name) for name in ("uid_map", "gid_map")}
    user, group = os.geteuid(), os.getegid()
    return {"setgroups": b"deny", "uid_map": b"%d %d 1" % (user, user), "gid_map": b"%d %d 1" % (group, group)}


def _can_map_all() -> bool:
    effective = re.search(rb"CapEff:\s*(\w+)", _read("/proc/self/status"))
    return effective is not None and int(effective[1], 16) & _TO_MAP_ALL == _TO_MAP_ALL


def _read_identity_map(name: str) -> bytes:
    """Return the map that maps each user or group that exists in this namespace to itself."""
    lines = (line.split() for line in _read(f"/proc/self/{name}").splitlines())
    return b"".join(b"%b %b %b\n" % (first, first, count) for first, _, count in lines)


def _read(path: str) -> bytes:
    with open(path, "rb", 0) as file:  # noqa: PTH123 - for each call
        return file.read()


def _write_maps(process: int, maps: Mapping[str, bytes]) -> None:
    for name, lines in maps.items():
        file = os.open(f"/proc/{process}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, lines)
        finally:
            os.close(file)
