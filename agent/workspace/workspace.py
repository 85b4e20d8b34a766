"""The workspace: the one place whose files an agent works on, and what is said of a path in it."""

from __future__ import annotations

import errno
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn, Protocol

from msgspec import Struct

from foregate.agent.sandbox.attributes import pack_attributes
from foregate.agent.workspace.file_traits import AS_THERE, FileTraits
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_off_limits
from foregate.schemas import strict_json
from foregate.schemas.errors import NoPath, WorkspaceError
from foregate.schemas.tool_call import Survey, SurveyedResource
from foregate.schemas.tool_spec import ResourceKind

_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


class PathFacts(Struct, frozen=True):
    """What is at a path: `kind` is `file`, `directory`, `link`, `other` or "" for nothing; `hash` "" where not hashed.

    The hash of a link is over its target's name; `modified` is in nanoseconds.
    """

    kind: str = ""
    hash: str = ""
    size: int = 0
    links: int = 1
    mode: int = 0
    modified: int = 0


class Workspace(Protocol):
    """The files an agent works on, by canonical id: a path relative to the root. No id leads out of it.

    Every method raises WorkspaceError for what cannot be done. A change survives a power cut once the method returns;
    it raises SyncError where it has changed things and cannot say so.
    """

    @property
    def root(self) -> Path:
        """The folder on disk, or the name of one there is only in memory."""

    @property
    def sandboxes(self) -> Path | None:
        """The folder where sandboxes keep what is written in them, None for the one for temporary files."""

    def close(self) -> None:
        """Let go of the workspace; doing it twice is harmless."""

    def standing(self) -> None:
        """Raise where the workspace is gone or is another folder than it was."""

    def resolve(self, path: str, *, follow: bool = True) -> str:
        """Return the canonical id of a path; with `follow` False a link in last place stays itself."""

    def directory(self, path: str, *, make: bool = False) -> AbstractContextManager[int]:
        """Open a folder and return its descriptor; with `make` it is made where it is missing."""

    def parent(self, path: str, *, make: bool = False) -> AbstractContextManager[tuple[int, str]]:
        """Open the folder that holds a path and return its descriptor, and the last part of the path."""

    def look(self, path: str, *, max_hash: int = 0) -> PathFacts:
        """Return what is at a path, never following a link; files of up to `max_hash` bytes are hashed."""

    def read(self, path: str, *, limit: int = -1, offset: int = 0) -> bytes:
        """Return the bytes of a regular file from `offset` on, at most `limit` of them unless that is negative."""

    def read_link(self, path: str) -> bytes:
        """Return the target of a link, unresolved."""

    def write(self, path: str, data: bytes, traits: FileTraits = AS_THERE) -> tuple[str, ...]:
        """Put a file's bytes at a path, all at once, and make missing folders.

        Traits that are not given stay, but for the time. Returns the names of what could not be kept, as `list_unkept`
        does.
        """

    def list_unkept(self, path: str, attributes: Mapping[str, bytes] | None = None) -> tuple[str, ...]:
        """Return what a write at a path would not keep: `owner`, `hard links`, names of extended attributes.

        `attributes` are tried instead of the file's own.
        """

    def read_attributes(self, path: str) -> Mapping[str, bytes]:
        """Return the extended attributes of a file or folder, none for anything else."""

    def sync(self) -> None:
        """Have what others changed in the workspace, such as commands, survive a power cut; may raise SyncError."""

    def changeable(self, path: str) -> None:
        """Raise where a path could not be put back after a change, as its folder is none or closed."""

    def make_link(self, path: str, target: bytes, *, modified: int = 0) -> None:
        """Make a link with a target where nothing is; only to bring back one that was there."""

    def make_directory(self, path: str, traits: FileTraits = AS_THERE) -> None:
        """Make a folder, and those above it that are missing; with traits also one that is there gets them."""

    def remove(self, path: str) -> None:
        """Remove a file or a link itself; raise for anything else."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty folder."""

    def move(self, source: str, destination: str) -> None:
        """Move something to a path where nothing is."""


