"""A folder that is there whole or not at all: what is copied goes to a folder beside it, which then gets its name."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foregate.schemas.errors import LogError
from foregate.telemetry.log.temporary_file import open_folder, sync_all, sync_folder


@contextmanager
def make_target(target: Path) -> Iterator[Path]:
    """Give a new folder to a block; when the block ends well it is `target`, and survives a power cut.

    Raises LogError where something is at `target` already, and where the folder cannot be made.
    """
    if os.path.lexists(target):
        raise LogError(f"there is something at `{target}` already; name a new folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".foregate-copy-", dir=target.parent))
    except OSError as error:
        raise _build_error(target, error) from None
    try:
        yield made
        with open_folder(made) as opened:
            sync_all(opened)
        _name(made, target)
    except OSError as error:
        raise _build_error(target, error) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _name(made: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise LogError(f"somebody made `{target}` meanwhile; name another folder")
    made.rename(target)
    with open_folder(target.parent) as opened:
        sync_folder(opened)


def _build_error(target: Path, error: OSError) -> LogError:
    return LogError(f"`{target}` cannot be written ({error.strerror}); name a folder on a disk with room")
