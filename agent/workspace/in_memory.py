"""A workspace in memory, with the same canonical ids as the real one; for tests and benchmarks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from foregate.agent.workspace.workspace import PathState, build_outside_error
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError


class MemoryWorkspace:
    """Files as bytes by id. There are no links and no directories of their own."""

    root = Path("/")

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self._hashes: dict[str, tuple[bytes, str]] = {}

    def standing(self) -> None:
        """Stand: memory is never gone."""

    def changeable(self, path: str) -> None:
        """Allow it: everything in memory can be put back."""

    def resolve(self, path: str, *, follow: bool = True) -> str:
        """Return the canonical id of a path; raise WorkspaceError for one that leads outside."""
        if not path or "\0" in path or path.startswith("/"):
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

    def look(self, path: str, *, max_hash: int = 0) -> PathState:
        """Return what is at a path."""
        data = self.files.get(path)
        if data is None:
            return PathState("directory" if path == "." else "")
        known = self._hashes.get(path)
        if known is None or known[0] is not data:
            known = self._hashes[path] = (data, strict_json.sha256(data))
        return PathState("file", known[1], len(data), 1, 0o644)

    def read(self, path: str, *, limit: int = -1, offset: int = 0) -> bytes:
        """Return the bytes of a file."""
        if path not in self.files:
            raise WorkspaceError(f"cannot read `{path}`: there is no such file")
        data = self.files[path][offset:]
        return data if limit < 0 else data[:limit]

    def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Put bytes at a path."""
        self.files[path] = data

    def directory(self, path: str, *, make: bool = False) -> AbstractContextManager[int]:
        """Refuse: there is no folder on disk to open."""
        raise WorkspaceError(f"`{path[:80]}` lies in a workspace in memory, which has no folders")

    def parent(self, path: str, *, make: bool = False) -> AbstractContextManager[tuple[int, str]]:
        """Refuse: there is no folder on disk to open."""
        raise WorkspaceError(f"`{path[:80]}` lies in a workspace in memory, which has no folders")

    def read_link(self, path: str) -> bytes:
        """Refuse: there are no links."""
        raise WorkspaceError(f"`{path[:80]}` is no link; a workspace in memory has none")

    def make_link(self, path: str, target: bytes) -> None:
        """Refuse: there are no links."""
        raise WorkspaceError(f"cannot make the link `{path[:80]}`: a workspace in memory has none")

    def make_directory(self, path: str, *, mode: int | None = None) -> None:
        """Do nothing: a folder is there as soon as a file lies in it."""

    def remove(self, path: str) -> None:
        """Remove a file."""
        if self.files.pop(path, None) is None:
            raise WorkspaceError(f"cannot remove `{path[:80]}`: there is no such file")

    def remove_directory(self, path: str) -> None:
        """Refuse: there are no folders of their own."""
        raise WorkspaceError(f"cannot remove `{path[:80]}`: a workspace in memory has no folders")

    def move(self, source: str, destination: str) -> None:
        """Move a file to a path where nothing is."""
        if destination in self.files:
            raise WorkspaceError(f"`{destination[:80]}` is there already; name another place")
        self.files[destination] = self.read(source)
        del self.files[source]

    def close(self) -> None:
        """Nothing to give back."""
