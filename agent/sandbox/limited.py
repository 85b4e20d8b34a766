"""The way into the tier `limited`: the program itself gives up what it may do, on a machine without namespaces."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from foregate.agent.sandbox.confine import close_others, lead_session, open_null, take_streams
from foregate.agent.sandbox.plan import ProcessLimits, SandboxCommand, SandboxPlan, build_no_access
from foregate.agent.sandbox.prepared import Base, Prepared, fail, list_above, tell_command, wait_for_command
from foregate.agent.sandbox.restrictions import (
    ALLOW,
    AND,
    EXECUTE,
    HOLDS_SIGNALS_SINCE,
    HOLDS_TRUNCATION_SINCE,
    IF_EQUAL,
    IF_SET,
    LIST,
    LOAD,
    MAKE_DEVICES,
    READ,
    WRITE,
    Instruction,
    LandlockRules,
    assemble,
    drop_capabilities,
    give,
    limit_resources,
    list_all_rights,
    load_filter,
    low,
    none_of,
    only,
    refuse_always,
    refuse_with,
    require_landlock,
    when_called,
)
from foregate.agent.sandbox.system_calls import StepFailed, name_step

_AT_HOME = {"GOMODCACHE": "go/pkg/mod", "PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup"}


def prepare(base: Base) -> Prepared:
    """Fork a process that waits for what `start_prepared` tells it, and then becomes the command.

    The plan must have this base, and all that the base names must still be the same; see `identify_base`. The caller
    has one thread. The process leads a session of its own and is killed when the caller dies; what the command has
    started is for the caller to end, and for whoever reaps after it.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            _become_command(base, theirs)
        finally:
            # Nothing may return into the caller's half of the fork.
            os._exit(1)
    theirs.close()
    return Prepared(child, ours)


def start_prepared(
    prepared: Prepared, plan: SandboxPlan, command: SandboxCommand, streams: Sequence[int], report: int, scratch: str
) -> None:
    """Have the command run in a sandbox that was prepared; `scratch` is its private folder.

    Streams and `report` are as in `confine.start_prepared`. Raises OSError.
    """
    tell_command(prepared.line, plan, command, (*streams, report), scratch=scratch)


class _Ready(NamedTuple):
    """The version of Landlock, what was granted already, and the filter of system calls."""

    landlock: int
    grants: Grants
    program: bytes


def _get_ready(base: Base, line: socket.socket) -> _Ready:
    lead_session(line)
    landlock = require_landlock()
    # Without namespaces a call is ended, and its processes counted, by the tree that is read there.
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        raise StepFailed("tree", 0, "this system does not tell which processes a command has started")
    return _Ready(landlock, grant_base(landlock, base), build_limited_filter(landlock, os.getpid()))


def _become_command(base: Base, line: socket.socket) -> NoReturn:
    given, ready = wait_for_command(line, lambda: _get_ready(base, line))
    plan, command = given.plan, given.command
    try:
        take_streams(given.streams)
        open_null()
        grant_rest(ready.landlock, ready.grants, base, plan, given.scratch)
        with name_step("folder", f"the folder {command['folder']} cannot be entered in the sandbox"):
            os.chdir(command["folder"])
        limit_resources(_leave_room(plan["limits"]))
        environment = _adapt(command["environment"], plan, given.scratch)
        drop_capabilities()
        # From here on Python itself can load nothing more.
        with name_step("landlock", "the rules of Landlock could not be enforced"):
            ready.grants.rules.enforce()
        close_others(given.report)
        load_filter(ready.program)
        with name_step("start", f"{command['program']} cannot be started in the sandbox"):
            os.execve(command["program"], command["argv"], environment)  # noqa: S606 - judged before
    except BaseException as error:
        # Nothing may return into the caller's half of the fork.
        fail(error, given.report)


def _adapt(environment: dict[str, str], plan: SandboxPlan, scratch: str) -> dict[str, str]:
    """Return the environment with the private folders in it, which have no place of their own here.

    What a toolchain looks for in HOME it is told where to find.
    """
    home = {"HOME": f"{scratch}/home"} if environment.get("HOME") == plan["home"] else {}
    places = {name: f"{plan['home']}/{folder}" for name, folder in _AT_HOME.items() if home}
    found = {name: path for name, path in places.items() if path in plan["folders"]}
    return {**found, **environment, **home, "TMPDIR": f"{scratch}/tmp"}  # noqa: S108 - a private one


