"""Whether this machine can hold a read sandbox: found out by running one, and what to do where it cannot."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Literal, TypedDict

from foregate.agent.sandbox.confine import confine_read
from foregate.agent.sandbox.plan import Command, Failure, Plan

_SHELL = "/bin/sh"
_TRY = 'test -r . && test ! -w . && test ! -w / && test -w "$HOME" && test -r /proc/self/status'
_REFUSED = (errno.EPERM, errno.EACCES)


class Probe(TypedDict):
    """What a machine can do: the tier, and where it is `none`, why, and how it can be changed ("" for not)."""

    tier: Literal["full", "limited", "none"]
    reason: str
    cure: str


def probe(plan: Plan) -> Probe:
    """Run a shell in the sandbox of the plan that looks whether it is held. Called in a process with one thread."""
    environment = {"HOME": plan["home"], "PATH": os.defpath}
    command = Command(program=_SHELL, argv=["sh", "-c", _TRY], environment=environment, folder=plan["workspace"])
    result, report = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        confine_read(plan, command, parent, report)
    os.close(report)
    with open(result, "rb") as reports:  # noqa: PTH123 - a descriptor
        written = reports.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if written:
        return explain(json.loads(written))
    if code:
        return Probe(tier="none", reason=f"a sandbox started and did not hold (exit code {code})", cure="")
    return Probe(tier="full", reason="", cure="")


def explain(failure: Failure) -> Probe:
    """Return what a failed step means for a person, from what this system says about itself."""
    reason, cure = failure["sentence"], ""
    refused = failure["number"] in _REFUSED
    if failure["step"] == "machine":
        cure = "use Linux on x86_64 or aarch64"
    elif failure["number"] == errno.ENOSYS:
        reason, cure = f"{reason} (Linux {os.uname().release})", "use Linux 5.12 or later"
    elif failure["step"] in ("overlay", "workspace"):
        cure = "use a workspace on a local file system into which no other is mounted"
    elif _read_setting("kernel/unprivileged_userns_clone") == "0" and refused:
        reason = "ordinary users may not make namespaces on this system"
        cure = "sysctl kernel.unprivileged_userns_clone=1"
    elif _read_setting("user/max_user_namespaces") == "0":
        reason, cure = "user namespaces are turned off on this system", "sysctl user.max_user_namespaces=10000"
    elif _read_setting("kernel/apparmor_restrict_unprivileged_userns") == "1" and refused and os.geteuid() != 0:
        reason = "AppArmor takes all capabilities from the namespaces of ordinary users"
        cure = (
            "give the Python that runs Foregate an AppArmor profile with `userns,`, or, for every program, "
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    elif failure["step"] == "proc" and refused:
        reason = "this container hides parts of /proc, so that none of its own can be mounted"
        cure = "start the container with `--security-opt systempaths=unconfined` (podman: `unmask=ALL`)"
    elif failure["step"] == "namespaces" and refused:
        reason = "this container, or a filter on this process, forbids namespaces of its own"
        cure = "start the container with a seccomp profile that allows unshare and mount, or run Foregate outside of it"
    return Probe(tier="none", reason=reason, cure=cure)


def _read_setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""
