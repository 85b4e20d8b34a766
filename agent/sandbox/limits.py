"""What a command may use up: memory, processes, the size of a file, open files, time of the processor."""

from __future__ import annotations

import os
import re
import resource

from foregate.agent.sandbox.plan import ProcessLimits
from foregate.agent.sandbox.system_calls import name_step

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
