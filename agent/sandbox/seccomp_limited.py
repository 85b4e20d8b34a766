"""The filter of the tier `limited`, which has no namespaces: it also holds what this kernel's Landlock leaves open."""

from __future__ import annotations

import errno
import os

from foregate.agent.sandbox.bpf import (
    ALLOW,
    AND,
    IF_EQUAL,
    IF_SET,
    LOAD,
    Instruction,
    assemble,
    give,
    low,
    none_of,
    only,
    refuse_with,
    when_called,
)
from foregate.agent.sandbox.landlock import HOLDS_SIGNALS_SINCE, HOLDS_TRUNCATION_SINCE
from foregate.agent.sandbox.seccomp import refuse_always

TRAITS = (  # noqa: SIM905 - grouped by what they set
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat "
    "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr"
).split()
"""What sets modes, owners, times and attributes of a file, also of one that is only read."""
BEYOND = (  # noqa: SIM905 - grouped by what they reach
    # Sockets, also those behind a path; a pair needs none of these.
    "socket connect bind listen accept accept4 "
    # Memory, semaphores and messages that all processes of a user share.
    "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink "
    # Names of files that change anywhere, and processes of the user that are elsewhere.
    "inotify_init inotify_init1 process_mrelease ioprio_set"
).split()
OWN_ONLY = {
    "prlimit64": (0,),
    "setpriority": (0, 1),
    "sched_setaffinity": (0,),
    "sched_setattr": (0,),
    "sched_setparam": (0,),
    "sched_setscheduler": (0,),
}
"""What sets bounds and priorities of a process by number, and the arguments that must be 0 so that it is the own."""
# F_SETOWN, F_SETSIG and F_SETOWN_EX aim signals; F_SETLEASE makes whoever opens a file wait.
REFUSED_CONTROLS = (8, 10, 15, 1024)
# Of terminals what they are asked and their modes, of descriptors what concerns only them, of files what they are
# asked and shared copies (FICLONE, FICLONERANGE). A file's flags can be set, and volumes made, by one only read.
ALLOWED_CONTROLS = (
    *(0x5401, 0x5402, 0x5403, 0x5404, 0x540F, 0x5410, 0x5411, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451),
    *(0x802C542A, 0x80086601, 0x801C581F, 0xC020660B, 0x40049409, 0x4020940D),
)
_BY_NUMBER = ("tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_DENIED = give(refuse_with(errno.EPERM))


def build_limited_filter(landlock: int, process: int) -> bytes:
    """Return the program for this machine and a version of Landlock. Raises StepFailed where its calls are not known.

    Where Landlock does not hold signals, they pass to `process` and its group alone, and to its threads.
    """
    program = refuse_always()
    for name in (*TRAITS, *BEYOND):
        program += when_called(name, _DENIED)
    for name, arguments in OWN_ONLY.items():
        body: list[Instruction] = []
        for argument in arguments:
            body += [(LOAD, 0, 0, low(argument)), (IF_EQUAL, 1, 0, 0), _DENIED]
        program += when_called(name, *body, give(ALLOW))
    program += when_called("fcntl", (LOAD, 0, 0, low(1)), *none_of(*REFUSED_CONTROLS, refusal=errno.EPERM))
    program += when_called("ioctl", (LOAD, 0, 0, low(1)), *only(*ALLOWED_CONTROLS, refusal=errno.ENOTTY))
    if landlock < HOLDS_TRUNCATION_SINCE:
        program += _refuse_truncation()
    if landlock < HOLDS_SIGNALS_SINCE:
        for name in _BY_NUMBER:
            program += when_called(name, _DENIED)
        group = -process & 0xFFFFFFFF
        program += when_called("kill", (LOAD, 0, 0, low(0)), *only(0, process, group, refusal=errno.EPERM))
        program += when_called("tgkill", (LOAD, 0, 0, low(0)), *only(process, refusal=errno.EPERM))
    return assemble([*program, give(ALLOW)])


def _refuse_truncation() -> list[Instruction]:
    """Return what refuses to empty a file by its path, or while opening it for anything but writing."""
    program = [*when_called("truncate", _DENIED), *when_called("openat2", give(refuse_with(errno.ENOSYS)))]
    for name, flags in (("open", 1), ("openat", 2)):
        program += when_called(
            name,
            (LOAD, 0, 0, low(flags)),
            (IF_SET, 1, 0, os.O_TRUNC),
            give(ALLOW),
            (AND, 0, 0, os.O_ACCMODE),
            *only(os.O_WRONLY, os.O_RDWR, refusal=errno.EPERM),
        )
    return program
