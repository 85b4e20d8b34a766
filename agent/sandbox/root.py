"""The root folder a sandboxed command sees, built from a plan: nothing of the machine but what is listed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.landlock import has_landlock
from foregate.agent.sandbox.limits import limit_process_numbers
from foregate.agent.sandbox.masks import copy_metadata, lay_masks
from foregate.agent.sandbox.mounts import (
    NO_DEVICES,
    NO_PROGRAMS,
    NO_SETUID,
    READ_ONLY,
    attach,
    change_root,
    clone_tree,
    detach,
    make_all_private,
    make_mount,
    restrict,
    restrict_at,
)
from foregate.agent.sandbox.openings import show_openings
from foregate.agent.sandbox.plan import Plan
from foregate.agent.sandbox.system_calls import name_step
from foregate.agent.sandbox.view import make_layer, make_view

_SEEN = READ_ONLY | NO_SETUID | NO_DEVICES
_DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_BUILD = "/.build"
_INODES = "65536"
# What can be missing without harm: it is then not seen inside either.
_UNSEEN = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


def build_root(plan: Plan, view: int | None = None) -> list[str]:
    """Replace the root of this mount namespace by the one of the plan, and return the folders one may write in.

    `view` is the workspace as a mount, where it was made before; see `make_early_view`. The caller is the first process
    of its process namespace and in a mount namespace of its own. Raises StepFailed.
    """
    with name_step("private", "the mounts could not be made private"):
        make_all_private()
    workspace = plan["workspace"]
    if plan["upper"] and view is None:
        view = make_view(plan)
    beside = [path for path in plan["layers"] if not _is_below(f"{path}/", workspace)]
    layers = {path: make_layer(path, plan["layers"][path]) for path in beside}
    access = plan["access"]
    with name_step("proc", "a /proc of its own could not be mounted"):
        processes = make_mount("proc", NO_SETUID | NO_DEVICES | NO_PROGRAMS)
        limit_process_numbers(processes, plan["limits"])
        # Root owns everything in /proc/sys, and needs no capability to write there.
        restrict(processes, READ_ONLY)
    with name_step("clone", "what the sandbox shows could not be cloned"):
        shown = [folder for folder in plan["folders"] if not _is_below(folder, workspace)]
        trees = {folder: tree for folder in shown if (tree := _clone_if_there(folder)) is not None}
        trees |= {folder: clone_tree(folder, NO_SETUID | NO_DEVICES) for folder in access["folders"]}
        nodes = (*_DEVICES, *access["devices"])
        devices = {node: clone_tree(node, READ_ONLY | NO_SETUID | NO_PROGRAMS) for node in nodes}
    with name_step("workspace", f"the workspace {workspace} cannot be shown in a sandbox"):
        bare = None if view else clone_tree(workspace, NO_SETUID | NO_DEVICES if plan["writable"] else _SEEN)
    with name_step("root", "the root of the sandbox could not be mounted"):
        attach(make_mount("tmpfs", NO_SETUID | NO_DEVICES, size="4m", nr_inodes=_INODES, mode="755"), workspace)
        change_root(workspace)
        scratch = make_mount("tmpfs", NO_SETUID | NO_DEVICES, size=str(plan["scratch_bytes"]), nr_inodes=_INODES)
        _attach_at(scratch, _BUILD)
    with name_step("overlay", f"the workspace {workspace} cannot be laid under a view of its own"):
        if bare and not plan["writable"]:
            view = _overlay(bare, workspace, plan["masks"])
        trees[workspace] = view or bare or 0
    with name_step("layout", "what the sandbox shows could not be put in place"):
        for path in sorted({*trees, *layers, plan["home"], "/tmp", "/dev/shm"}):  # noqa: S108 - the sandbox's own
            if path in trees or path not in layers:
                _attach_at(trees.get(path) or _make_scratch(path), path)
            elif _can_be_folder(path):
                attach(layers[path], path)
        _attach_at(processes, "/proc")
        for device, tree in devices.items():
            _attach_at(tree, device)
        for link, target in [*plan["links"].items(), *((f"/dev/{name}", to) for name, to in _DEVICE_LINKS.items())]:
            _link(link, target)
    with name_step("masks", "the masked files could not be covered"):
        _cover(mask for mask in plan["masks"] if view is None or not _is_below(mask, workspace))
    with name_step("kept", "what stays as it is in the workspace could not be held"):
        # A folder on which something is mounted cannot be renamed; one around it can, unless it is a mount as well.
        for folder in sorted({str(up) for path in plan["kept"] for up in Path(path).parents}):
            if _is_below(folder, workspace) and Path(folder).is_dir():
                attach(clone_tree(folder, NO_SETUID | NO_DEVICES), folder)
        for path in plan["kept"]:
            if not Path(path).is_symlink() and (tree := _clone_if_there(path)) is not None:
                attach(tree, path)
    with name_step("openings", "what the sandbox is given of the world outside could not be put in place"):
        show_openings(access, _BUILD)
    with name_step("seal", "the root of the sandbox could not be made read-only"):
        detach(_BUILD)
        Path(_BUILD).rmdir()
        restrict_at("/", _SEEN)
    # Landlock allows a folder with all that is mounted below it, and a bare workspace may have none above it.
    writable = (plan["home"], "/tmp", "/dev")  # noqa: S108 - the sandbox's own
    if plan["writable"] or plan["upper"]:
        return [*writable, workspace, *filter(os.path.isdir, layers)]
    return [folder for folder in writable if view is not None or not _is_below(workspace, folder)]


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _can_be_folder(path: str) -> bool:
    """Whether there is a folder, or could be made one: in a toolchain that is shown read-only there cannot."""
    with suppress(OSError):
        Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
    return Path(path).is_dir()


def _clone_if_there(path: str) -> int | None:
    try:
        return clone_tree(path, _SEEN)
    except OSError as error:
        if error.errno not in _UNSEEN:
            raise
        return None


def _attach_at(mount: int, path: str) -> None:
    """Attach a mount at a path that may not exist yet; above it there is only what this file has made or mounted."""
    is_folder = stat.S_ISDIR(os.fstat(mount).st_mode)
    os.makedirs(path if is_folder else os.path.dirname(path), mode=0o755, exist_ok=True)  # noqa: PTH103,PTH120
    if not is_folder:
        Path(path).touch()
    attach(mount, path)


def _make_scratch(path: str) -> int:
    """Return a mount of an empty folder; all of them share one file system, and so one bound."""
    folder = Path(_BUILD, path.replace("/", "_"))
    folder.mkdir(0o700)
    folder.chmod(0o700 if path not in ("/tmp", "/dev/shm") else 0o1777)  # noqa: S108 - the sandbox's own
    return clone_tree(str(folder), NO_SETUID | NO_DEVICES)


def _link(path: str, target: str) -> None:
    """Make a link where nothing is; a folder that is shown read-only already has its own."""
    if not os.path.lexists(path):
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Path(path).symlink_to(target)


def _overlay(bare: int, workspace: str, masks: Iterable[str]) -> int | None:
    """Return a read-only view of the workspace in which the masked paths do not exist, and let go of the bare one.

    A view of its own also cuts the way to whoever listens behind a named pipe or socket in the workspace: on a mere
    read-only mount both can still be written to. None where the kernel refuses one, as it does when another file
    system is mounted in the workspace or the workspace lies on two overlays, and Landlock holds the pipes instead.
    """
    below, above = Path(_BUILD, "below"), Path(_BUILD, "above")
    _attach_at(os.dup(bare), str(below))
    above.mkdir()
    lay_masks(below, above, [Path(mask).relative_to(workspace) for mask in masks if _is_below(mask, workspace)])
    copy_metadata(below, above)
    # A folder in both layers shows size and times of the upper one, so that one is the workspace where it can be.
    layers = (above, below) if any(above.iterdir()) else (below, above)
    try:
        view = make_mount("overlay", _SEEN, lowerdir=":".join(map(str, layers)), userxattr=None)
    except OSError as error:
        if error.errno != errno.EINVAL or not has_landlock():
            raise
        return None
    detach(str(below))
    os.close(bare)
    return view


def _cover(masks: Iterable[str]) -> None:
    """Put something empty that nobody may open over each path that is there."""
    file, folder = Path(_BUILD, "file"), Path(_BUILD, "folder")
    file.touch(0o000)
    folder.mkdir(0o000)
    for path in masks:
        try:
            kind = folder if stat.S_ISDIR(Path(path).stat().st_mode) else file
        except OSError as error:
            if error.errno not in _UNSEEN:
                raise
        else:
            attach(clone_tree(str(kind), _SEEN), os.path.realpath(path))
