"""A filter that forbids namespaces and mounts to a process and all it starts, as many containers do."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_NUMBERS = {
    "x86_64": {"unshare": 272, "setns": 308, "mount": 165, "pivot_root": 155, "clone": 56},
    "aarch64": {"unshare": 97, "setns": 268, "mount": 40, "pivot_root": 41, "clone": 220},
}
_EVERYWHERE = {"fsopen": 430, "open_tree": 428, "move_mount": 429}
_CLONE3, _NEW_NAMESPACES = 435, 0x7E020000
_LOAD, _IF_EQUAL, _IF_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def forbid_namespaces() -> None:
    """Put this process and its later children under the filter; raise OSError where that is refused."""
    numbers = {**_NUMBERS[os.uname().machine], **_EVERYWHERE}
    clone, refused = numbers.pop("clone"), (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    program = [(_LOAD, 0, 0, 0)]
    for number in numbers.values():
        program += [(_IF_EQUAL, 0, 1, number), refused]
    program += [(_IF_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
    program += [(_IF_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_IF_SET, 0, 1, _NEW_NAMESPACES), refused]
    program.append((_RETURN, 0, 0, _ALLOW))
    packed = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    library = ctypes.CDLL(None, use_errno=True)
    for words in (
        (_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_FILTER, _FILTER, ctypes.byref(_Program(len(program), packed)), 0, 0),
    ):
        if library.prctl(*words):
            raise OSError(ctypes.get_errno(), "the filter cannot be loaded")
