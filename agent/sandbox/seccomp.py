"""The filter of system calls: what no command in a sandbox may ask of the kernel, assembled as BPF by hand."""

from __future__ import annotations

import ctypes
import errno
import struct

from foregate.agent.sandbox.system_calls import MACHINE, call, name_step, number_of

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_SET_MODE_FILTER = 1

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

# Instructions: load a word, and with a mask, jump if equal, jump if at least, jump if a bit is set, return.
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _IF_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4

Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_with(number: int) -> int:
    """Return the verdict that lets a call fail with this errno."""
    return 0x00050000 | number


def _low(argument: int) -> int:
    """Return where the low half of an argument is; both machines are little-endian."""
    return 16 + 8 * argument


def _return(verdict: int) -> Instruction:
    return _RETURN, 0, 0, verdict


def _when_called(name: str, *body: Instruction) -> list[Instruction]:
    """Return what is done for one system call; `body` must end in a verdict. Nothing where it does not exist."""
    number = number_of(name)
    return [] if number is None else [(_IF_EQUAL, 0, len(body), number), *body]


def _only(*values: int, refusal: int) -> list[Instruction]:
    """Return a verdict: the loaded word must be one of the values."""
    tests = [(_IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, _return(refuse_with(refusal)), _return(_ALLOW)]


def build_filter(*, unix_sockets: bool = False) -> bytes:
    """Return the program for this machine. Raises StepFailed where its system calls are not known.

    A call of another architecture ends the process. Of sockets there are pairs of streams, and those of IP and of
    routes, which reach nothing from an empty network. A Unix socket could be connected to any path that is seen, and
    a pair of datagrams turned to one, so neither exists but where a sandbox is given `unix_sockets`.
    """
    denied = _return(refuse_with(errno.EPERM))
    program: list[Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE)]
    number_of("clone")  # which knows whether the machine is one of the two
    program += [(_IF_EQUAL, 1, 0, _ARCHITECTURES[MACHINE]), _return(_KILL), (_LOAD, 0, 0, _NUMBER)]
    if MACHINE == "x86_64":
        program += [(_IF_AT_LEAST, 0, 1, _X32), _return(refuse_with(errno.ENOSYS))]
    for name in REFUSED:
        program += _when_called(name, denied)
    # The flags of clone3 lie in memory, which a filter cannot read; the C library then uses clone.
    program += _when_called("clone3", _return(refuse_with(errno.ENOSYS)))
    program += _when_called("clone", (_LOAD, 0, 0, _low(0)), (_IF_SET, 0, 1, NEW_NAMESPACES), denied, _return(_ALLOW))
    controls = [(_IF_EQUAL, len(REFUSED_CONTROLS) - place, 0, at) for place, at in enumerate(REFUSED_CONTROLS)]
    program += _when_called("ioctl", (_LOAD, 0, 0, _low(1)), *controls, _return(_ALLOW), denied)
    program += _when_called(
        "socket",
        (_LOAD, 0, 0, _low(0)),
        (_IF_EQUAL, 0, 1, _UNIX),
        _return(_ALLOW) if unix_sockets else denied,
        (_IF_EQUAL, 0, 4, _NETLINK),
        (_LOAD, 0, 0, _low(2)),
        *_only(_ROUTE, refusal=errno.EPROTONOSUPPORT),
        *_only(_INET, _INET6, refusal=errno.EAFNOSUPPORT),
    )
    program += _when_called(
        "socketpair",
        (_LOAD, 0, 0, _low(0)),
        (_IF_EQUAL, 1, 0, _UNIX),
        denied,
        (_LOAD, 0, 0, _low(1)),
        (_AND, 0, 0, _TYPE_MASK),
        *_only(_STREAM, _SEQPACKET, refusal=errno.EPERM),
    )
    program.append(_return(_ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def load_filter(program: bytes) -> None:
    """Put this process and all it starts under the filter. Needs `no_new_privs`; raises StepFailed."""
    with name_step("seccomp", "the filter of system calls could not be loaded"):
        call("seccomp", _SET_MODE_FILTER, 0, _Program(len(program) // 8, program))
