"""A step that brings a path from one state to another, where its new content comes from, and why it is not taken."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

from foregate.agent.workspace.file_traits import FileTraits
from foregate.agent.workspace.path_state import NOTHING, SeenPath, is_adjusted, look_at
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathState

_SAID = 5


class Conflict(WorkspaceError):
    """Paths are not what was to be replaced. `paths` names them, `left` those that could not be brought back."""

    def __init__(self, paths: Sequence[str], left: Sequence[str] = ()) -> None:
        named = ", ".join(f"`{path[:80]}`" for path in paths[:_SAID]) + " and more" * (len(paths) > _SAID)
        super().__init__(f"{named} changed meanwhile; look what is there, then repeat the call")
        self.paths, self.left = tuple(paths), tuple(left)


class PlacementFailed(WorkspaceError):
    """Placing broke off for another reason. `left` names the paths that could not be brought back."""

    def __init__(self, why: str, left: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.left = tuple(left)


class Step(Struct, frozen=True):
    """What a path is now, and what it is to be. `number` names it among the steps of one list.

    `linked` says that its file has or had other names, which a change of mode must not reach.
    """

    number: int
    path: str
    now: PathState
    then: PathState
    linked: bool = False

    @property
    def is_staged(self) -> bool:
        """Whether something new takes the place."""
        return self.then.kind in ("file", "link") and (self.linked or not is_adjusted(self.now, self.then))

    @property
    def is_moved(self) -> bool:
        """Whether a name in its folder comes, goes, or becomes that of another thing."""
        return self.is_staged or self.now.kind != self.then.kind


class Content(Struct, frozen=True):
    """What a path is to hold: an open file, which is closed after reading, or bytes; a link's target is bytes.

    Paths with the same `twin` are names of one file; None is alone.
    """

    data: int | bytes
    traits: FileTraits
    twin: object = None


class Source(Protocol):
    """Where new contents come from."""

    def open_content(self, path: str, then: PathState) -> Content:
        """Return what a file or a link is to hold; raise WorkspaceError where there is nothing that fits."""

    def read_traits(self, path: str, then: PathState) -> FileTraits:
        """Return what a file or a folder is to have beside its content; raises as `open_content`."""


@contextmanager
def open_parent(workspace: Workspace, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder that holds a path; raise OSError where it is none, and WorkspaceError on another file system."""
    with workspace.parent(path) as (folder, name), workspace.directory(".") as root:
        if os.fstat(folder).st_dev != os.fstat(root).st_dev:
            raise WorkspaceError(f"`{path[:80]}` lies on another file system than the workspace; change it by hand")
        yield folder, name


def look_at_path(workspace: Workspace, path: str) -> SeenPath:
    """Return what a path is, nothing where a folder above it is none; raise WorkspaceError for what cannot be read."""
    try:
        with open_parent(workspace, path) as (folder, name):
            return look_at(folder, name)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return SeenPath(NOTHING)
        raise WorkspaceError(f"cannot look at `{path[:80]}`: {error.strerror}") from None


def rank_path(path: str) -> int:
    """Return a number by which git's files are put: never a name before what it names; others come in between."""
    parts = path.split("/")
    if ".git" not in parts[:-1]:
        return 2
    inside = parts[parts.index(".git") + 1 :]
    if "objects" in inside[:-1]:
        return 1 if path.endswith(".idx") else 0
    return 3 if "logs" in inside else {"index": 4, "HEAD": 5}.get(inside[-1], 3)
