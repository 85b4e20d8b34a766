"""The powers of root, given up for good by a process and all it will start."""

from __future__ import annotations

import ctypes
import errno
from contextlib import suppress

from foregate.agent.sandbox.system_calls import call, name_step

_DROP_FROM_BOUND, _SET_SECURE_BITS, _SET_NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR_AMBIENT = 24, 28, 38, 47, 4
# No powers for user 0, none kept when the user changes, none ambient; each bit is locked by the bit after it.
_SECURE_BITS = 0b11101111
_VERSION_3 = 0x20080522
_LAST_POSSIBLE = 63


def drop_capabilities() -> None:
    """Give up every capability and every way to one: bounding and ambient set, programs owned by root, setuid.

    Who has not the power to lock these ways is held on them by `no_new_privs` alone. Raises StepFailed.
    """
    with name_step("capabilities", "the capabilities could not be dropped"):
        call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        call("prctl", _AMBIENT, _CLEAR_AMBIENT, 0, 0, 0)
        with suppress(PermissionError):
            call("prctl", _SET_SECURE_BITS, _SECURE_BITS, 0, 0, 0)
            for capability in range(_LAST_POSSIBLE + 1):
                try:
                    call("prctl", _DROP_FROM_BOUND, capability, 0, 0, 0)
                except OSError as error:
                    if error.errno != errno.EINVAL or capability == 0:
                        raise
                    # The kernel has no more.
                    break
        header = ctypes.create_string_buffer(_VERSION_3.to_bytes(4, "little") + bytes(4), 8)
        call("capset", header, ctypes.create_string_buffer(24))
