"""The guard of one program: starts it, says how it ended, and leaves nothing of what it started."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

_HEAD = struct.Struct("!I")
_MOST_DESCRIPTORS = 64
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE)
"""The signals that merely wake a process that watches its children."""
_PR_SET_CHILD_SUBREAPER = 36
_LIBRARY = ctypes.CDLL(None)
NAMES = ("line", "folder", "stdin", "stdout", "stderr")
"""What the first descriptors of a request are; any more are kept open for as long as the program's tree lives."""
KILL, TERMINATE = b"k", b"t"
"""What Foregate says on the line: end everything at once, or ask the program's group to end."""
_LOADED = ("confine", "limited", "watch")
"""What of this folder the guard of a sandbox needs."""
_ROUND = 0.02
"""Seconds between two looks: at what is written, and for what is still there while a tree is ended."""
_ROUNDS = 500
"""Rounds after which what cannot be killed, such as a program of another user, is left behind and said."""
_CHANGED = (*HANDLED, signal.SIGXFSZ)
"""The signals that do something else here than in a fresh process; Python ignores the last two by itself."""


def send_request(line: socket.socket, body: bytes, descriptors: Sequence[int]) -> None:
    """Send a request; whoever receives it has descriptors of its own. Raises OSError where nobody does any more."""
    socket.send_fds(line, [_HEAD.pack(len(body))], descriptors)
    line.sendall(body)


def receive_request(line: socket.socket) -> tuple[bytes, list[int]] | None:
    """Wait for a request and return it; None when there will be none any more."""
    head, descriptors, _, _ = socket.recv_fds(line, _HEAD.size, _MOST_DESCRIPTORS)
    if len(head) < _HEAD.size:
        return None
    for descriptor in descriptors:
        # What comes over a socket is handed on to every program that is started, unless one says otherwise.
        os.set_inheritable(descriptor, False)
    size, body = _HEAD.unpack(head)[0], bytearray()
    while len(body) < size and (more := line.recv(size - len(body))):
        body += more
    return (bytes(body), descriptors) if len(body) == size else None


def watch_children() -> int:
    """Become the parent of whatever loses its own here; return what can be read once a child has ended."""
    # Elsewhere than on Linux what goes to the background is not caught.
    with suppress(AttributeError, OSError):
        _LIBRARY.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    # Who ends this process is Foregate, by closing its end.
    for number in HANDLED:
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


class GuardKind(NamedTuple):
    """How a sandbox is held, and its `Base`."""

    tier: str
    base: Any


def guard(
    kind: GuardKind | None,
    request: dict[str, Any] | None,
    descriptors: Sequence[int],
    asked: socket.socket | None = None,
) -> NoReturn:
    """Start the program of a request, tell how it ended, and once told to end it leave when all of its tree is gone.

    Without a request it makes what it can of a sandbox and waits for one from `asked`; it leaves where none comes.

    Each line it writes is an object with one key. At the start this is `pid`, or `error`, an errno or what a sandbox
    failed in. `excess` says that it is ended because it used too much, `status` (as `waitpid` has it) that the program
    has ended. The last is `left`, how many of its tree could not be killed.
    """
    os.setsid()
    woken = watch_children()
    prepared, failure = prepare(kind)
    if request is None:
        assert asked is not None
        if failure:
            # The next request gets a guard that can tell what failed.
            os._exit(0)
        request, descriptors, prepared = wait_for_request(asked, woken, prepared)
        if prepared is None:
            prepared, failure = prepare(kind)
    named = dict(zip(NAMES, descriptors, strict=False))
    line = socket.socket(fileno=named["line"])
    failed, failing = os.pipe()
    watch = open_watch(request, line)
    pid = start(request, descriptors, failing, prepared, failure)
    told = prepared if kind and kind.tier == "full" else None
    os.close(failing)
    for name in NAMES[1:]:
        os.close(named[name])
    with open(failed, "rb") as failure_file:  # noqa: PTH123 - a descriptor
        error = failure_file.read()
    say(line, error=json.loads(error)) if error else say(line, pid=pid)
    _follow(line, woken, watch, pid, told, ending=bool(error))
    aside = load_sandbox("view").set_aside_work(request["plan"]) if request["plan"] else []
    say(line, left=len(list_tree(os.getpid())))
    # Nobody has to wait until private folders are removed.
    line.close()
    if watch:
        watch.close()
    for folder in aside:
        # Another guard removes it.
        with suppress(OSError):
            load_sandbox("removal").remove_tree(folder)
    os._exit(0)


