"""Namespaces of a process's own, and the mounts in them: restricted while nobody can see them, then put in place."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.system_calls import PR_SET_DUMPABLE, StepFailed, call, name_step

NEW_MOUNTS, _NEW_NAMES, _NEW_IPC = 0x20000, 0x4000000, 0x8000000
_NEW_USERS, _NEW_PROCESSES, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_ALL = NEW_MOUNTS | _NEW_NAMES | _NEW_IPC | _NEW_USERS | _NEW_PROCESSES | _NEW_NETWORK
# CAP_SETGID, CAP_SETUID, and CAP_SETFCAP, without which a map may not hold user 0 of the namespace above.
_TO_MAP_ALL = 1 << 6 | 1 << 7 | 1 << 31
READ_ONLY, NO_SETUID, NO_DEVICES, NO_PROGRAMS = 1, 2, 4, 8
_HERE = -100
_EMPTY_PATH, _RECURSIVE = 0x1000, 0x8000
_CLONE, _CLOSE_ON_EXEC = 1, os.O_CLOEXEC
_SET_FLAG, _SET_STRING, _CREATE = 0, 1, 6
_FROM_DESCRIPTOR = 0x4
_DETACH = 2
_PRIVATE = 1 << 18


def fork_into_namespaces(run: Callable[[], object]) -> int:
    """Fork a child that is the first process of new namespaces, and runs a function there; return its number.

    Who may map every user maps every user to itself, so that files show their owners; anybody else only themselves.
    This process stays where it is, so that it can write the maps: from inside, nobody may map all. Raises StepFailed,
    and the child it has made is gone then. The process must have one thread.
    """
    # A process that dropped its user, or came from one that cannot be traced, does not own its files in /proc.
    call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    maps = _read_maps()
    mapped, tell = os.pipe()
    with name_step("namespaces", "the system refused namespaces of its own to the sandbox"):
        # `os.fork` cannot do this, and `unshare` would take another process that writes the maps from outside.
        child = call("clone", _ALL | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        try:
            os.close(tell)
            if os.read(mapped, 1):
                os.close(mapped)
                call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
                run()
        finally:
            # Nothing may return into the caller's half of the fork.
            os._exit(1)
    os.close(mapped)
    try:
        with name_step("map", "the users could not be mapped into the sandbox"):
            _write_maps(child, maps)
        os.write(tell, b"x")
        call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(tell)
    return child


def _read_maps() -> dict[str, bytes]:
    """Return what the maps of a new namespace are to hold, by the names of their files, in the order of writing."""
    if _can_map_all():
        return {name: _read_identity_map(name) for name in ("uid_map", "gid_map")}
    user, group = os.geteuid(), os.getegid()
    return {"setgroups": b"deny", "uid_map": b"%d %d 1" % (user, user), "gid_map": b"%d %d 1" % (group, group)}


def _can_map_all() -> bool:
    effective = re.search(rb"CapEff:\s*(\w+)", _read("/proc/self/status"))
    return effective is not None and int(effective[1], 16) & _TO_MAP_ALL == _TO_MAP_ALL


def _read_identity_map(name: str) -> bytes:
    """Return the map that maps each user or group that exists in this namespace to itself."""
    lines = (line.split() for line in _read(f"/proc/self/{name}").splitlines())
    return b"".join(b"%b %b %b\n" % (first, first, count) for first, _, count in lines)


def _read(path: str) -> bytes:
    with open(path, "rb", 0) as file:  # noqa: PTH123 - for each call
        return file.read()


def _write_maps(process: int, maps: Mapping[str, bytes]) -> None:
    for name, lines in maps.items():
        file = os.open(f"/proc/{process}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, lines)
        finally:
            os.close(file)


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
