"""Paths that do not exist in a sandbox, as a layer over a folder: a whiteout for each, in folders like those below."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.system_calls import StepFailed


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
