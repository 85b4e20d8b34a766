"""Runs a command in a read sandbox, from inside a mount namespace of the test's own: `python -IS launch.py`.

A request as JSON comes on standard input (`plan`, `command`, `user`, a number or null, `mounted`, a folder to mount an
empty file system on, `landlock`, a version to take the kernel's for, and `line`, a socket to hand sockets out by);
streams 1 and 2 are pipes. It ends as the command ends; a failed step is written to stream 2 as JSON, with exit code
125. With `serve` standard input is a socket by which many requests come, each run in a fork; see `serve_requests`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[3]
for name in ("foregate", "foregate.agent", "foregate.agent.sandbox"):  # none of Foregate but this one folder
    sys.modules[name] = package = ModuleType(name)
    package.__path__ = [str(ROOT / "agent/sandbox")]

from foregate.agent.sandbox import confine, limited  # noqa: E402
from foregate.agent.sandbox.guard import receive_request  # noqa: E402
from foregate.agent.sandbox.namespaces import attach, make_all_private, make_mount  # noqa: E402
from foregate.agent.sandbox.plan import Failure, SandboxCommand, SandboxPlan  # noqa: E402
from foregate.agent.sandbox.prepared import build_base, fail  # noqa: E402
from foregate.agent.sandbox.restrictions import require_landlock  # noqa: E402
from foregate.agent.sandbox.system_calls import PR_SET_PDEATHSIG, call  # noqa: E402
from foregate.agent.sandbox.watch import Scratch  # noqa: E402


def enter_outer_namespace(user: int | None, mounted: str | None = None) -> None:
    """Go where no mount can reach the machine, see that it is so, mount something there, and become the user."""
    if os.geteuid() == 0:
        call("unshare", 0x20000)
    else:
        here, group = os.geteuid(), os.getegid()
        call("unshare", 0x10020000)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{here} {here} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    make_all_private()
    assert "shared:" not in Path("/proc/self/mountinfo").read_text(), "the outer namespace is not private"
    if mounted is not None:
        attach(make_mount("tmpfs", 0), mounted)
        Path(mounted, "there").touch()
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def keep_sandbox(plan: SandboxPlan, command: SandboxCommand, report: int, line: int | None, scratch: str) -> NoReturn:
    """Start the command in a sandbox and end as it ends: with its exit code, or by its signal."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        if plan["tier"] == "limited":
            prepared = limited.prepare(build_base(plan))
            limited.start_prepared(prepared, plan, command, (0, 1, 2), report, scratch)
        else:
            prepared = confine.prepare(build_base(plan))
            more, is_served = ([], False) if line is None else ([line], True)
            confine.start_prepared(prepared, plan, command, (0, 1, 2), report, more, is_served=is_served)
    except BaseException as error:
        fail(error, report)
    for descriptor in (0, 1, 2, report):
        os.close(descriptor)
    status = confine.read_end(prepared, os.waitpid(prepared.pid, 0)[1])
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def serve_requests(asked: socket.socket) -> None:
    """Run each request that comes, until none comes any more, in a process of its own that has loaded all of this.

    Four descriptors come with each: streams 1 and 2, one that is passed on, and where two words of eight bytes are
    told, the number of the process and, once it has ended, its status.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while received := receive_request(asked):
        body, descriptors = received
        if os.fork() == 0:
            _run_told(body, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _run_told(body: bytes, out: int, errors: int, passed: int, told: int) -> None:
    """Run a request in a child, and in the parent, which does not return, tell what becomes of it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        for stream, descriptor in enumerate((out, errors), start=1):
            os.dup2(descriptor, stream)
            os.close(descriptor)
        os.close(told)
        os.set_inheritable(passed, True)
        run_request(json.loads(body))
    for descriptor in (out, errors, passed):
        os.close(descriptor)
    os.write(told, child.to_bytes(8))
    os.write(told, os.waitpid(child, 0)[1].to_bytes(8))
    os._exit(0)


def run_request(request: dict[str, Any]) -> NoReturn:
    """Run a request, and end as its command ends."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    try:
        enter_outer_namespace(request["user"], request.get("mounted"))
    except OSError as error:
        failure = Failure(step="namespaces", number=error.errno or 0, sentence=f"no outer namespace: {error}")
        sys.stderr.write(json.dumps(failure))
        sys.exit(125)
    result, report = os.pipe()
    plan = request["plan"]
    scratch = Scratch(plan["scratch"]) if plan["tier"] == "limited" else None
    child = os.fork()
    if child == 0:
        os.setsid()
        if scratch is not None:
            limited.require_landlock = lambda: request["landlock"] or require_landlock()
        private = "" if scratch is None else scratch.path
        keep_sandbox(plan, request["command"], report, request.get("line"), private)
    os.close(report)
    with open(result, "rb") as reports:
        told = reports.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if scratch is not None:
        scratch.remove()
    if told:
        sys.stderr.write(told.decode())
        code = 125
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve_requests(socket.socket(fileno=0))
    else:
        run_request(json.load(sys.stdin))
