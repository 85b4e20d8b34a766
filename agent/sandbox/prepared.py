"""A process that is made ahead, gets ready, and waits until it is told which command it is to run in which sandbox."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, TypeVar

from foregate.agent.sandbox.handover import receive_request, send_request
from foregate.agent.sandbox.plan import Failure, SandboxCommand, SandboxPlan
from foregate.agent.sandbox.system_calls import PR_SET_PDEATHSIG, StepFailed, call

NOT_STARTED = 125
_STREAMS = 3
_Ready = TypeVar("_Ready")


class Prepared(NamedTuple):
    """A process in which nothing of a command runs yet, and the line to it."""

    pid: int
    line: socket.socket


class Given(NamedTuple):
    """What a prepared process is told. `more` are further descriptors, in the order in which they were sent.

    `report` is the writing end of a pipe. It closes when the command's program has started, and takes a `Failure` as
    JSON when a step before failed.
    """

    plan: SandboxPlan
    command: SandboxCommand
    has_view: bool
    is_served: bool
    scratch: str
    streams: list[int]
    report: int
    more: list[int]


def tell_command(
    line: socket.socket,
    plan: SandboxPlan,
    command: SandboxCommand,
    descriptors: Sequence[int],
    *,
    has_view: bool = False,
    is_served: bool = False,
    scratch: str = "",
) -> None:
    """Tell a prepared process what to run; `descriptors` are three streams, the report, and more."""
    told = {"plan": plan, "command": command, "has_view": has_view, "is_served": is_served, "scratch": scratch}
    send_request(line, json.dumps(told).encode(), descriptors)


def wait_for_command(line: socket.socket, get_ready: Callable[[], _Ready]) -> tuple[Given, _Ready]:
    """Get ready and wait for the command. What failed meanwhile is reported once there is one, and then this ends.

    It ends as well where nobody asks any more.
    """
    failure: BaseException | None = None
    try:
        ready = get_ready()
    except BaseException as error:
        failure = error
    try:
        received = receive_request(line)
        assert received is not None
        body, (*streams, report), more = received[0], received[1][: _STREAMS + 1], received[1][_STREAMS + 1 :]
        given = Given(**json.loads(body), streams=streams, report=report, more=more)
    except BaseException:
        os._exit(NOT_STARTED)
    if failure is not None:
        fail(failure, report)
    return given, ready


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


def die_with_parent(line: socket.socket) -> None:
    """Be killed when the parent dies, also when it did just before: then nobody holds the other end of `line`."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    looked = select.poll()
    looked.register(line, 0)
    if looked.poll(0):
        os._exit(NOT_STARTED)
