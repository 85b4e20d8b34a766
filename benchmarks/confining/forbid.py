"""A filter that forbids namespaces and mounts to a process and all it starts, as many containers do."""

from __future__ import annotations

import errno
import struct

from foregate.agent.sandbox.seccomp import NEW_NAMESPACES, load_filter, refuse_with
from foregate.agent.sandbox.system_calls import call, number_of

_LOAD, _IF_EQUAL, _IF_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW = 0x7FFF0000
_NO_NEW_PRIVILEGES = 38


def forbid_namespaces() -> None:
    """Put this process and its later children under the filter."""
    refused = _RETURN, 0, 0, refuse_with(errno.EPERM)
    program = [(_LOAD, 0, 0, 0)]
    for name in ("unshare", "setns", "mount", "pivot_root", "fsopen", "open_tree", "move_mount"):
        program += [(_IF_EQUAL, 0, 1, number_of(name) or 0), refused]
    program += [(_IF_EQUAL, 0, 1, number_of("clone3") or 0), (_RETURN, 0, 0, refuse_with(errno.ENOSYS))]
    program += [(_IF_EQUAL, 0, 3, number_of("clone") or 0), (_LOAD, 0, 0, 16), (_IF_SET, 0, 1, NEW_NAMESPACES), refused]
    program.append((_RETURN, 0, 0, _ALLOW))
    call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    load_filter(b"".join(struct.pack("<HBBI", *instruction) for instruction in program))
