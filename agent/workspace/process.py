"""Running a program: no shell, a session of its own, a small environment, bounded output, a certain end."""

from __future__ import annotations

import asyncio
import os
import selectors
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from foregate.agent.sandbox.egress import NO_TRAFFIC, Traffic, serve_sandbox
from foregate.agent.sandbox.plan import GivenAccess, SandboxPlan, build_no_access
from foregate.agent.sandbox.starter import StartedProgram, start_program
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late

_TICK = 0.05
_CHUNK = 65536
# b"\xe2\x82" of the three bytes of a euro sign.
_CUT_END = compile_late(rb"(?:[\xf0-\xff][\x80-\xbf]{0,2}|[\xe0-\xef][\x80-\xbf]?|[\xc0-\xdf])\Z")
# b"\x82\xac" of the three bytes of a euro sign.
_CUT_START = compile_late(rb"[\x80-\xbf]{1,3}(?![\x80-\xbf])")


class HeadTail:
    """Keeps the first and the last bytes of a stream, at most `cap` in all, however long the stream is."""

    def __init__(self, cap: int) -> None:
        self._head_cap = cap - cap // 2
        self._tail_cap = cap // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take in the next bytes of the stream."""
        self.total += len(data)
        room = self._head_cap - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data[-self._tail_cap :] if self._tail_cap else b"")
            self._tail_size += len(self._tail[-1])
            while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_cap:
                self._tail_size -= len(self._tail.popleft())

    def parts(self) -> tuple[bytes, bytes, int]:
        """Return head, tail and the number of bytes left out between them; no UTF-8 character is cut."""
        head, tail = bytes(self._head), b"".join(self._tail)[-self._tail_cap :] if self._tail_cap else b""
        if len(head) + len(tail) < self.total:
            head, tail = trim_cut_end(head), trim_cut_start(tail)
        return head, tail, self.total - len(head) - len(tail)

    def bytes(self) -> bytes:
        """Return the stream when all of it was kept, else head and tail around a line that says what is missing."""
        head, tail, missing = self.parts()
        return head + (f"\n[... {missing} bytes left out ...]\n".encode() if missing else b"") + tail

    def text(self) -> tuple[str, int]:
        """Return `bytes` as text, undecodable bytes replaced, and the number of bytes left out."""
        return self.bytes().decode("utf-8", "replace"), self.parts()[2]


def trim_cut_end(data: bytes) -> bytes:
    """Return `data` without a UTF-8 character begun at its end and not finished."""
    return data[:-3] + _CUT_END.sub(b"", data[-3:])


def trim_cut_start(data: bytes) -> bytes:
    """Return `data` without the rest of a UTF-8 character at its start."""
    rest = _CUT_START.match(data)
    return data[rest.end() :] if rest else data


class ProcessResult(Struct, frozen=True):
    """The result of a process. `code` is None when it was ended before it finished; `out` holds at most the cap.

    `excess` says that it was ended because of what it used.
    """

    code: int | None
    out: HeadTail
    err: HeadTail
    timed_out: bool = False
    traffic: Traffic = NO_TRAFFIC
    excess: bool = False

    def read_whole(self, what: str) -> bytes:
        """Return all of the output; raise WorkspaceError when it was more than is kept."""
        head, tail, missing = self.out.parts()
        if missing:
            raise WorkspaceError(f"{what} is more than can be looked at ({self.out.total} bytes); make it smaller")
        return head + tail


async def run_program(
    argv: Sequence[str],
    workspace: Workspace,
    *,
    cwd: str,
    environment: Mapping[str, str],
    timeout: float,  # noqa: ASYNC109 - the program must be killed here, not merely be waited for
    cap: int,
    merged: bool = True,
    sandbox: SandboxPlan | None = None,
) -> ProcessResult:
    """Run `argv` in the folder `cwd` and wait for it; at `timeout` seconds or on cancellation all of it is killed.

    With `merged` errors are written into the output. In a sandbox only a program from outside the workspace runs.
    Raises WorkspaceError when the program, or the sandbox, cannot be started.
    """
    stop = threading.Event()
    loop = asyncio.get_running_loop()
    about = (argv, workspace, cwd, environment, timeout, cap, merged, sandbox, stop)
    work = loop.run_in_executor(None, run_and_wait, *about)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        with suppress(BaseException):
            work.exception()
        raise


