"""Giving a sandbox access to something outside: what was requested, looked up on this machine and put into its plan."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from foregate.agent.sandbox.plan import GivenAccess, SandboxPlan
from foregate.agent.sandbox.visible import NEVER_AT_HOME, is_inside, list_tokens
from foregate.agent.workspace.secret_values import remember_files
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_beneath
from foregate.schemas.errors import AccessError, WorkspaceError
from foregate.schemas.sandbox import Access

_HTTPS = 443
_MOST = 64


def give_access(plan: SandboxPlan, wanted: Iterable[Access], policy: Policy, *, home: str, own: str) -> SandboxPlan:
    """Return the plan with what is wanted; `home` is the person's home folder and `own` Foregate's.

    Looks at this machine. Raises AccessError, which says why something cannot be given.
    """
    asked = sorted(set(wanted))
    if not asked:
        return plan
    if len(asked) > _MOST:
        raise AccessError(f"no more than {_MOST} things can be given to one call; leave some out")
    names = {kind: [one.name for one in asked if one.kind == kind] for kind in ("network", "port", "socket", "device")}
    folders = {one.name: _check_folder(one.name, plan, policy, home, own) for one in asked if one.kind == "folder"}
    sockets = {path: _check_socket(path, [plan["workspace"], *folders.values()]) for path in names["socket"]}
    limits, is_open = policy.commands.sandbox, "" in names["network"]
    access = GivenAccess(
        network="open" if is_open else "hosts" if names["network"] else "none",
        hosts=[] if is_open else names["network"],
        remote_ports=list(limits.ports) if is_open else [_HTTPS] * bool(names["network"]),
        ports=[int(port) for port in names["port"]],
        sockets=sorted(set(sockets.values())),
        devices=[_check_device(path) for path in names["device"]],
        folders=sorted(set(folders.values())),
        sent_bytes=limits.sent,
        connections=limits.connections,
    )
    links = {path: real for path, real in {**sockets, **folders}.items() if path != real}
    masks = [*plan["masks"], *_list_secrets(access["folders"], policy)]
    if access["sockets"]:
        shown = [*plan["folders"], plan["workspace"], *access["folders"]]
        masks += [path for path in _list_sockets(shown) if path not in access["sockets"]]
    return {**plan, "access": access, "links": {**plan["links"], **links}, "masks": masks}


def check_secrets_stay(plan: SandboxPlan, secrets: Iterable[str]) -> None:
    """Refuse a sandbox that sees a secret and has a way out; paths are relative to the workspace or absolute.

    Raises WorkspaceError. Pure.
    """
    access = plan["access"]
    if access["network"] == "none" and not access["ports"] and not access["sockets"]:
        return
    for path in secrets:
        whole = os.path.normpath(f"{plan['workspace']}/{path}") if not path.startswith("/") else path
        if not is_inside(whole, plan["masks"]):
            raise WorkspaceError(
                f"nothing ran: `{path}` holds secrets, and no program may see them and reach something outside; "
                "leave out the file or the access"
            )


def _check_socket(path: str, changing: Iterable[str]) -> str:
    real = os.path.realpath(path)
    if is_inside(real, changing):
        raise AccessError(f"`{path}` lies where the command could put another in its place; move the socket elsewhere")
    if not _is_kind(real, stat.S_ISSOCK):
        raise AccessError(f"`{path}` is no Unix socket here; start its service, or name another")
    return real


def _check_device(path: str) -> str:
    if os.path.realpath(path) != path or not _is_kind(path, stat.S_ISCHR):
        raise AccessError(f"`{path}` is no character device here; name another")
    return path


def _check_folder(path: str, plan: SandboxPlan, policy: Policy, home: str, own: str) -> str:
    real, home, own = (os.path.realpath(one) for one in (path, home, own))
    if not is_inside(real, [home]) or real == home:
        raise AccessError(f"`{path}` is no folder of your home; only those, and not the whole of it, can be given")
    if not _is_kind(real, stat.S_ISDIR):
        raise AccessError(f"`{path}` is no folder; make it first, or name another")
    if _overlap(real, own) or _overlap(real, plan["workspace"]):
        raise AccessError(f"`{path}` overlaps the workspace or what Foregate keeps for itself; name a narrower folder")
    never = [f"{home}/{name}" for name in NEVER_AT_HOME]
    if is_inside(real, never) or is_beneath(os.path.relpath(real, home), policy.files.secret):
        raise AccessError(f"`{path}` is kept for secrets and settings, and is given to no command; name another")
    return real


def _overlap(one: str, other: str) -> bool:
    return is_inside(one, [other]) or is_inside(other, [one])


def _is_kind(path: str, test: Callable[[int], bool]) -> bool:
    try:
        return test(os.lstat(path).st_mode)
    except OSError:
        return False


def _list_secrets(folders: Iterable[str], policy: Policy) -> list[str]:
    patterns = policy.files.secret
    found = [f"{one}/{path}" for one in folders for path in remember_files(Path(one), patterns).find()]
    return [*found, *list_tokens(folders)]


def _list_sockets(shown: Sequence[str]) -> list[str]:
    """Return the Unix sockets in what a sandbox shows, where a command that may connect to one may to others as well.

    A view of its own cuts them off in a workspace, a read-only folder does not.
    """
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - no plain file
        paths = {line.rstrip("\n").split(" ", 7)[-1] for line in file}
    return sorted(path for path in paths if path.startswith("/") and is_inside(path, shown))
