"""Starts programs for Foregate, and sees to it that none of them outlives its call, or Foregate itself.

An isolated interpreter runs it, so this folder imports the standard library alone. For each program it forks a guard,
which starts the program and talks with Foregate over a line of its own. However Foregate ends, its end of that line is
closed: then the guard kills what it started. Whatever a program starts becomes a child of its guard once its parent
has ended, so nothing gets away by going to the background; and of this process, should somebody kill the guard.

Half of what a sandbox takes is the same for all of them. So once a program in a sandbox has ended, the guard of the
next one is forked ahead, which makes that half and waits.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from foregate.agent.sandbox.guard import (
    GuardKind,
    guard,
    list_children,
    load_all,
    load_sandbox,
    reap_children,
    receive_request,
    send_request,
    watch_children,
)

CONTROL = 3
"""The descriptor on which requests come."""
_MOST_AHEAD = 2
"""How many guards wait at the same time: one for what reads, one for what works."""
_LONGEST_WAIT = 1.0
"""Seconds that a guard forked ahead is waited for; then it is stuck, and another one may not be."""


class Ahead(NamedTuple):
    """A guard that was forked ahead: its number, and the line to it."""

    pid: int
    line: socket.socket


class Zygote:
    """Takes requests from `control` and forks a guard for each, until Foregate closes it and every guard has ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control: socket.socket | None = control
        self._guards: dict[int, GuardKind | None] = {}
        self._ahead: dict[str, Ahead] = {}
        self._mounts = watch_mounts()
        self._woken = watch_children()

    def serve(self) -> None:
        """Serve until nobody asks any more and nothing runs."""
        while self._control or self._guards:
            control = self._control
            watched: list[Any] = [self._woken, control] if control else [self._woken]
            ready, _, _ = select.select(watched, [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if control and control in ready and not self._take_request(control):
                self._control = None
                self._dismiss(0)

    def _take_request(self, control: socket.socket) -> bool:
        """Give the next request to a guard; False when there will be none any more."""
        received = receive_request(control)
        if received is None:
            return False
        body, descriptors = received
        request = json.loads(body)
        kind = find_kind(request["plan"])
        if kind is None or not self._hand_over(kind, body, descriptors):
            self._fork(kind, request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _hand_over(self, kind: GuardKind, body: bytes, descriptors: Sequence[int]) -> bool:
        """Give a request to the guard that was forked ahead for its kind; False where none can take it."""
        if has_changed(self._mounts):
            self._dismiss(0)
        ahead = self._ahead.pop(identify(kind), None)
        if ahead is None:
            return False
        with ahead.line, suppress(OSError):
            if select.select([ahead.line], [], [], _LONGEST_WAIT)[0] and ahead.line.recv(1):
                send_request(ahead.line, body, descriptors)
                return True
        self._guards[ahead.pid] = None
        return False

    def _fork(
        self,
        kind: GuardKind | None,
        request: dict[str, Any] | None,
        descriptors: Sequence[int] = (),
        asked: socket.socket | None = None,
    ) -> int:
        """Fork a guard for a request, or one that waits for it at `asked`."""
        pid = os.fork()
        if pid == 0:
            try:
                for line in (self._control, *(ahead.line for ahead in self._ahead.values())):
                    if line is not None:
                        line.close()
                os.close(self._woken)
                guard(kind, request, descriptors, asked)
            finally:
                # Nothing may return into the parent's half of the fork.
                os._exit(1)
        self._guards[pid] = kind
        return pid

    def _fork_ahead(self, kind: GuardKind) -> None:
        """Fork the guard of the next request, which is likely to be of the same kind as an earlier one."""
        if self._control is None or self._mounts is None:
            return
        if has_changed(self._mounts):
            self._dismiss(0)
        name = identify(kind)
        if name not in self._ahead:
            self._dismiss(_MOST_AHEAD - 1)
            ours, theirs = socket.socketpair()
            # Which the guard closes.
            self._ahead[name] = Ahead(0, ours)
            self._ahead[name] = Ahead(self._fork(kind, None, asked=theirs), ours)
            theirs.close()

    def _dismiss(self, most: int) -> None:
        """Let all but the latest guards go that were forked ahead."""
        for name in [*self._ahead][: max(0, len(self._ahead) - most)]:
            ahead = self._ahead.pop(name)
            ahead.line.close()
            # Once it has gone, no other is forked in its place.
            self._guards[ahead.pid] = None

    def _reap(self) -> None:
        """Take leave of guards that ended, and kill what one that was killed has left."""
        for pid in reap_children():
            kind = self._guards.pop(pid, None)
            if idle := next((name for name, ahead in self._ahead.items() if ahead.pid == pid), ""):
                self._ahead.pop(idle).line.close()
            elif kind is not None:
                self._fork_ahead(kind)
        for pid in list_children(os.getpid()):
            if pid not in self._guards:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def find_kind(plan: Any) -> GuardKind | None:
    """Return the kind of sandbox a plan is for, None where there is no plan."""
    if plan is None:
        return None
    load_all()
    return GuardKind(plan["tier"], load_sandbox("prepared").build_base(plan))


def identify(kind: GuardKind) -> str:
    """Return what tells a kind, as things are now, from every other one."""
    return f"{kind.tier} {load_sandbox('prepared').identify_base(kind.base)}"


def watch_mounts() -> Any:
    """Return what tells whether anything was mounted on this machine, None where nothing does."""
    with suppress(OSError):
        mounts = select.poll()
        mounts.register(os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC), select.POLLERR | select.POLLPRI)
        return mounts
    return None


def has_changed(mounts: Any) -> bool:
    """Whether anything was mounted since this was last asked, or nobody can tell."""
    return mounts is None or bool(mounts.poll(0))
