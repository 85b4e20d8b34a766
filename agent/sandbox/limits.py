"""What a process and all it starts give up for good: the powers of root, and more than their share of the machine."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
from contextlib import suppress

from foregate.agent.sandbox.plan import ProcessLimits
from foregate.agent.sandbox.system_calls import call, name_step

_OWN_NUMBERS_SINCE = (6, 14)
# The kernel takes no lower bound.
_FEWEST_NUMBERS = 301


def limit_resources(limits: ProcessLimits) -> None:
    """Bound this process and all it starts; a bound that is already lower stays. Raises StepFailed."""
    bounds = {
        # Data, not address space: many programs reserve far more than they use.
        resource.RLIMIT_DATA: limits.get("memory_bytes"),
        resource.RLIMIT_NPROC: limits.get("processes"),
        resource.RLIMIT_FSIZE: limits.get("file_bytes"),
        resource.RLIMIT_NOFILE: limits.get("open_files"),
        resource.RLIMIT_CPU: limits.get("processor_seconds"),
        resource.RLIMIT_CORE: 0,
    }
    with name_step("limits", "the limits of the sandbox could not be set"):
        for kind, bound in bounds.items():
            if bound is not None:
                hard = resource.getrlimit(kind)[1]
                least = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
                resource.setrlimit(kind, (least, least))


def limit_process_numbers(proc: int, most: int) -> None:
    """Bound the processes of this namespace also for root, whom the resource limit does not hold; 0 is no bound.

    `proc` is a writable /proc of the namespace. Before Linux 6.14 the numbers are those of the machine, and root is
    held by nothing here.
    """
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if not most or os.geteuid() != 0 or release is None:
        return
    if (int(release[1]), int(release[2])) >= _OWN_NUMBERS_SINCE:
        numbers = os.open("sys/kernel/pid_max", os.O_WRONLY, dir_fd=proc)
        try:
            os.write(numbers, str(max(most, _FEWEST_NUMBERS)).encode())
        finally:
            os.close(numbers)


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
