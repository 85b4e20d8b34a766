"""Where a session is kept, and what its user has said in earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foregate.assembly.home import Home
from foregate.assembly.setting import SessionOptions
from foregate.schemas.protocols import Blobs, Log

if TYPE_CHECKING:
    from foregate.agent.session.permissions import Permissions
    from foregate.agent.tools.declarations import Declarations


class Place(NamedTuple):
    """Where a session is kept: its log and blobs, the file of personal memory, Foregate's own folders, and what the
    person said of tools and permits in a workspace. `sandboxes` is where sandboxes keep what is written; None is the
    temporary folder.
    """

    log: Log
    blobs: Blobs
    memory: Path | None = None
    own: tuple[Path, ...] = ()
    sandboxes: Path | None = None
    declarations: Declarations | None = None
    permissions: Callable[[Path], Permissions] | None = None


def open_place(setting: SessionOptions, resources: AsyncExitStack) -> Place:
    """Return the place of the user's own folder, or of the log that is given; `resources` close it."""
    from foregate.telemetry.log.memory_log import MemoryBlobs

    if setting.log is not None:
        return Place(setting.log, setting.blobs or MemoryBlobs())
    home = Home.open(setting.environ)
    log = home.open_log()
    resources.callback(log.close)
    said = home.open_declarations(), home.open_permissions
    return Place(log, setting.blobs or home.open_blobs(), home.memory, (home.root,), home.sandboxes, *said)
