"""The way into a sandbox: from a forked child of one thread to the command that runs confined."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import struct
from typing import NamedTuple, NoReturn

from foregate.agent.sandbox.bpf import load_filter
from foregate.agent.sandbox.capabilities import drop_capabilities
from foregate.agent.sandbox.landlock import allow_writing_only_in
from foregate.agent.sandbox.limits import limit_resources
from foregate.agent.sandbox.namespaces import fork_into_namespaces
from foregate.agent.sandbox.openings import bring_up_loopback, hand_out, open_listeners
from foregate.agent.sandbox.plan import Command, Failure, Plan
from foregate.agent.sandbox.root import build_root
from foregate.agent.sandbox.seccomp import build_filter
from foregate.agent.sandbox.system_calls import PR_SET_PDEATHSIG, StepFailed, call, name_step
from foregate.agent.sandbox.view import make_early_view

NOT_STARTED = 125
_STREAMS = (0, 1, 2)
_REPORT = 3
_ALL_DESCRIPTORS = 2**32 - 1
_NULL = os.makedev(1, 3)
_STATUS = struct.Struct("=i")


class Started(NamedTuple):
    """The first process inside a sandbox, and where it says how the command ended."""

    first: int
    told: int


def start_confined(plan: Plan, command: Command, report: int, line: int | None = None) -> Started:
    """Start the command in a sandbox.

    The caller, a process with one thread, is the sandbox's keeper: when it dies, however, so does everything inside.
    The streams 0, 1 and 2 are pipes or /dev/null, which also stands for one that is closed; they are the command's,
    and the caller opens others for itself. Every other descriptor is closed before the command runs. `report` is the
    writing end of a pipe: once the caller has closed its own, it ends empty when the command's program has started,
    and holds a `Failure` as JSON when a step before that failed. Then nothing ran, and the first process ends with exit
    code 125. `line` is a Unix socket to whoever serves what the command is given of the network; the sockets of
    `open_listeners` are sent there. Raises StepFailed.
    """
    take_streams()
    program = build_filter(unix_sockets=bool(plan["access"]["sockets"]))
    view = make_early_view(plan)
    alive, keeper = os.pipe()  # open for reading inside, for writing only here
    told, tell = os.pipe()
    first = fork_into_namespaces()
    if first == 0:
        os.close(keeper)
        os.close(told)
        _run_first_process(plan, command, program, view, alive, tell, report, line)
    for descriptor in (alive, tell, *([] if view is None else [view])):
        os.close(descriptor)
    return Started(first, told)


def read_end(told: int, status: int) -> int:
    """Return how the command ended, as `waitpid` says it; `status` is how the first process did, which is gone."""
    said = os.read(told, _STATUS.size)
    return int(_STATUS.unpack(said)[0]) if len(said) == _STATUS.size else status


def close_others(report: int) -> int:
    """Close every descriptor but the streams and `report`, and return the number that one has then."""
    os.dup2(report, _REPORT, inheritable=False)
    call("close_range", _REPORT + 1, _ALL_DESCRIPTORS, 0)
    return _REPORT


def fail(error: BaseException, report: int) -> NoReturn:
    """Report what failed and end."""
    try:
        os.write(report, json.dumps(describe_failure(error)).encode())
    finally:
        os._exit(NOT_STARTED)


def describe_failure(error: BaseException) -> Failure:
    """Return what failed; what is no StepFailed is a fault of ours, and ends the call as well."""
    if isinstance(error, StepFailed):
        return Failure(step=error.step, number=error.number, sentence=str(error))
    return Failure(step="fault", number=0, sentence=f"the sandbox failed: {type(error).__name__}: {error}")


def die_with_parent(parent: int | None, alive: int | None = None) -> None:
    """Be killed when the parent dies, also when it did just before.

    Its number is not to be seen from inside, where `alive` ends with it.
    """
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    gone = os.getppid() != parent if alive is None else bool(select.select([alive], [], [], 0)[0])
    if gone:
        os._exit(NOT_STARTED)


def take_streams() -> None:
    """Let go of what a stream could be used for beyond reading and writing.

    Of a file or a device outside, its owner may change the mode, size and times through any descriptor of it, and a
    socket may hand over further descriptors. What was closed or /dev/null is opened inside, as the /dev/null there.
    """
    for stream in _STREAMS:
        try:
            found = os.fstat(stream)
        except OSError:
            continue
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL:
            os.close(stream)
        elif not stat.S_ISFIFO(found.st_mode):
            raise StepFailed("streams", 0, f"stream {stream} of a sandbox must be a pipe or /dev/null")
    # Nothing that is opened on the way may take a stream's number.
    for stream in _STREAMS:
        _fill(stream, "/")


def _fill(stream: int, path: str, flags: int = os.O_PATH) -> None:
    try:
        os.fstat(stream)
    except OSError:
        opened = os.open(path, flags)
        if opened != stream:
            os.dup2(opened, stream)
            os.close(opened)
        os.set_inheritable(stream, True)


def open_null() -> None:
    """Open /dev/null anew where a stream was that or closed: in a sandbox of namespaces it has one of its own."""
    for stream in _STREAMS:
        if not stat.S_ISFIFO(os.fstat(stream).st_mode):
            os.close(stream)
            _fill(stream, "/dev/null", os.O_RDWR)


def _run_first_process(
    plan: Plan,
    command: Command,
    program: bytes,
    view: int | None,
    alive: int,
    tell: int,
    report: int,
    line: int | None,
) -> NoReturn:
    """Be the first process inside: build what is seen, start the command, bury what dies, end with the command."""
    try:
        die_with_parent(None, alive)
        _forget_signals()
        os.setsid()
        bring_up_loopback()
        writable = build_root(plan, view)
        if line is not None:
            hand_out(open_listeners(plan["access"]), line)
        open_null()
        # What holds the command holds this process as well, which has nothing more to do that needs a power.
        drop_capabilities()
        allow_writing_only_in(writable)
        child = os.fork()
        if child == 0:
            _run_command(plan, command, program, report)
    except BaseException as error:  # nothing may return into the caller's half of the fork
        fail(error, report)
    os.close(report)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            os.write(tell, _STATUS.pack(status))
            os._exit(0)


def _forget_signals() -> None:
    """Let every signal do what it does in a fresh process. The first process inside is then deaf to those inside."""
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _run_command(plan: Plan, command: Command, program: bytes, report: int) -> NoReturn:
    """Give up what is left and become the command."""
    try:
        os.setsid()
        report = close_others(report)
        with name_step("folder", f"the folder {command['folder']} cannot be entered in the sandbox"):
            os.chdir(command["folder"])
        limit_resources(plan["limits"])
        load_filter(program)
        with name_step("start", f"{command['program']} cannot be started in the sandbox"):
            os.execve(command["program"], command["argv"], command["environment"])  # noqa: S606 - judged before
    except BaseException as error:  # nothing may return into the caller's half of the fork
        fail(error, report)
