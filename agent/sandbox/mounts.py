"""Mounts as descriptors, put in place once they are restricted, and layers that hide paths of the folder below."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.system_calls import StepFailed, call

READ_ONLY, NO_SETUID, NO_DEVICES, NO_PROGRAMS = 1, 2, 4, 8

_HERE = -100
_EMPTY_PATH, _RECURSIVE = 0x1000, 0x8000
_CLONE, _CLOSE_ON_EXEC = 1, os.O_CLOEXEC
_SET_FLAG, _SET_STRING, _CREATE = 0, 1, 6
_FROM_DESCRIPTOR = 0x4
_DETACH = 2
_PRIVATE = 1 << 18


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "users"))


def make_all_private() -> None:
    """Cut every mount of this namespace off from the one it was copied from: no mount travels in either direction."""
    call("mount_setattr", _HERE, b"/", _RECURSIVE, _Attributes(0, 0, _PRIVATE, 0), ctypes.sizeof(_Attributes))


def restrict(mount: int, attributes: int) -> None:
    """Set attributes on a mount and on all below it; what is already set stays."""
    flags, size = _EMPTY_PATH | _RECURSIVE, ctypes.sizeof(_Attributes)
    call("mount_setattr", mount, b"", flags, _Attributes(attributes, 0, 0, 0), size)


def restrict_at(path: str, attributes: int) -> None:
    """Set attributes on the one mount at `path`, not on those below it."""
    call("mount_setattr", _HERE, os.fsencode(path), 0, _Attributes(attributes, 0, 0, 0), ctypes.sizeof(_Attributes))


def clone_tree(path: str, attributes: int, *, whole: bool = True) -> int:
    """Return a detached copy of what is seen at `path`, restricted; `whole` with all that is mounted below it."""
    tree = call("open_tree", _HERE, os.fsencode(path), _CLONE | _CLOSE_ON_EXEC | (_RECURSIVE if whole else 0))
    restrict(tree, attributes)
    return tree


def make_mount(kind: str, attributes: int, **options: str | None) -> int:
    """Return a detached new file system; an option without a value is a flag."""
    context = call("fsopen", kind.encode(), 1)
    try:
        for name, value in options.items():
            command = _SET_FLAG if value is None else _SET_STRING
            call("fsconfig", context, command, name.encode(), None if value is None else value.encode(), 0)
        call("fsconfig", context, _CREATE, None, None, 0)
        return call("fsmount", context, 1, attributes)
    finally:
        os.close(context)


def attach(mount: int, path: str) -> None:
    """Put a detached mount at `path`, and let go of its descriptor; a link at the end is not followed."""
    call("move_mount", mount, b"", _HERE, os.fsencode(path), _FROM_DESCRIPTOR)
    os.close(mount)


def detach(path: str) -> None:
    """Take away what is mounted at `path`, now from sight and wholly when its last user is gone."""
    call("umount2", os.fsencode(path), _DETACH)


def change_root(path: str, old: str = "") -> None:
    """Make what is mounted at `path` the root of everything; the old root lies in it at `old`, or is taken away."""
    inside = f"{path}{old}"
    if old:
        Path(inside).mkdir(0o700)
    os.chdir(path)
    # The latter lies upon the new one.
    call("pivot_root", b".", os.fsencode(old.lstrip("/") or "."))
    if not old:
        detach(".")
    os.chdir("/")


def lay_masks(below: Path, above: Path, names: Iterable[Path]) -> None:
    """Hide the paths `names` of the folder `below` by what is put into `above`, a layer that will lie over it.

    Raises StepFailed where a folder above a path is a link.
    """
    made: set[Path] = set()
    for name in sorted(names):
        if _can_be_masked(below, above, name):
            made.update(_make_folders(above, name.parent))
            with suppress(FileExistsError):
                os.mknod(above / name, stat.S_IFCHR, os.makedev(0, 0))
    for folder in sorted(made, reverse=True):
        copy_metadata(below / folder, above / folder)


def _can_be_masked(below: Path, above: Path, name: Path) -> bool:
    """Whether a path has a folder to be absent from, which the layer does not hide already."""
    if any((below / up).is_symlink() for up in name.parents):
        raise StepFailed("masks", 0, f"a folder above the masked {name} has become a link; look for secret files again")
    ups = [above / up for up in name.parents]
    return (below / name.parent).is_dir() and all(up.is_dir() and not up.is_symlink() for up in ups if _is_there(up))


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _make_folders(above: Path, folder: Path) -> Iterable[Path]:
    """Make a folder of the layer with those above it, and return the ones that were missing."""
    missing = [one for one in (folder, *folder.parents) if not _is_there(above / one)]
    (above / folder).mkdir(parents=True, exist_ok=True)
    return missing


def copy_metadata(source: Path, copy: Path) -> None:
    """Give a folder the owner, mode, attributes and times of another one, as far as it takes them."""
    found = source.stat()
    # An owner who is not mapped cannot be given a file.
    with suppress(OSError):
        os.chown(copy, found.st_uid, found.st_gid)
    with suppress(OSError):
        for name in (one for one in os.listxattr(source) if ".overlay." not in one):
            with suppress(OSError):
                os.setxattr(copy, name, os.getxattr(source, name))
    copy.chmod(stat.S_IMODE(found.st_mode))
    os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
