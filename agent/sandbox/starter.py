"""Starts programs by a process of its own, which ends their trees with the call and with Foregate."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from foregate.agent.sandbox.forking import CONTROL
from foregate.agent.sandbox.guard import KILL, TERMINATE, send_request
from foregate.agent.sandbox.plan import Failure, SandboxPlan
from foregate.schemas.errors import WorkspaceError
from foregate.telemetry.holder import list_marks

_ZYGOTE = Path(__file__).resolve().with_name("zygote.py")
_MOST_LISTENERS = 250
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class SandboxFailed(WorkspaceError):
    """A sandbox that could not be made; nothing ran in it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"nothing ran: {failure['sentence']}; `foregate doctor` tells more")
        self.failure = failure


SandboxPlace = tuple[SandboxPlan, str]
"""A sandbox, and the folder in it where the program starts."""


class StartedProgram:
    """A program that was started, with the whole tree of what it starts; one thread at a time uses it.

    `stdin`, `stdout` and `stderr` are our ends of its streams, None for no stream. `pid` is its number, `left` how many
    of its tree could not be killed. `excess` says what it used too much of: a clause such as "it wrote more than the
    1000 files a command may write".
    """

    def __init__(self, line: socket.socket, *streams: IO[bytes] | None) -> None:
        self._line, self._said, self._gone = line, b"", False
        self.stdin, self.stdout, self.stderr = streams
        self.pid = self.left = 0
        self.excess = ""
        self.status: int | None = None
        self.error: int | Failure = 0
        self._listeners: list[socket.socket] = []

    def fileno(self) -> int:
        """Return what can be read when something has become of the program; see `look`."""
        return self._line.fileno()

    def look(self, *, wait: bool = False) -> None:
        """Take in what has become of it; with `wait`, once there is anything."""
        if self._gone:
            return
        self._line.setblocking(wait)
        try:
            more, descriptors, _, _ = socket.recv_fds(self._line, 4096, _MOST_LISTENERS, _CLOSE_ON_EXEC)
        except BlockingIOError:
            return
        except OSError:
            # The line broke: whoever held its other end is gone.
            more, descriptors = b"", []
        self._listeners += [socket.socket(fileno=descriptor) for descriptor in descriptors]
        self._gone = not more
        *lines, self._said = (self._said + more).split(b"\n")
        for line in lines:
            for name, value in json.loads(line).items():
                setattr(self, name, value)

    def wait_for_start(self) -> None:
        """Return once it has its number, or an error, or nobody is there to say so."""
        while not (self.pid or self.error or self._gone):
            self.look(wait=True)

    @property
    def has_ended(self) -> bool:
        """Whether the program itself has ended, or what watched it has."""
        self.look()
        return self.status is not None or self._gone

    def take_listeners(self) -> list[socket.socket]:
        """Return the sockets that listen in its sandbox, none where it has none, as the caller's to serve and close."""
        taken, self._listeners = self._listeners, []
        return taken

    def terminate(self) -> None:
        """Ask the program and its group to end."""
        self._tell(TERMINATE)

    def kill(self) -> None:
        """Kill the program and everything it started."""
        self._tell(KILL)

    def end(self) -> int | None:
        """Kill what is left, wait until the whole tree is gone, and return the program's exit code.

        It is negative for a signal, and None where nobody could see the program end.
        """
        self.kill()
        while not self._gone:
            self.look(wait=True)
        self._line.close()
        for stream in (self.stdin, self.stdout, self.stderr, *self.take_listeners()):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        return None if self.status is None else os.waitstatus_to_exitcode(self.status)

    def _tell(self, what: bytes) -> None:
        with suppress(OSError):
            self._line.send(what)


class Starter:
    """The process that starts programs; it is started with the first one, and anew after a fork or its own end."""

    def __init__(self) -> None:
        self._pid = 0
        self._control: socket.socket | None = None
        self._asking = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def start(
        self,
        argv: Sequence[str],
        *,
        program: str,
        environment: Mapping[str, str],
        folder: int,
        merged: bool = False,
        speaks: bool = False,
        sandbox: SandboxPlace | None = None,
        served: bool = False,
    ) -> StartedProgram:
        """Start `program` in a folder that is open, in a sandbox where one is given.

        With `merged` errors are written into the output. Its input is empty, unless `speaks`. What it is given of the
        network is `served` by the caller, with `take_listeners`, or by nobody, and then fails at once. Raises OSError
        where the program cannot be started, and ValueError for words no program takes. Raises WorkspaceError where
        nothing, or no sandbox, can be started at all.
        """
        if any("\0" in word for word in (program, *argv, *environment, *environment.values())):
            raise ValueError("embedded null byte")
        plan, place = sandbox or (None, "")
        request = {"program": program, "argv": list(argv), "environment": dict(environment)}
        body = json.dumps({**request, "plan": plan, "folder": place, "served": served}).encode()
        ours, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(speaks + 1 + (not merged))]
        into, out, errors = (pipes.pop(0) if speaks else None), pipes[0], pipes[-1]
        source = into[0] if into else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        started = StartedProgram(
            ours,
            os.fdopen(into[1], "wb", 0) if into else None,
            os.fdopen(out[0], "rb", 0),
            None if merged else os.fdopen(errors[0], "rb", 0),
        )
        try:
            self._send(body, [theirs.fileno(), folder, source, out[1], errors[1], *list_marks()])
        except BaseException:
            theirs.close()
            started.end()
            raise
        finally:
            theirs.close()
            for descriptor in {source, out[1], errors[1]}:
                os.close(descriptor)
        started.wait_for_start()
        if not started.pid:
            started.end()
            raise _build_error(started.error)
        return started

    def _send(self, body: bytes, descriptors: Sequence[int]) -> None:
        with self._asking:
            for again in (False, True):
                if self._control is None:
                    self._open()
                assert self._control is not None
                try:
                    send_request(self._control, body, descriptors)
                    return
                except OSError:
                    self._close()
                    if again:
                        raise _build_lost_error() from None
                except BaseException:
                    # What was sent may be half a request.
                    self._close()
                    raise

    def _open(self) -> None:
        self._close()
        ours, theirs = socket.socketpair()
        words = [sys.executable, "-IS", "-X", "utf8", str(_ZYGOTE)]
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)
        ]
        actions.append((os.POSIX_SPAWN_DUP2, theirs.fileno(), CONTROL))
        try:
            self._pid = _spawn(words, actions)
        except OSError as error:
            ours.close()
            raise WorkspaceError(
                f"no process can be started here ({error.strerror}); free some and try again"
            ) from None
        finally:
            theirs.close()
        self._control = ours

    def _close(self) -> None:
        """Let go of the process; it leaves once nothing it started is there any more."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._pid:
            with suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)
        self._pid = 0

    def _forget(self) -> None:
        self._pid, self._asking = 0, threading.Lock()
        self._close()


def _spawn(words: list[str], actions: Sequence[Any]) -> int:
    """Start our own interpreter, also where this user may no longer name its file."""
    try:
        return os.posix_spawn(words[0], words, {}, file_actions=actions)
    except PermissionError:
        return os.posix_spawn("/proc/self/exe", words, {}, file_actions=actions)


def _build_error(error: int | Failure) -> Exception:
    if isinstance(error, int):
        return OSError(error, os.strerror(error)) if error else _build_lost_error()
    if error["step"] == "start":
        return OSError(error["number"], os.strerror(error["number"]))
    return SandboxFailed(error)


def _build_lost_error() -> WorkspaceError:
    return WorkspaceError("the process that starts programs was ended from outside; try again")


start_program = Starter().start
"""Start a program; see `Starter.start`."""
