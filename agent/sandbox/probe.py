"""What a machine can hold: the line of a shell that finds out in a sandbox, and what a failed step means."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Literal, TypedDict

from foregate.agent.sandbox.plan import Failure

TRY = {
    "full": 'test -r . && test ! -w . && test ! -w / && test -w "$HOME" && test -r /proc/self/status',
    # The modes of files tell nothing here, so that each thing is really tried; $PPID is the guard outside.
    "limited": 'exec 2>/dev/null; ls . >"$HOME/list" && ! ls / && ! ls "$HOME/../.." && ! chmod 700 "$HOME" && '
    "! kill -0 $PPID && ! (: </proc/$PPID/status) && ! (: >./.foregate-try) || { rm ./.foregate-try; exit 1; }",
}
"""By tier, the line of a shell that ends with 0 where a sandbox that shows a workspace holds."""
_REFUSED = (errno.EPERM, errno.EACCES)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""What a machine says that has sandboxes and is short of something now."""


class Probe(TypedDict):
    """What a machine can do: the tier, and where it is not `full`, why, and how it can be changed ("" for not)."""

    tier: Literal["full", "limited", "none"]
    reason: str
    cure: str


def is_passing(step: str, number: int) -> bool:
    """Whether a step failed by a fault of ours or for want of something, which says nothing about the machine.

    Taken for a machine without sandboxes, it would let commands run unheld that are held there.
    """
    # A kernel without user namespaces says ENOSPC as well.
    is_full = number in _FULL and step in ("upper", "layers", "scratch")
    return step == "fault" or number in _PASSING or is_full


def explain(failure: Failure) -> Probe:
    """Return what a failed step means for a person, from what this system says about itself."""
    reason, cure = failure["sentence"], ""
    refused = failure["number"] in _REFUSED
    if failure["step"] == "machine":
        cure = "use Linux on x86_64 or aarch64"
    elif failure["step"] == "landlock" and not failure["number"]:
        cure = "use Linux 5.13 or later and start it with `landlock` among the modules of `lsm=`"
    elif failure["step"] == "scratch":
        cure = "set TMPDIR to a folder this user can write to"
    elif failure["number"] == errno.ENOSYS:
        reason, cure = f"{reason} (Linux {os.uname().release})", "use Linux 5.12 or later"
    elif failure["step"] in ("upper", "layers") and failure["number"] in _FULL:
        cure = "free some space there and start anew"
    elif failure["step"] == "fault":
        cure = "install Foregate again, and report it where that does not help"
    elif failure["step"] in ("overlay", "workspace"):
        cure = "use a workspace on a local file system into which no other is mounted"
    elif failure["step"] == "upper":
        cure = "keep Foregate's own folder outside the workspace, on a local file system that is no overlay (ext4, xfs)"
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