def _follow(line: socket.socket, woken: int, watch: Any, pid: int, told: Any, *, ending: bool) -> None:
    """Follow a program until it is to end, then kill its tree; say what it exceeds, and how it ended."""
    runs, rounds = bool(pid), 0
    while not ending or (rounds < _ROUNDS and (runs or list_tree(os.getpid()))):
        if ending:
            kill_tree(os.getpid(), pid)
            rounds += 1
        watched: list[Any] = [woken] if ending else [woken, line]
        ready, _, _ = select.select(watched, [], [], _ROUND if ending or watch else None)
        if line in ready:
            ending = obey(line, pid, is_first=told is not None)
        if not ending and watch and (excess := watch.find_excess()):
            ending = True
            say(line, excess=excess)
        if woken in ready:
            os.read(woken, 4096)
            if (status := reap_children().get(pid)) is not None:
                runs = False
                say(line, status=load_sandbox("confine").read_end(told, status) if told else status)


def prepare(kind: GuardKind | None) -> tuple[Any, Any]:
    """Make what is the same for every sandbox of a kind; return it, and what failed in it."""
    if kind is None:
        return None, None
    try:
        return load_sandbox("limited" if kind.tier == "limited" else "confine").prepare(kind.base), None
    except BaseException as error:
        return None, load_sandbox("prepared").describe_failure(error)


def wait_for_request(asked: socket.socket, woken: int, prepared: Any) -> tuple[dict[str, Any], list[int], Any]:
    """Say that a request can come, wait for it and return it, its descriptors, and what was prepared.

    Where that was killed meanwhile it is None. Leave where no request comes.
    """
    asked.sendall(b"r")
    watched: list[Any] = [asked, woken]
    while asked not in select.select(watched, [], [])[0]:
        os.read(woken, 4096)
        if prepared and prepared.pid in reap_children():
            prepared = None
    if prepared and prepared.pid in reap_children():
        prepared = None
    received = receive_request(asked)
    if received is None:
        os._exit(0)
    asked.close()
    return json.loads(received[0]), received[1], prepared


def start(request: dict[str, Any], descriptors: Sequence[int], failing: int, prepared: Any, failure: Any) -> int:
    """Start the program and return its number; in namespaces that of their first process, 0 for none."""
    plan, streams = request["plan"], descriptors[2 : len(NAMES)]
    if plan is None:
        pid = os.fork()
        if pid == 0:
            execute(request, descriptors, failing)
        return pid
    try:
        if failure is None and plan["tier"] == "limited":
            load_sandbox("limited").start_prepared(prepared, plan, request, streams, failing, request["scratch"])
        elif failure is None:
            more = [descriptors[0]] if request["served"] else []
            about = (plan, request, streams, failing, [*more, *descriptors[len(NAMES) :]])
            load_sandbox("confine").start_prepared(prepared, *about, is_served=request["served"])
    except BaseException as error:
        failure = load_sandbox("prepared").describe_failure(error)
    if failure is not None:
        os.write(failing, json.dumps(failure).encode())
        return 0
    return int(prepared.pid)


def obey(line: socket.socket, pid: int, *, is_first: bool) -> bool:
    """Do what Foregate says; True when the tree is to end, which a line that broke says as well.

    The first process of namespaces is deaf to being asked, so its children are.
    """
    try:
        said = line.recv(16)
    except OSError:
        said = b""
    if TERMINATE in said:
        for group in list_children(pid) if is_first else [pid]:
            with suppress(OSError):
                os.killpg(group, signal.SIGTERM)
    return not said or KILL in said


def execute(request: dict[str, Any], descriptors: Sequence[int], failing: int) -> NoReturn:
    """Become the program, in a session of its own, with no descriptor but the three; write the error where it fails."""
    try:
        os.setsid()
        for number in _CHANGED:
            signal.signal(number, signal.SIG_DFL)
        _, folder, *streams = descriptors[: len(NAMES)]
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
        os.fchdir(folder)
        os.execve(request["program"], request["argv"], request["environment"])  # noqa: S606 - it was judged
    except BaseException as error:
        os.write(failing, json.dumps(getattr(error, "errno", None) or errno.EINVAL).encode())
    os._exit(127)


def open_watch(request: dict[str, Any], line: socket.socket) -> Any:
    """Return what tells whether a sandbox uses too much, None where the kernel bounds it; leave without one.

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
        disk = load_sandbox("watch")
        stores = disk.list_stores(plan)
        return disk.WrittenPaths(stores, plan["limits"]) if stores else None
    except Exception as error:
        say(line, error=load_sandbox("prepared").describe_failure(error))
        os._exit(0)


def say(line: socket.socket, **what: Any) -> None:
    """Tell Foregate something, which may have gone."""
    with suppress(OSError):
        line.sendall(json.dumps(what).encode() + b"\n")


def load_all() -> None:
    """Load what the guard of a sandbox needs, which not every system can."""
    for name in _LOADED:
        load_sandbox(name)


def load_sandbox(module: str) -> ModuleType:
    """Return a module of this folder."""
    return import_module(f"foregate.agent.sandbox.{module}")
