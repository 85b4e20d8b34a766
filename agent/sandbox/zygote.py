"""Starts programs for Foregate, and sees to it that none of them outlives its call, or Foregate itself.

An isolated interpreter runs this file, so it imports the standard library alone. For each program it forks a guard,
which starts the program and talks with Foregate over a line of its own. However Foregate ends, its end of that line is
closed: then the guard kills what it started. Whatever a program starts becomes a child of its guard once its parent
has ended, so nothing gets away by going to the background; and of this process, should somebody kill the guard.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

CONTROL = 3
"""The descriptor on which requests come."""
HEAD = struct.Struct("!I")
"""What comes before a request, together with its descriptors: how many bytes the request has."""
NAMES = ("line", "folder", "stdin", "stdout", "stderr")
"""What the first descriptors of a request are; any more are kept open for as long as the program's tree lives."""
KILL, TERMINATE = b"k", b"t"
"""What Foregate says on the line: end everything at once, or ask the program's group to end."""
_PACKAGE = "foregate.agent.sandbox"
_LOADED = ("confine", "limited", "watch", "written")
"""What of the package is loaded before the first guard of a sandbox is forked."""
_PR_SET_CHILD_SUBREAPER = 36
_ROUND = 0.02
"""Seconds between two looks: at what is written, and for what is still there while a tree is ended."""
_ROUNDS = 500
"""Rounds after which what cannot be killed, such as a program of another user, is left behind and said."""
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE)
_CHANGED = (*_HANDLED, signal.SIGXFSZ)
"""The signals that do something else here than in a fresh process; Python ignores the last two by itself."""
_LIBRARY = ctypes.CDLL(None)


class Zygote:
    """Takes requests from `control` and forks a guard for each, until Foregate closes it and every guard has ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._guards: set[int] = set()
        self._woken = watch_children()

    def serve(self) -> None:
        """Serve until nobody asks any more and nothing runs."""
        asked: list[Any] = [self._control]
        while asked or self._guards:
            ready, _, _ = select.select([*asked, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if asked and asked[0] in ready and not self._take_request():
                asked = []

    def _take_request(self) -> bool:
        """Fork the guard of the next request; False when there will be none any more."""
        head, descriptors, _, _ = socket.recv_fds(self._control, HEAD.size, 64)
        if len(head) < HEAD.size:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        request = json.loads(read_exactly(self._control, HEAD.unpack(head)[0]))
        if request["plan"] is not None:
            for name in _LOADED:
                load_sandbox(name)
        pid = os.fork()
        if pid == 0:
            self._control.close()
            os.close(self._woken)
            guard(request, descriptors)
        self._guards.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _reap(self) -> None:
        """Take leave of guards that ended, and kill what one that was killed has left."""
        for pid in reap_children():
            self._guards.discard(pid)
        for pid in list_children(os.getpid()):
            if pid not in self._guards:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def guard(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Start the program of a request, tell how it ended, and once told to end it leave when all of its tree is gone.

    Each line it says is an object with one of these: `pid` or `error`, an errno or what a sandbox failed in, at the
    start, `excess` when it is ended because it used too much, `status` (as `waitpid` has it) when the program itself
    has ended, and last `left`, how many of its tree could not be killed.
    """
    os.setsid()
    named = dict(zip(NAMES, descriptors, strict=False))
    line, woken = socket.socket(fileno=named["line"]), watch_children()
    failed, failing = os.pipe()
    watch = open_watch(request, line)
    pid, told = start(request, named, failing)
    os.close(failing)
    for name in NAMES[1:]:
        os.close(named[name])
    with open(failed, "rb") as failure:  # noqa: PTH123 - a descriptor
        error = failure.read()
    say(line, error=json.loads(error)) if error else say(line, pid=pid)
    ending, runs, rounds = bool(error), bool(pid), 0
    while not ending or (rounds < _ROUNDS and (runs or list_tree(os.getpid()))):
        if ending:
            kill_tree(os.getpid(), pid)
            rounds += 1
        watched: list[Any] = [woken] if ending else [woken, line]
        ready, _, _ = select.select(watched, [], [], _ROUND if ending or watch else None)
        if line in ready:
            ending = obey(line, pid, told)
        if not ending and watch and (excess := watch.find_excess()):
            ending = True
            say(line, excess=excess)
        if woken in ready:
            os.read(woken, 4096)
            if (status := reap_children().get(pid)) is not None:
                runs = False
                say(line, status=load_sandbox("confine").read_end(told, status) if told else status)
    aside = load_sandbox("view").set_aside_work(request["plan"]) if request["plan"] else []
    say(line, left=len(list_tree(os.getpid())))
    line.close()  # nobody has to wait until private folders are removed
    if watch:
        watch.close()
    for folder in aside:
        with suppress(OSError):  # another guard removes it
            load_sandbox("removal").remove_tree(folder)
    os._exit(0)