def get_kind(mode: int) -> str:
    """Return `file`, `directory`, `link` or `other` for a file's mode."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


_MAX_PATH = 4096
"""Bytes of a path, which is what Linux takes."""


def check_path(path: str) -> None:
    """Raise NoPath for a text with a null byte, WorkspaceError for one that is empty or too long for a path."""
    if "\0" in path:
        raise NoPath("the path holds a null byte, which no name of a file can; send it without")
    if not path or len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH:
        raise WorkspaceError(f"the path is empty or has more than {_MAX_PATH} bytes; name a file of the workspace")


def build_outside_error(path: str) -> WorkspaceError:
    """Return the error for a path that leads out of the workspace."""
    return WorkspaceError(f"`{path[:80]}` lies outside the workspace; use a path inside it")


@contextmanager
def refuse_errors(verb: str, path: str) -> Iterator[None]:
    """Raise WorkspaceError, in a sentence, for what the file system refuses inside; `verb` is what was to be done."""
    try:
        yield
    except OSError as error:
        why = "it became a link; nothing was done" if error.errno == errno.ELOOP else error.strerror
        raise WorkspaceError(f"cannot {verb} `{path[:80]}`: {why}") from None


class MemoryWorkspace(Workspace):
    """Files as bytes by id, for tests and benchmarks, with the same canonical ids as on disk.

    There are no links and no folders of their own: one is there as soon as a file lies in it.
    """

    root = Path("/")
    sandboxes = None

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self._hashes: dict[str, tuple[bytes, str]] = {}

    def close(self) -> None:
        """Do nothing: memory is never gone, and there is nothing to give back."""

    def changeable(self, path: str, traits: FileTraits = AS_THERE) -> None:
        """Do nothing: what is in memory can be changed, and has the folders it needs."""

    standing, sync, make_directory = close, close, changeable

    def resolve(self, path: str, *, follow: bool = True) -> str:
        check_path(path)
        if path.startswith("/"):
            raise build_outside_error(path)
        done: list[str] = []
        for part in path.split("/"):
            if part == "..":
                if not done:
                    raise build_outside_error(path)
                done.pop()
            elif part not in ("", "."):
                done.append(part)
        return "/".join(done) or "."

    def look(self, path: str, *, max_hash: int = 0) -> PathFacts:
        data = self.files.get(path)
        if data is None:
            return PathFacts("directory" if path == "." else "")
        known = self._hashes.get(path)
        if known is None or known[0] is not data:
            known = self._hashes[path] = (data, strict_json.sha256(data))
        return PathFacts("file", known[1], len(data), 1, 0o644)

    def read(self, path: str, *, limit: int = -1, offset: int = 0) -> bytes:
        if path not in self.files:
            raise WorkspaceError(f"cannot read `{path}`: there is no such file")
        data = self.files[path][offset:]
        return data if limit < 0 else data[:limit]

    def write(self, path: str, data: bytes, traits: FileTraits = AS_THERE) -> tuple[str, ...]:
        self.files[path] = data
        return ()

    def list_unkept(self, path: str, attributes: Mapping[str, bytes] | None = None) -> tuple[str, ...]:
        return ()

    def read_attributes(self, path: str) -> Mapping[str, bytes]:
        return {}

    def directory(self, path: str, *, make: bool = False) -> NoReturn:
        raise WorkspaceError(f"`{path[:80]}` lies in a workspace in memory, which has no folders")

    def parent(self, path: str, *, make: bool = False) -> NoReturn:
        self.directory(path)

    def read_link(self, path: str) -> bytes:
        raise WorkspaceError(f"`{path[:80]}` is no link; a workspace in memory has none")

    def make_link(self, path: str, target: bytes, *, modified: int = 0) -> None:
        raise WorkspaceError(f"cannot make the link `{path[:80]}`: a workspace in memory has none")

    def remove(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise WorkspaceError(f"cannot remove `{path[:80]}`: there is no such file")

    def remove_directory(self, path: str) -> None:
        raise WorkspaceError(f"cannot remove `{path[:80]}`: a workspace in memory has no folders")

    def move(self, source: str, destination: str) -> None:
        if destination in self.files:
            raise WorkspaceError(f"`{destination[:80]}` is there already; name another place")
        self.files[destination] = self.read(source)
        del self.files[source]


_JUDGED: ContextVar[Mapping[tuple[bool, str], SurveyedResource] | None] = ContextVar("foregate_judged", default=None)
"""By whether it is a command, and by id."""
_SURVEY: ContextVar[Survey | None] = ContextVar("foregate_survey", default=None)
_BOUND = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.OTHER, ResourceKind.PROCESS)


class SurveyBounds:
    """Binds the tool that runs inside to the paths and commands its call was judged on; set by the executor."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    def __enter__(self) -> None:
        bound = {(r.kind is ResourceKind.PROCESS, r.id): r for r in self._survey.resources if r.kind in _BOUND}
        self._judged, self._known = _JUDGED.set(bound), _SURVEY.set(self._survey)

    def __exit__(self, *_: object) -> None:
        _JUDGED.reset(self._judged)
        _SURVEY.reset(self._known)


def find_judged_survey() -> Survey | None:
    """Return the survey on which the call was judged that runs just now, None where none was."""
    return _SURVEY.get()


def check_readable(workspace: Workspace, path: str) -> str:
    """Return the canonical id of a path to look at; raise WorkspaceError for one outside, or not the judged one."""
    return check_judged(workspace.resolve(path), path)


def check_writable(workspace: Workspace, policy: Policy, path: str, *, follow: bool = True) -> str:
    """Return the canonical id of a path to change; raise WorkspaceError also for a protected one."""
    found = check_judged(workspace.resolve(path, follow=follow), path)
    if is_off_limits(found, policy):
        raise WorkspaceError(f"`{found[:80]}` belongs to git or to Foregate and is not the agent's to change")
    return found


def check_judged(found: str, path: str) -> str:
    """Return `found` when it is among what was judged; a link put there since leads elsewhere and is refused."""
    bound = _JUDGED.get()
    if bound is not None and (False, found) not in bound:
        raise WorkspaceError(f"`{path[:80]}` leads elsewhere than when it was judged; look again, then repeat the call")
    return found


def check_judged_command(words: Sequence[str]) -> Sequence[str]:
    """Return a command the tool worked out itself when it is the judged one; raise WorkspaceError for another."""
    bound = _JUDGED.get()
    text = shlex.join(words)
    if bound is not None and (True, text) not in bound:
        raise WorkspaceError(f"`{text[:80]}` is not what was judged; the workspace has changed, so repeat the call")
    return words


def check_unchanged(path: str, hash: str) -> None:  # noqa: A002
    """Raise WorkspaceError when what a change is about to replace is not what was judged; "" is nothing there."""
    bound = _JUDGED.get()
    resource = bound.get((False, path)) if bound is not None else None
    if resource is None or (resource.exists and not resource.hash) or hash == resource.hash:
        return
    raise WorkspaceError(f"`{path[:80]}` changed after this call was judged; look at it again, then repeat the call")


def keep_attributes(workspace: Workspace, path: str, put: Callable[[bytes], str]) -> str:
    """Return the hash under which `put` stored the extended attributes of a file or folder, "" where it has none."""
    found = workspace.read_attributes(path)
    return put(pack_attributes(found)) if found else ""
