"""The way into a sandbox: from a forked child of one thread to the command that runs confined."""

from __future__ import annotations

import os
import signal
import socket
import stat
import struct
from collections.abc import Sequence
from typing import NoReturn

from foregate.agent.sandbox.namespaces import fork_into_namespaces
from foregate.agent.sandbox.openings import bring_up_loopback, hand_out, open_listeners
from foregate.agent.sandbox.plan import SandboxCommand, SandboxPlan
from foregate.agent.sandbox.prepared import Base, Prepared, die_with_parent, fail, tell_command, wait_for_command
from foregate.agent.sandbox.restrictions import (
    allow_writing_only_in,
    build_filter,
    drop_capabilities,
    limit_resources,
    load_filter,
)
from foregate.agent.sandbox.root import build_base_root, finish_root
from foregate.agent.sandbox.system_calls import StepFailed, call, name_step
from foregate.agent.sandbox.view import make_early_view

_STREAMS = (0, 1, 2)
_ALL_DESCRIPTORS = 2**32 - 1
_NULL = os.makedev(1, 3)
_STATUS = struct.Struct("=i")


def prepare(base: Base) -> Prepared:
    """Make the namespaces of a sandbox, in which a first process waits for what `start_prepared` tells it.

    Its plan must have this base, and all that the base names must still be the same; see `identify_base`.

    The caller, a process with one thread, is the sandbox's keeper: when it dies, however, so does everything inside.
    What is mounted on the machine later is not seen inside. Raises StepFailed.
    """
    ours, theirs = socket.socketpair()
    first = fork_into_namespaces(lambda: _run_first_process(base, theirs))
    theirs.close()
    return Prepared(first, ours)


def start_prepared(
    prepared: Prepared,
    plan: SandboxPlan,
    command: SandboxCommand,
    streams: Sequence[int],
    report: int,
    more: Sequence[int] = (),
    *,
    is_served: bool = False,
) -> None:
    """Have the command run in a sandbox that was prepared, which takes only one.

    The streams are pipes or /dev/null, which also stands for one that is closed. `report` is the writing end of a pipe;
    the caller closes its own. It ends empty when the command's program has started, and holds a `Failure` as JSON when
    a step before failed. Then nothing ran, and the first process ends with exit code 125. The descriptors `more` stay
    open as long as the first process lives; where the network is served the first is a Unix socket to whoever does
    that, and the sockets of `open_listeners` are sent there. Raises StepFailed and OSError.
    """
    view = make_early_view(plan)
    seen = [] if view is None else [view]
    given = (*streams, report, *seen, *more)
    try:
        tell_command(prepared.line, plan, command, given, has_view=view is not None, is_served=is_served)
    finally:
        for descriptor in seen:
            os.close(descriptor)


def read_end(prepared: Prepared, status: int) -> int:
    """Return how the command ended, as `waitpid` says it; `status` is how the first process did, which is gone."""
    try:
        said = prepared.line.recv(_STATUS.size)
    except OSError:
        # It went before it had read what it was told.
        said = b""
    return int(_STATUS.unpack(said)[0]) if len(said) == _STATUS.size else status


def close_others(kept: int) -> None:
    """Close every descriptor but the streams and one."""
    for first, last in ((len(_STREAMS), kept - 1), (kept + 1, _ALL_DESCRIPTORS)):
        if first <= last:
            call("close_range", first, last, 0)


def take_streams(streams: Sequence[int]) -> None:
    """Make these the streams, and let go of what one could be used for beyond reading and writing.

    The owner of a file or device outside may change its mode, size and times through any descriptor. A socket may pass
    further descriptors. What was closed or /dev/null is opened inside, as the /dev/null there.
    """
    for stream, given in zip(_STREAMS, streams, strict=True):
        os.dup2(given, stream)
        os.close(given)
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


def _run_first_process(base: Base, line: socket.socket) -> NoReturn:
    """Be the first process inside: build what is seen, start the command, bury what dies, end with the command."""
    given, programs = wait_for_command(line, lambda: _get_ready(base, line))
    plan = given.plan
    try:
        take_streams(given.streams)
        writable = finish_root(base, plan, given.more.pop(0) if given.has_view else None)
        if given.is_served:
            hand_out(open_listeners(plan["access"]), given.more.pop(0))
        open_null()
        program = programs[bool(plan["access"]["sockets"])]
        # What holds the command holds this process as well, which has nothing more to do that needs a power.
        drop_capabilities()
        allow_writing_only_in(writable)
        child = os.fork()
        if child == 0:
            _run_command(plan, given.command, program, given.report)
    except BaseException as error:
        # Nothing may return into the caller's half of the fork.
        fail(error, given.report)
    os.close(given.report)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            line.send(_STATUS.pack(status))
            os._exit(0)


def _get_ready(base: Base, line: socket.socket) -> dict[bool, bytes]:
    """Do what does not depend on the command; return the filters of system calls, without and with Unix sockets."""
    lead_session(line)
    bring_up_loopback()
    build_base_root(base)
    return {sockets: build_filter(unix_sockets=sockets) for sockets in (False, True)}


def lead_session(line: socket.socket) -> None:
    """Keep nothing of the process this was forked from but `line` and the streams, and end with it.

    Every signal does what it does in a fresh process; the first process of namespaces is then deaf to those inside.
    """
    # Also this process's copy of the other end, which would hide that nobody holds it.
    close_others(line.fileno())
    die_with_parent(line)
    os.setsid()
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _run_command(plan: SandboxPlan, command: SandboxCommand, program: bytes, report: int) -> NoReturn:
    """Give up what is left and become the command."""
    try:
        os.setsid()
        close_others(report)
        with name_step("folder", f"the folder {command['folder']} cannot be entered in the sandbox"):
            os.chdir(command["folder"])
        limit_resources(plan["limits"])
        load_filter(program)
        with name_step("start", f"{command['program']} cannot be started in the sandbox"):
            os.execve(command["program"], command["argv"], command["environment"])  # noqa: S606 - judged before
    except BaseException as error:
        # Nothing may return into the caller's half of the fork.
        fail(error, report)
