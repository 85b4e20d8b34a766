"""What is made before it is asked for: what all sandboxes show alike, and a process that waits for its command."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn, TypedDict, TypeVar

from foregate.agent.sandbox.guard import receive_request, send_request
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


class Base(TypedDict):
    """The part of a `Plan` that does not say what its command works on; the names are those of the plan.

    It leaves out what lies in the workspace, in a folder the command may write to, or in a layer over a folder of the
    machine, and each folder around these. `processes` is their bound, 0 for none.
    """

    home: str
    folders: list[str]
    links: dict[str, str]
    layers: dict[str, str]
    masks: list[str]
    scratch: str
    scratch_bytes: int
    processes: int


def build_base(plan: SandboxPlan) -> Base:
    """Return the base of a plan."""
    over = [path for path in plan["layers"] if os.path.isdir(path)]  # noqa: PTH112 - for each call
    later = [plan["workspace"], *plan["access"]["folders"], *over]
    later += [path for path in plan["folders"] if any(_is_in(one, [path]) for one in later)]
    folders = [path for path in plan["folders"] if not _is_in(path, later)]
    return Base(
        home=plan["home"],
        folders=folders,
        links={path: to for path, to in plan["links"].items() if not _is_in(path, later)},
        layers={path: store for path, store in plan["layers"].items() if not _is_in(path, later)},
        masks=[path for path in plan["masks"] if _is_in(path, folders)],
        scratch=plan["scratch"],
        scratch_bytes=plan["scratch_bytes"],
        processes=plan["limits"].get("processes", 0),
    )


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)


def identify_base(base: Base) -> str:
    """Return what tells a base, with all that its names stand for now, from every other one."""
    shown = [*base["folders"], *(f"{store}/upper" for store in base["layers"].values()), *base["masks"]]
    holders = sorted({up for mask in base["masks"] for up in list_above(mask)})
    return json.dumps([base, [_identify(path)[:2] for path in shown], [_identify(path) for path in holders]])


def _identify(path: str) -> tuple[int, int, int]:
    """Return which file is at a path, and when a name last entered or left it; zeros for no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for each call, and there are many
    except OSError:
        return 0, 0, 0
    return found.st_dev, found.st_ino, found.st_ctime_ns


def list_above(path: str) -> Iterable[str]:
    """Yield the folders above a path, but for the root."""
    while path := path.rpartition("/")[0]:
        yield path
