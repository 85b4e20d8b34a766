"""The root folder a sandboxed command sees, built from a plan: nothing of the machine but what is listed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from foregate.agent.sandbox.namespaces import (
    NO_DEVICES,
    NO_PROGRAMS,
    NO_SETUID,
    READ_ONLY,
    attach,
    change_root,
    clone_tree,
    copy_metadata,
    detach,
    lay_masks,
    make_all_private,
    make_mount,
    restrict,
    restrict_at,
)
from foregate.agent.sandbox.openings import show_openings
from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.prepared import Base
from foregate.agent.sandbox.restrictions import has_landlock, limit_process_numbers
from foregate.agent.sandbox.system_calls import name_step
from foregate.agent.sandbox.view import make_layer, make_view

_SEEN = READ_ONLY | NO_SETUID | NO_DEVICES
_DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_BUILD = "/.build"
_OLD = "/.old"
_ROOT = "/proc"
"""Where the new root is put first: a folder that is there."""
_INODES = "65536"
# What can be missing without harm: it is then not seen inside either.
_UNSEEN = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


def build_base_root(base: Base) -> None:
    """Replace the root of this mount namespace by one with a base in it, and keep the old one in `_OLD`.

    The caller is the first process of its process namespace and in a mount namespace of its own. Raises StepFailed.
    """
    with name_step("private", "the mounts could not be made private"):
        make_all_private()
    layers = {path: make_layer(path, store) for path, store in base["layers"].items()}
    with name_step("proc", "a /proc of its own could not be mounted"):
        processes = make_mount("proc", NO_SETUID | NO_DEVICES | NO_PROGRAMS)
        limit_process_numbers(processes, base["processes"])
        # Root owns everything in /proc/sys, and needs no capability to write there.
        restrict(processes, READ_ONLY)
    with name_step("clone", "what the sandbox shows could not be cloned"):
        trees = _clone_those_there(base["folders"])
        devices = {node: clone_tree(node, READ_ONLY | NO_SETUID | NO_PROGRAMS) for node in _DEVICES}
    with name_step("root", "the root of the sandbox could not be mounted"):
        attach(make_mount("tmpfs", NO_SETUID | NO_DEVICES, size="4m", nr_inodes=_INODES, mode="755"), _ROOT)
        change_root(_ROOT, _OLD)
        scratch = make_mount("tmpfs", NO_SETUID | NO_DEVICES, size=str(base["scratch_bytes"]), nr_inodes=_INODES)
        _attach_at(scratch, _BUILD)
    with name_step("layout", "what the sandbox shows could not be put in place"):
        trees |= {path: _make_scratch(path) for path in (base["home"], "/tmp", "/dev/shm") if path not in trees}  # noqa: S108 - the sandbox's own
        _lay_out({**trees, "/proc": processes, **devices}, layers)
        _make_links({**base["links"], **{f"/dev/{name}": to for name, to in _DEVICE_LINKS.items()}})
    with name_step("masks", "the masked files could not be covered"):
        _cover(base["masks"])


def finish_root(base: Base, plan: SandboxPlan, view: int | None = None) -> list[str]:
    """Put the rest of a plan into the root with its base, and return the folders one may write in.

    `view` is the workspace as a mount, where it was made before; see `make_early_view`. Raises StepFailed.
    """
    workspace, access = plan["workspace"], plan["access"]
    with _see_old_root():
        if plan["upper"] and view is None:
            view = make_view(plan)
        beside = [path for path in plan["layers"] if path not in base["layers"]]
        layers = {path: make_layer(path, plan["layers"][path]) for path in beside if not _is_below(path, workspace)}
        with name_step("clone", "what the sandbox shows could not be cloned"):
            shown = [folder for folder in plan["folders"] if folder not in base["folders"]]
            trees = _clone_those_there(folder for folder in shown if not _is_below(folder, workspace))
            trees |= {folder: clone_tree(folder, NO_SETUID | NO_DEVICES) for folder in access["folders"]}
            trees |= {node: clone_tree(node, READ_ONLY | NO_SETUID | NO_PROGRAMS) for node in access["devices"]}
        with name_step("workspace", f"the workspace {workspace} cannot be shown in a sandbox"):
            bare = None if view else clone_tree(workspace, NO_SETUID | NO_DEVICES if plan["writable"] else _SEEN)
    with name_step("overlay", f"the workspace {workspace} cannot be laid under a view of its own"):
        if bare and not plan["writable"]:
            view = _overlay(bare, workspace, plan["masks"])
        trees[workspace] = view or bare or 0
    with name_step("layout", "what the sandbox shows could not be put in place"):
        _lay_out(trees, layers)
        _make_links({link: to for link, to in plan["links"].items() if link not in base["links"]})
    with name_step("masks", "the masked files could not be covered"):
        masks = [mask for mask in plan["masks"] if mask not in base["masks"]]
        _cover(mask for mask in masks if view is None or not _is_below(mask, workspace))
    with name_step("kept", "what is read-only in the workspace could not be held"):
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
        for made in (_BUILD, _OLD):
            detach(made)
            Path(made).rmdir()
        restrict_at("/", _SEEN)
    # Landlock allows a folder with all that is mounted below it, and a bare workspace may have none above it.
    writable = (plan["home"], "/tmp", "/dev")  # noqa: S108 - the sandbox's own
    if plan["writable"] or plan["upper"]:
        apart = [path for path in plan["layers"] if not any(_is_below(path, folder) for folder in writable)]
        return [*writable, workspace, *filter(os.path.isdir, apart)]
    return [folder for folder in writable if view is not None or not _is_below(workspace, folder)]


@contextmanager
def _see_old_root() -> Iterator[None]:
    """See the machine as it was before the root was replaced, while the body runs."""
    with name_step("root", "the root of the machine could not be seen"):
        root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.chroot(_OLD)
        os.chdir("/")
    try:
        yield
    finally:
        os.fchdir(root)
        os.chroot(".")
        os.close(root)


def _clone_those_there(paths: Iterable[str]) -> dict[str, int]:
    return {path: tree for path in paths if (tree := _clone_if_there(path)) is not None}


def _lay_out(trees: Mapping[str, int], layers: Mapping[str, int]) -> None:
    """Put mounts in place, the outermost first; a layer only where there is a folder for it, or can be."""
    for path in sorted({*trees, *layers}):
        if path in trees:
            _attach_at(trees[path], path)
        elif _can_be_folder(path):
            attach(layers[path], path)


def _make_links(links: Mapping[str, str]) -> None:
    """Make links where nothing is; a folder that is shown read-only already has its own."""
    for path, target in links.items():
        if not os.path.lexists(path):
            Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            Path(path).symlink_to(target)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _can_be_folder(path: str) -> bool:
    """Whether there is a folder, or could be made one: in a toolchain that is shown read-only there cannot."""
    with suppress(OSError):
        os.makedirs(path, mode=0o755)  # noqa: PTH103 - for each call, and there are many
        return True
    return os.path.isdir(path)  # noqa: PTH112


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


def _overlay(bare: int, workspace: str, masks: Iterable[str]) -> int | None:
    """Return a read-only view of the workspace in which the masked paths do not exist, and let go of the bare one.

    A view of its own also cuts the way to whoever listens at a named pipe or socket in the workspace. On a mere
    read-only mount both can still be written to. None where the kernel refuses one, as with a file system mounted in
    the workspace, or a workspace on two overlays. Landlock then holds the pipes.
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
    folder.mkdir(0o000, exist_ok=True)
    for path in masks:
        try:
            kind = folder if stat.S_ISDIR(Path(path).stat().st_mode) else file
        except OSError as error:
            if error.errno not in _UNSEEN:
                raise
        else:
            attach(clone_tree(str(kind), _SEEN), os.path.realpath(path))
