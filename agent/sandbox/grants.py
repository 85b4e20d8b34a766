"""The files a command of the tier `limited` may open: those its plan lists, found here without following a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from foregate.agent.sandbox.base import Base, list_above
from foregate.agent.sandbox.landlock import EXECUTE, LIST, MAKE_DEVICES, READ, WRITE, LandlockRules, list_all_rights
from foregate.agent.sandbox.plan import SandboxPlan, build_no_access
from foregate.agent.sandbox.system_calls import StepFailed, name_step

_SEEN = EXECUTE | READ | LIST
_FILES = {
    READ: "/dev/random /dev/urandom /dev/zero",
    READ | WRITE: "/dev/full /dev/null",
    # What the kernel tells about itself and the machine.
    READ | LIST: "/proc/cpuinfo /proc/filesystems /proc/loadavg /proc/meminfo /proc/stat /proc/uptime /proc/version "
    "/proc/vmstat /proc/sys/fs /proc/sys/kernel /proc/sys/vm",
}
# Not its whole folder in /proc, which also shows the network, and never the folders of other processes.
_OWN = "auxv cgroup cmdline comm environ fd fdinfo io limits maps mountinfo mounts smaps smaps_rollup stat statm status"
_ITSELF = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def grant_base(version: int, base: Base) -> Grants:
    """Return what the command of a plan with this base may do with files outside its workspace.

    This process becomes the command. What its children would read of themselves in `/proc` is not among it: no rule can
    name what is not there yet. Raises StepFailed.
    """
    with name_step("landlock", "the rules of Landlock could not be set"):
        grants = Grants(LandlockRules(version, list_all_rights(version), alone=True), base["masks"])
        for rights, names in _FILES.items():
            for path in names.split():
                grants.add(path, rights)
        for name in _OWN.split():
            grants.add(f"/proc/{os.getpid()}/{name}", READ | LIST)
        for path in base["folders"]:
            grants.add(path, _SEEN)
    return grants


def grant_rest(version: int, grants: Grants, base: Base, plan: SandboxPlan, scratch: str) -> None:
    """Grant the command of a plan the rest, above all its workspace.

    The names in a folder that holds a masked path can be listed, and nothing masked can be opened. Raises StepFailed.
    """
    workspace, masks = plan["workspace"], set(plan["masks"])
    if plan["writable"] and (plan["kept"] or any(workspace in list_above(mask) for mask in masks)):
        raise StepFailed(
            "masks", 0, f"nothing in the workspace {workspace} can be held back from a command that writes"
        )
    if plan["upper"] or plan["layers"] or plan["access"] != build_no_access():
        raise StepFailed("access", 0, "without namespaces no copy of the workspace and no access outside can be given")
    grants.mask(masks)
    with name_step("landlock", "the rules of Landlock could not be set"):
        for path in plan["folders"]:
            if path not in base["folders"]:
                grants.add(path, _SEEN)
    every = list_all_rights(version) & ~MAKE_DEVICES
    with name_step("workspace", f"the workspace {workspace} cannot be shown in a sandbox"):
        os.listdir(workspace)  # noqa: PTH208 - pathlib takes long to import
        grants.add(workspace, every if plan["writable"] else _SEEN)
        grants.add(scratch, every)


class Grants:
    """Rules, and the paths that get none."""

    def __init__(self, rules: LandlockRules, masks: Iterable[str]) -> None:
        self.rules = rules
        self.mask(masks)

    def mask(self, masks: Iterable[str]) -> None:
        """Grant nothing of these paths from now on, and of others again."""
        self._masks = set(masks)
        self._holders = {above for mask in self._masks for above in list_above(mask)}

    def add(self, path: str, rights: int, above: int | None = None) -> None:
        """Allow rights on what is at a path, and in it, but for masks and links; nothing where nobody can look.

        Landlock only knows how to allow: a folder that holds a mask is allowed entry by entry. `above` is its folder.
        """
        if path in self._masks:
            return
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            file = os.open(path if above is None else path.rpartition("/")[2], _ITSELF, dir_fd=above)
            try:
                self._add_opened(file, path, rights)
            finally:
                os.close(file)

    def _add_opened(self, file: int, path: str, rights: int) -> None:
        mode = os.fstat(file).st_mode
        if stat.S_ISLNK(mode):
            return
        if path not in self._holders:
            self.rules.grant(file, rights, folder=stat.S_ISDIR(mode))
            return
        self.rules.grant(file, rights & LIST)
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=file)
        try:
            names = os.listdir(folder)  # noqa: PTH208 - a descriptor is no path
        finally:
            os.close(folder)
        for name in names:
            self.add(f"{path}/{name}", rights, file)
