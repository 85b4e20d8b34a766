"""Has changes survive a power cut: those of named folders, or all of a file system."""

from __future__ import annotations

import ctypes
import os

from foregate.schemas.errors import SyncError
from foregate.telemetry.log.temporary_file import sync_folder


def sync_change(path: str, *folders: int) -> None:
    """Put open folders on disk, which a change of `path` has changed; raise SyncError where the disk refuses."""
    try:
        for folder in folders:
            sync_folder(folder)
    except OSError as error:
        raise _build_error(f"the change of `{path[:80]}`", error) from None


def sync_file_system(fd: int) -> None:
    """Put all on disk that waits on the file system of an open folder, or on all where none can be named.

    Raises SyncError where the disk refuses, also where it refused something since the folder was opened.
    """
    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        os.sync()
    elif sync(fd):
        number = ctypes.get_errno()
        raise _build_error("what was changed", OSError(number, os.strerror(number)))


def _build_error(what: str, error: OSError) -> SyncError:
    return SyncError(f"{what} may not outlast a power cut ({error.strerror}); check the disk, then look what is there")
