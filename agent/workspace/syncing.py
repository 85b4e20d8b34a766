"""Has changes survive a power cut: those of named folders, or all of a file system."""

from __future__ import annotations

from foregate.schemas.errors import SyncError
from foregate.telemetry.log.temporary_file import sync_all, sync_folder


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
    try:
        sync_all(fd)
    except OSError as error:
        raise _build_error("what was changed", error) from None


def _build_error(what: str, error: OSError) -> SyncError:
    return SyncError(f"{what} may not outlast a power cut ({error.strerror}); check the disk, then look what is there")