def _leave_room(limits: ProcessLimits) -> ProcessLimits:
    """Return the limits with a bound of processes that leaves room for those this user already has.

    The kernel counts all of a user's, and tells only how many the machine has; the guard counts those of the call.
    """
    if "processes" not in limits:
        return limits
    running = Path("/proc/loadavg").read_bytes().split()[3].partition(b"/")[2]
    return {**limits, "processes": limits["processes"] + int(running)}


_SEEN = EXECUTE | READ | LIST
_FILES = {
    READ: "/dev/random /dev/urandom /dev/zero",
    READ | WRITE: "/dev/full /dev/null",
    # What the kernel tells about itself and the machine.
    READ | LIST: "/proc/cpuinfo /proc/filesystems /proc/loadavg /proc/meminfo /proc/stat /proc/uptime /proc/version "
    "/proc/vmstat /proc/sys/fs /proc/sys/kernel /proc/sys/vm",
}
# Not its whole folder in /proc, which also shows the network, and never the folders of other processes.
_OWN = "auxv cgroup cmdline comm environ fd fdinfo io limits maps mountinfo mounts smaps smaps_rollup stat statm status"
_ITSELF = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def grant_base(version: int, base: Base) -> Grants:
    """Return what the command of a plan with this base may do with files outside its workspace.

    This process becomes the command. What its children would read of themselves in `/proc` is not among it: no rule can
    name what is not there yet. Raises StepFailed.
    """
    with name_step("landlock", "the rules of Landlock could not be set"):
        grants = Grants(LandlockRules(version, list_all_rights(version), alone=True), base["masks"])
        for rights, names in _FILES.items():
            for path in names.split():
                grants.add(path, rights)
        for name in _OWN.split():
            grants.add(f"/proc/{os.getpid()}/{name}", READ | LIST)
        for path in base["folders"]:
            grants.add(path, _SEEN)
    return grants


def grant_rest(version: int, grants: Grants, base: Base, plan: SandboxPlan, scratch: str) -> None:
    """Grant the command of a plan the rest, above all its workspace.

    The names in a folder that holds a masked path can be listed, and nothing masked can be opened. Raises StepFailed.
    """
    workspace, masks = plan["workspace"], set(plan["masks"])
    if plan["writable"] and (plan["kept"] or any(workspace in list_above(mask) for mask in masks)):
        raise StepFailed(
            "masks", 0, f"nothing in the workspace {workspace} can be held back from a command that writes"
        )
    if plan["upper"] or plan["layers"] or plan["access"] != build_no_access():
        raise StepFailed("access", 0, "without namespaces no copy of the workspace and no access outside can be given")
    grants.mask(masks)
    with name_step("landlock", "the rules of Landlock could not be set"):
        for path in plan["folders"]:
            if path not in base["folders"]:
                grants.add(path, _SEEN)
    every = list_all_rights(version) & ~MAKE_DEVICES
    with name_step("workspace", f"the workspace {workspace} cannot be shown in a sandbox"):
        os.listdir(workspace)  # noqa: PTH208 - pathlib takes long to import
        grants.add(workspace, every if plan["writable"] else _SEEN)
        grants.add(scratch, every)


class Grants:
    """Rules, and the paths that get none."""

    def __init__(self, rules: LandlockRules, masks: Iterable[str]) -> None:
        self.rules = rules
        self.mask(masks)

    def mask(self, masks: Iterable[str]) -> None:
        """Grant nothing of these paths from now on, and of others again."""
        self._masks = set(masks)
        self._holders = {above for mask in self._masks for above in list_above(mask)}

    def add(self, path: str, rights: int, above: int | None = None) -> None:
        """Allow rights on what is at a path, and in it, but for masks and links; nothing where nobody can look.

        Landlock only knows how to allow: a folder that holds a mask is allowed entry by entry. `above` is its folder.
        """
        if path in self._masks:
            return
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            file = os.open(path if above is None else path.rpartition("/")[2], _ITSELF, dir_fd=above)
            try:
                self._add_opened(file, path, rights)
            finally:
                os.close(file)

    def _add_opened(self, file: int, path: str, rights: int) -> None:
        mode = os.fstat(file).st_mode
        if stat.S_ISLNK(mode):
            return
        if path not in self._holders:
            self.rules.grant(file, rights, folder=stat.S_ISDIR(mode))
            return
        self.rules.grant(file, rights & LIST)
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=file)
        try:
            names = os.listdir(folder)  # noqa: PTH208 - a descriptor is no path
        finally:
            os.close(folder)
        for name in names:
            self.add(f"{path}/{name}", rights, file)


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
