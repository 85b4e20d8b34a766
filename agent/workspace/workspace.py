"""The workspace: the one place whose files an agent works on, and what is said of a path in it."""

from __future__ import annotations

import errno
import stat
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from foregate.schemas.errors import NotText, WorkspaceError
from foregate.schemas.strict_json import scrub


@dataclass(frozen=True, slots=True)
class PathState:
    """What is at a path: `kind` is `file`, `directory`, `link`, `other` or "" for nothing; `hash` "" where not hashed.

    The hash of a link is over its target's name.
    """

    kind: str = ""
    hash: str = ""
    size: int = 0
    links: int = 1
    mode: int = 0


class Workspace(Protocol):
    """The files an agent works on, by canonical id: a path relative to the root. No id leads out of it.

    Every method raises WorkspaceError, in one sentence that says what to do, for what cannot be done.
    """

    @property
    def root(self) -> Path:
        """The folder on disk, or the name of one there is only in memory."""

    def close(self) -> None:
        """Let go of the workspace; doing it twice is harmless."""

    def standing(self) -> None:
        """Raise where the workspace is gone or is another folder than it was."""

    def resolve(self, path: str, *, follow: bool = True) -> str:
        """Return the canonical id of a path; `follow` False keeps a last link itself."""

    def directory(self, path: str, *, make: bool = False) -> AbstractContextManager[int]:
        """Open a folder and return its descriptor; with `make` it is made where it is missing."""

    def parent(self, path: str, *, make: bool = False) -> AbstractContextManager[tuple[int, str]]:
        """Open the folder that holds a path and return its descriptor, and the last part of the path."""

    def look(self, path: str, *, max_hash: int = 0) -> PathState:
        """Return what is at a path; files of up to `max_hash` bytes are hashed."""

    def read(self, path: str, *, limit: int = -1, offset: int = 0) -> bytes:
        """Return the bytes of a file from `offset` on, at most `limit` of them unless that is negative."""

    def read_link(self, path: str) -> bytes:
        """Return the target of a link, as it is written."""

    def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Put a file's bytes at a path, all at once; missing folders are made."""

    def changeable(self, path: str) -> None:
        """Raise where a path could not be put back after a change."""

    def make_link(self, path: str, target: bytes) -> None:
        """Make a link with a target."""

    def make_directory(self, path: str, *, mode: int | None = None) -> None:
        """Make a folder, and those above it that are missing."""

    def remove(self, path: str) -> None:
        """Remove a file or a link."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty folder."""

    def move(self, source: str, destination: str) -> None:
        """Move something to a path where nothing is."""


def get_kind(mode: int) -> str:
    """Return `file`, `directory`, `link` or `other` for a file's mode."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def refuse_root(path: str, why: str) -> None:
    """Raise WorkspaceError when `path` is the workspace itself."""
    if path == ".":
        raise WorkspaceError(f"the workspace itself {why}")


def build_not_text_error(path: str) -> NotText:
    """Return the error for a path that cannot be recorded."""
    return NotText(f"`{scrub(path)[:80]}` leads to a name that is no valid text; rename it by hand, or name another")


def build_outside_error(path: str) -> WorkspaceError:
    """Return the error for a path that leads out of the workspace."""
    return WorkspaceError(f"`{path[:80]}` lies outside the workspace; use a path inside it")


def build_refusal_error(verb: str, path: str, error: OSError) -> WorkspaceError:
    """Return the error for a file system's refusal."""
    if error.errno == errno.ELOOP:
        return WorkspaceError(f"cannot {verb} `{path[:80]}`: it became a link; nothing was done")
    return WorkspaceError(f"cannot {verb} `{path[:80]}`: {error.strerror}")
