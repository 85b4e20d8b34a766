"""The way into the tier `limited`: the program itself gives up what it may do, on a machine without namespaces."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from foregate.agent.sandbox.bpf import load_filter
from foregate.agent.sandbox.capabilities import drop_capabilities
from foregate.agent.sandbox.confine import close_others, die_with_parent, fail, open_null, take_streams
from foregate.agent.sandbox.grants import build_rules
from foregate.agent.sandbox.landlock import require_landlock
from foregate.agent.sandbox.limits import limit_resources
from foregate.agent.sandbox.plan import Command, Limits, Plan
from foregate.agent.sandbox.seccomp_limited import build_limited_filter
from foregate.agent.sandbox.system_calls import StepFailed, name_step

_AT_HOME = {"GOMODCACHE": "go/pkg/mod", "PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup"}


def confine_limited(plan: Plan, command: Command, parent: int, report: int, scratch: str) -> NoReturn:
    """Become the command, held by Landlock and by a filter of system calls; `scratch` is its private folder.

    Called in a forked child of a process with one thread, which leads a session of its own. It is killed when `parent`
    dies; what it has started is for `parent` to end, and for whoever reaps after it. Streams and `report` are as in
    `start_confined`.
    """
    try:
        die_with_parent(parent)
        take_streams()
        open_null()
        report = close_others(report)
        landlock = require_landlock()
        if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
            raise StepFailed("tree", 0, "this system does not tell which processes a command has started")
        rules = build_rules(landlock, plan, scratch)
        program = build_limited_filter(landlock, os.getpid())
        with name_step("folder", f"the folder {command['folder']} cannot be entered in the sandbox"):
            os.chdir(command["folder"])
        limit_resources(_leave_room(plan["limits"]))
        environment = _adapt(command["environment"], plan, scratch)
        drop_capabilities()
        # From here on Python itself can load nothing more.
        with name_step("landlock", "the rules of Landlock could not be enforced"):
            rules.enforce()
        load_filter(program)
        with name_step("start", f"{command['program']} cannot be started in the sandbox"):
            os.execve(command["program"], command["argv"], environment)  # noqa: S606 - judged before
    except BaseException as error:  # nothing may return into the caller's half of the fork
        fail(error, report)


def _adapt(environment: dict[str, str], plan: Plan, scratch: str) -> dict[str, str]:
    """Return the environment with the private folders in it, which have no place of their own here.

    What a toolchain looks for in HOME it is told where to find.
    """
    home = {"HOME": f"{scratch}/home"} if environment.get("HOME") == plan["home"] else {}
    places = {name: f"{plan['home']}/{folder}" for name, folder in _AT_HOME.items() if home}
    found = {name: path for name, path in places.items() if path in plan["folders"]}
    return {**found, **environment, **home, "TMPDIR": f"{scratch}/tmp"}  # noqa: S108 - a private one


def _leave_room(limits: Limits) -> Limits:
    """Return the limits with a bound of processes that leaves room for those this user already has.

    The kernel counts all of a user's, and tells only how many the machine has; the guard counts those of the call.
    """
    if "processes" not in limits:
        return limits
    running = Path("/proc/loadavg").read_bytes().split()[3].partition(b"/")[2]
    return {**limits, "processes": limits["processes"] + int(running)}