def run_and_wait(
    argv: Sequence[str],
    workspace: Workspace,
    cwd: str,
    environment: Mapping[str, str],
    timeout: float,
    cap: int,
    merged: bool = True,
    sandbox: SandboxPlan | None = None,
    stop: threading.Event | None = None,
) -> ProcessResult:
    """Run `argv` and block until it and everything it started are gone; see `run_program`."""
    if sandbox is not None and (sandbox["writable"] or sandbox["upper"]):
        environment = {**build_network_environment(sandbox["access"]), **environment}
    program = find_program(argv[0], environment.get("PATH", os.defpath), sandbox["workspace"] if sandbox else None)
    if program is None:
        raise WorkspaceError(f"the program `{argv[0][:80]}` was not found; name one that is installed")
    with workspace.directory(cwd) as folder:
        try:
            inside = (sandbox, str(workspace.root / cwd)) if sandbox is not None else None
            started = start_program(
                argv,
                program=program,
                environment=environment,
                folder=folder,
                merged=merged,
                sandbox=inside,
                served=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise WorkspaceError(f"the program `{argv[0][:80]}` could not be started: {why}") from None
    access = sandbox["access"] if sandbox is not None else build_no_access()
    return _drain_program(started, access, timeout, cap, stop or threading.Event())


def find_program(name: str, path: str, never_in: str | None) -> str | None:
    """Return the file of a program, None where none is found: the first of PATH, that leads nowhere into `never_in`."""
    if "/" in name:
        return name
    for folder in path.split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found and (never_in is None or not Path(found).resolve().is_relative_to(never_in)):
            return found
    return None


def leave_out_posing(path: str, names: Iterable[str], never_in: Path) -> str:
    """Return PATH without the folders in which one of the programs `names` leads into the folder `never_in`."""
    wanted = set(names)

    def is_posing(folder: str) -> bool:
        found = (shutil.which(name, path=folder) for name in wanted if "/" not in name)
        return any(Path(program).resolve().is_relative_to(never_in) for program in found if program)

    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not is_posing(folder))


def _drain_program(
    started: StartedProgram, access: GivenAccess, timeout: float, cap: int, stop: threading.Event
) -> ProcessResult:
    """Read a program to its end, keeping at most `cap` bytes of each stream; nothing it started outlives it."""
    kept: dict[object, HeadTail] = {started.stdout: HeadTail(cap), started.stderr: HeadTail(cap)}
    deadline = time.monotonic() + timeout
    timed_out = killed = False
    idle = 0
    try:
        with serve_sandbox(started.take_listeners(), access) as egress, selectors.DefaultSelector() as selector:
            for stream in filter(None, (started.stdout, started.stderr)):
                selector.register(stream, selectors.EVENT_READ)
            selector.register(started, selectors.EVENT_READ)
            while len(selector.get_map()) > 1 or not started.has_ended:
                ready = [key for key, _ in selector.select(_TICK) if key.fileobj is not started]
                for key in ready:
                    data = os.read(key.fd, _CHUNK)
                    if data:
                        kept[key.fileobj].feed(data)
                    else:
                        selector.unregister(key.fileobj)
                if not killed and (stop.is_set() or time.monotonic() >= deadline or (not ready and started.has_ended)):
                    timed_out = not started.has_ended and not stop.is_set()
                    started.kill()
                    killed = True
                idle = idle + 1 if killed and not ready else 0
                if idle > 2 and started.has_ended:
                    break
    finally:
        code = started.end()
    if started.excess:
        # It was about to be killed.
        code = code or -signal.SIGKILL
        kept[started.stdout].feed(f"\nthe command was ended: {started.excess}\n".encode())
    if timed_out or stop.is_set():
        code = None
    return ProcessResult(
        code, kept[started.stdout], kept[started.stderr], timed_out, egress.traffic, bool(started.excess)
    )


def build_environment(policy: Policy, workspace: Workspace, home: str, *, trusted_only: bool) -> dict[str, str]:
    """Return what a command may see: the listed variables that are set, and an empty home.

    Of PATH only absolute folders stay; with `trusted_only` none of the workspace, so that no file of it can pose
    as a program that merely looks.
    """
    environment = {name: os.environ[name] for name in policy.commands.environment if name in os.environ}
    folders = [
        folder
        for folder in environment.get("PATH", os.defpath).split(os.pathsep)
        if Path(folder).is_absolute() and not (trusted_only and Path(folder).resolve().is_relative_to(workspace.root))
    ]
    return {**environment, "PATH": os.pathsep.join(folders), "HOME": home}


open_temporary_home = partial(tempfile.TemporaryDirectory, prefix="foregate-home-", ignore_cleanup_errors=True)
"""A home folder of its own for one command, removed afterwards: what `with` gives is its name."""


_NO_NEWS = {
    "GOTOOLCHAIN": "local",
    "NO_UPDATE_NOTIFIER": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
}
NO_RETRIES = {
    "BUNDLE_RETRY": "0",
    "CARGO_NET_RETRY": "0",
    "CONDA_REMOTE_MAX_RETRIES": "0",
    "PIP_RETRIES": "0",
    "POETRY_REQUESTS_MAX_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "YARN_HTTP_RETRY": "0",
    "npm_config_fetch_retries": "0",
}


def build_network_environment(access: GivenAccess) -> dict[str, str]:
    """Return the variables of a program in a sandbox with this access."""
    return _NO_NEWS | ({} if access["network"] == "open" else NO_RETRIES)
