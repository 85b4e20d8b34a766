"""The filter of system calls, as a program of BPF: what no command in a sandbox may ask of the kernel."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable

from foregate.agent.sandbox.system_calls import MACHINE, call, name_step, number_of

Instruction = tuple[int, int, int, int]

# Load a word, and with a mask, jump if equal, jump if at least, jump if a bit is set, return.
LOAD, AND, IF_EQUAL, IF_AT_LEAST, IF_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
NUMBER, ARCHITECTURE = 0, 4
_SET_MODE_FILTER = 1


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_with(number: int) -> int:
    """Return the verdict that lets a call fail with this errno."""
    return 0x00050000 | number


def low(argument: int) -> int:
    """Return where the low half of an argument is; both machines are little-endian."""
    return 16 + 8 * argument


def give(verdict: int) -> Instruction:
    """Return the step that ends with a verdict."""
    return _RETURN, 0, 0, verdict


def when_called(name: str, *body: Instruction) -> list[Instruction]:
    """Return what is done for one system call; `body` must end in a verdict. Nothing where it does not exist."""
    number = number_of(name)
    return [] if number is None else [(IF_EQUAL, 0, len(body), number), *body]


def only(*values: int, refusal: int) -> list[Instruction]:
    """Return a verdict: the loaded word must be one of the values."""
    tests = [(IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, give(refuse_with(refusal)), give(ALLOW)]


def none_of(*values: int, refusal: int) -> list[Instruction]:
    """Return a verdict: the loaded word must be none of the values."""
    tests = [(IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, give(ALLOW), give(refuse_with(refusal))]


def assemble(program: Iterable[Instruction]) -> bytes:
    """Return a program as the kernel takes it."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def load_filter(program: bytes) -> None:
    """Put this process and all it starts under the filter. Needs `no_new_privs`; raises StepFailed."""
    with name_step("seccomp", "the filter of system calls could not be loaded"):
        call("seccomp", _SET_MODE_FILTER, 0, _Program(len(program) // 8, program))


_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000

REFUSED = (  # noqa: SIM905 - grouped by what they reach
    # Mounts and namespaces: nothing may be put over what was made read-only.
    "mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick mount_setattr "
    "unshare setns quotactl quotactl_fd swapon swapoff "
    # Other processes, and files by other ways than their names.
    "ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd open_by_handle_at fanotify_init "
    # Parts of the kernel that are not divided into namespaces, or that most of its holes were found in.
    "add_key request_key keyctl bpf io_uring_setup io_uring_enter io_uring_register userfaultfd perf_event_open "
    "kexec_load kexec_file_load init_module finit_module delete_module create_module lookup_dcookie nfsservctl uselib "
    "_sysctl "
    # The machine itself.
    "reboot syslog acct settimeofday clock_settime clock_adjtime sethostname setdomainname iopl ioperm vhangup"
).split()
# TIOCSTI types into a terminal, TIOCLINUX pastes, TIOCCONS takes the console, TIOCSETD changes its discipline.
REFUSED_CONTROLS = (0x5412, 0x541C, 0x541D, 0x5423)
NEW_NAMESPACES = 0x7E020000
_UNIX, _INET, _INET6, _NETLINK, _ROUTE = 1, 2, 10, 16, 0
_STREAM, _SEQPACKET, _TYPE_MASK = 1, 5, 0xF
_DENIED = give(refuse_with(errno.EPERM))


def build_filter(*, unix_sockets: bool = False) -> bytes:
    """Return the program for this machine. Raises StepFailed where its system calls are not known.

    A call of another architecture ends the process. Of sockets there are pairs of streams, and those of IP and of
    routes, which reach nothing from an empty network. A Unix socket could be connected to any visible path, and a pair
    of datagrams turned to one. So neither exists unless a sandbox is given `unix_sockets`.
    """
    program = refuse_always()
    program += when_called("ioctl", (LOAD, 0, 0, low(1)), *none_of(*REFUSED_CONTROLS, refusal=errno.EPERM))
    program += when_called(
        "socket",
        (LOAD, 0, 0, low(0)),
        (IF_EQUAL, 0, 1, _UNIX),
        give(ALLOW) if unix_sockets else _DENIED,
        (IF_EQUAL, 0, 4, _NETLINK),
        (LOAD, 0, 0, low(2)),
        *only(_ROUTE, refusal=errno.EPROTONOSUPPORT),
        *only(_INET, _INET6, refusal=errno.EAFNOSUPPORT),
    )
    return assemble([*program, give(ALLOW)])


def refuse_always() -> list[Instruction]:
    """Return the beginning of a program: what is refused in every sandbox, and of the rest nothing decided."""
    program: list[Instruction] = [(LOAD, 0, 0, ARCHITECTURE)]
    # Which knows whether the machine is one of the two.
    number_of("clone")
    program += [(IF_EQUAL, 1, 0, _ARCHITECTURES[MACHINE]), give(KILL), (LOAD, 0, 0, NUMBER)]
    if MACHINE == "x86_64":
        # The same calls have other numbers there, which no line below would refuse.
        program += [(IF_AT_LEAST, 0, 1, _X32), give(refuse_with(errno.ENOSYS))]
    for name in REFUSED:
        program += when_called(name, _DENIED)
    # The flags of clone3 lie in memory, which a filter cannot read; the C library then uses clone.
    program += when_called("clone3", give(refuse_with(errno.ENOSYS)))
    program += when_called("clone", (LOAD, 0, 0, low(0)), (IF_SET, 0, 1, NEW_NAMESPACES), _DENIED, give(ALLOW))
    return program + when_called(
        "socketpair",
        (LOAD, 0, 0, low(0)),
        (IF_EQUAL, 1, 0, _UNIX),
        _DENIED,
        (LOAD, 0, 0, low(1)),
        (AND, 0, 0, _TYPE_MASK),
        *only(_STREAM, _SEQPACKET, refusal=errno.EPERM),
    )