def start(request: dict[str, Any], named: dict[str, int], failing: int) -> tuple[int, int]:
    """Start the program; return its number, and 0.

    In namespaces that is the number of their first process, 0 where there is none, and then where that process says how
    the program ended.
    """
    if request["plan"] is None or request["plan"]["tier"] == "limited":
        pid = os.fork()
        if pid == 0:
            execute(request, named, failing)
        return pid, 0
    confine, null = load_sandbox("confine"), os.open(os.devnull, os.O_RDWR)
    for place, name in enumerate(NAMES[2:]):
        os.dup2(named[name], place)
    try:
        started = confine.start_confined(
            request["plan"], request, failing, named["line"] if request["served"] else None
        )
        return started.first, started.told
    except BaseException as error:
        os.write(failing, json.dumps(confine.describe_failure(error)).encode())
        return 0, 0
    finally:
        for place in range(3):
            os.dup2(null, place)
        os.close(null)


def obey(line: socket.socket, pid: int, told: int) -> bool:
    """Do what Foregate says; True when the tree is to end, which a line that broke says as well.

    The first process of namespaces is deaf to being asked, so its children are.
    """
    try:
        said = line.recv(16)
    except OSError:
        said = b""
    if TERMINATE in said:
        for group in list_children(pid) if told else [pid]:
            with suppress(OSError):
                os.killpg(group, signal.SIGTERM)
    return not said or KILL in said


def execute(request: dict[str, Any], named: dict[str, int], failing: int) -> NoReturn:
    """Become the program, in a session of its own, with no descriptor but the three; write the error where it fails.

    With a plan in the request it runs in a sandbox without namespaces, and the way into it writes what failed.
    """
    try:
        os.setsid()
        for number in _CHANGED:
            signal.signal(number, signal.SIG_DFL)
        for place, name in enumerate(NAMES[2:]):
            os.dup2(named[name], place)
        if request["plan"] is not None:
            confine_limited = load_sandbox("limited").confine_limited
            confine_limited(request["plan"], request, os.getppid(), failing, request["scratch"])
        os.fchdir(named["folder"])
        os.execve(request["program"], request["argv"], request["environment"])  # noqa: S606 - it was judged
    except BaseException as error:
        os.write(failing, json.dumps(getattr(error, "errno", None) or errno.EINVAL).encode())
    os._exit(127)


def open_watch(request: dict[str, Any], line: socket.socket) -> Any:
    """Return what tells whether a sandbox uses too much, None where the kernel bounds it; leave where there is none.

    A sandbox without namespaces gets its private folder of it.
    """
    plan = request["plan"]
    if plan is None:
        return None
    try:
        if plan["tier"] == "limited":
            watch = load_sandbox("watch").Watch(plan, lambda: list_tree(os.getpid()))
            request["scratch"] = watch.scratch.path
            return watch
        written = load_sandbox("written")
        stores = written.list_stores(plan)
        return written.Written(stores, plan["limits"]) if stores else None
    except Exception as error:
        say(line, error=load_sandbox("confine").describe_failure(error))
        os._exit(0)


def say(line: socket.socket, **what: Any) -> None:
    """Tell Foregate something, which may have gone."""
    with suppress(OSError):
        line.sendall(json.dumps(what).encode() + b"\n")


def load_sandbox(module: str) -> ModuleType:
    """Return a module of this folder; what of Foregate lies around it cannot be imported here, and is not."""
    names = _PACKAGE.split(".")
    for end in range(1, len(names) + 1):
        package = sys.modules.setdefault(".".join(names[:end]), ModuleType(names[end - 1]))
        package.__path__ = [os.path.dirname(__file__)] if end == len(names) else []  # noqa: PTH120
    return import_module(f"{_PACKAGE}.{module}")


def watch_children() -> int:
    """Become the parent of whatever loses its own here; return what can be read once a child has ended."""
    with suppress(AttributeError, OSError):  # elsewhere than on Linux what goes to the background is not caught
        _LIBRARY.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    for number in _HANDLED:  # who ends this process is Foregate, by closing its end
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    return woken


def reap_children() -> dict[int, int]:
    """Return the status of each child that has ended."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def kill_tree(pid: int, program: int) -> None:
    """Kill whatever descends from a process, and the group of a program, which is all that is known without /proc."""
    for one in list_tree(pid):
        with suppress(OSError):
            os.kill(one, signal.SIGKILL)
    with suppress(OSError):
        if program:
            os.killpg(program, signal.SIGKILL)


def list_children(pid: int) -> list[int]:
    """Return the children of a process, none where the system does not tell."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib takes long to import
            with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123
                found += [int(word) for word in file.read().split()]
    return found


def list_tree(pid: int) -> list[int]:
    """Return whatever descends from a process, without itself."""
    found = list_children(pid)
    for child in found:
        found += list_children(child)
    return found


def read_exactly(stream: socket.socket, count: int) -> bytes:
    """Return so many bytes; fewer when the other side has gone."""
    data = bytearray()
    while len(data) < count and (more := stream.recv(count - len(data))):
        data += more
    return bytes(data)


if __name__ == "__main__":
    os.setsid()
    os.chdir("/")
    os.set_inheritable(CONTROL, False)
    os.closerange(CONTROL + 1, os.sysconf("SC_OPEN_MAX"))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(each, signal.SIG_DFL)
    gc.disable()  # what a collection touches is copied in every child
    Zygote(socket.socket(fileno=CONTROL)).serve()
