"""Namespaces of a process's own: users, mounts, processes, networks, and who it is in them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from foregate.agent.sandbox.system_calls import PR_SET_DUMPABLE, StepFailed, call, name_step

NEW_MOUNTS, _NEW_NAMES, _NEW_IPC = 0x20000, 0x4000000, 0x8000000
_NEW_USERS, _NEW_PROCESSES, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_ALL = NEW_MOUNTS | _NEW_NAMES | _NEW_IPC | _NEW_USERS | _NEW_PROCESSES | _NEW_NETWORK
# CAP_SETGID, CAP_SETUID, and CAP_SETFCAP, without which a map may not hold user 0 of the namespace above.
_TO_MAP_ALL = 1 << 6 | 1 << 7 | 1 << 31


def enter_namespaces() -> None:
    """Leave the namespaces of the machine for new ones; the *next* child is the first process of the new ones.

    Who may map every user maps every user to itself, so that files show their owners; anybody else only themselves.
    Raises StepFailed. The process must have one thread.
    """
    # A process that dropped its user, or came from one that cannot be traced, does not own its files in /proc.
    call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    user, group = os.geteuid(), os.getegid()
    if not _can_map_all():
        _unshare()
        with name_step("map", "the user could not be mapped into the sandbox"):
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    else:
        _unshare_and_be_mapped()
    call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)


def _can_map_all() -> bool:
    effective = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    return effective is not None and int(effective[1], 16) & _TO_MAP_ALL == _TO_MAP_ALL


def _unshare() -> None:
    with name_step("namespaces", "the system refused namespaces of its own to the sandbox"):
        call("unshare", _ALL)


def _unshare_and_be_mapped() -> None:
    """Enter the namespaces while a child that stays outside writes the maps: from inside, nobody may."""
    process = os.getpid()
    begin, entered = os.pipe()
    writer = os.fork()
    if writer == 0:
        failed = 255
        try:
            os.close(entered)
            maps = read_identity_maps()
            if os.read(begin, 1):
                write_maps(process, maps)
                failed = 0
        except OSError as error:
            failed = error.errno or 255
        finally:
            os._exit(failed)
    os.close(begin)
    try:
        _unshare()
        os.write(entered, b"x")
    finally:
        os.close(entered)
        failed = os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1])
    if failed:
        raise StepFailed("map", failed, f"the users could not be mapped into the sandbox: {os.strerror(failed)}")


def read_identity_maps() -> dict[str, bytes]:
    """Return the maps that map each user and group that exists in this namespace to itself, by the names of files."""
    maps = {}
    for name in ("uid_map", "gid_map"):
        lines = [line.split() for line in Path(f"/proc/self/{name}").read_bytes().splitlines()]
        maps[name] = b"".join(b"%b %b %b\n" % (first, first, count) for first, _, count in lines)
    return maps


def write_maps(process: int, maps: Mapping[str, bytes]) -> None:
    """Give the namespace of a process its users and groups. Raises OSError."""
    for name, lines in maps.items():
        file = os.open(f"/proc/{process}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, lines)
        finally:
            os.close(file)
