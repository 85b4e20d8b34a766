"""What a process and all it starts give up for good: powers of root, system calls, files, and more than their share."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import struct
from collections.abc import Iterable
from contextlib import closing, suppress

from foregate.agent.sandbox.plan import ProcessLimits
from foregate.agent.sandbox.system_calls import MACHINE, StepFailed, call, name_step, number_of

Instruction = tuple[int, int, int, int]

# Load a word, and with a mask, jump if equal, jump if at least, jump if a bit is set, return.
LOAD, AND, IF_EQUAL, IF_AT_LEAST, IF_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
NUMBER, ARCHITECTURE = 0, 4
_SET_MODE_FILTER = 1
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
EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_DEVICES = 1 << 6 | 1 << 11
_MOVE, _TRUNCATE, _CONTROL_DEVICES = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE | READ | _TRUNCATE | _CONTROL_DEVICES
# Without it, no rule can allow to move a file from folder to folder.
_MOVE_SINCE = 2
HOLDS_TRUNCATION_SINCE, _NETWORK_SINCE, _CONTROL_SINCE, HOLDS_SIGNALS_SINCE = 3, 4, 5, 6
_ASK_VERSION = 1
_BENEATH_PATH = 1
_OWN_NUMBERS_SINCE = (6, 14)
# The kernel takes no lower bound.
_FEWEST_NUMBERS = 301


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


def has_landlock() -> bool:
    """Whether this kernel has Landlock and it is turned on."""
    return find_version() > 0


def find_version() -> int:
    """Return the version of Landlock, 0 for none."""
    try:
        return call("landlock_create_ruleset", None, 0, _ASK_VERSION)
    except OSError:
        return 0


def list_all_rights(version: int) -> int:
    """Return every right on files a version of Landlock can refuse."""
    rights = _MOVE - 1
    for right, since in ((_MOVE, _MOVE_SINCE), (_TRUNCATE, HOLDS_TRUNCATION_SINCE), (_CONTROL_DEVICES, _CONTROL_SINCE)):
        rights |= right if version >= since else 0
    return rights


class LandlockRules:
    """What stays allowed of the rights that are `handled`: those granted, each with all that lies beneath a file.

    With `alone` there are also no ports, and no signals and abstract sockets of others, as far as `version` goes.
    """

    def __init__(self, version: int, handled: int, *, alone: bool = False) -> None:
        self._handled = handled
        ports = 3 if alone and version >= _NETWORK_SINCE else 0
        others = 3 if alone and version >= HOLDS_SIGNALS_SINCE else 0
        self._rules = call("landlock_create_ruleset", struct.pack("=QQQ", handled, ports, others), 24, 0)

    def grant(self, file: int, rights: int, *, folder: bool = True) -> None:
        """Allow rights on an open file, and where that is a folder on all that lies beneath it."""
        granted = rights & self._handled & (-1 if folder else _OF_FILES)
        call("landlock_add_rule", self._rules, _BENEATH_PATH, struct.pack("=Qi", granted, file), 0)

    def enforce(self) -> None:
        """Hold this process and all it starts. Needs `no_new_privs`."""
        call("landlock_restrict_self", self._rules, 0)

    def close(self) -> None:
        """Let go of the rules; a process they hold stays held."""
        os.close(self._rules)


def allow_writing_only_in(folders: Iterable[str]) -> None:
    """Refuse this process and all it starts to write elsewhere, where the kernel can.

    It is a second lock: a read-only mount does not stop writing to a named pipe, behind which a process of the machine
    may read. Needs `no_new_privs`; raises StepFailed.
    """
    version = find_version()
    if not version:
        return
    handled = list_all_rights(version) & (WRITE | _MOVE)
    with (
        name_step("landlock", "the rules of Landlock could not be set"),
        closing(LandlockRules(version, handled)) as rules,
    ):
        for path in folders:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rules.grant(folder, handled)
            os.close(folder)
        rules.enforce()


def require_landlock() -> int:
    """Return the version of Landlock; raise StepFailed without it."""
    if version := find_version():
        return version
    raise StepFailed("landlock", 0, "this kernel has no Landlock, or it is turned off")


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
