"""The workspace: the one folder the agent works in, opened beneath its root, never through a link out of it."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foregate.schemas.errors import WorkspaceError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40
_MAX_PATH = 4096


@dataclass(frozen=True, slots=True)
class Look:
    """What is at a path: `kind` is `file`, `directory`, `other` or "" for nothing; `hash` "" where not hashed."""

    kind: str = ""
    hash: str = ""
    size: int = 0
    links: int = 1
    mode: int = 0


class Workspace:
    """Files below one root. All paths are relative ids as `resolve` returns them.

    Every opening walks the components without following links, so that a link put there in between is an error
    and not a way out.
    """

    def __init__(self, root: Path | str) -> None:
        try:
            self.root = Path(root).resolve(strict=True)
            self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise WorkspaceError(
                f"the workspace `{root}` cannot be opened ({error.strerror}); name a directory that exists"
            ) from None
        self._hashes: dict[str, tuple[tuple[int, ...], str]] = {}

    def close(self) -> None:
        """Give the root's descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def resolve(self, path: str) -> str:
        """Return the canonical id of `path`: relative, links followed, no `.` or `..`; "." is the root.

        Raises WorkspaceError for a path that leads outside, also by a link, or that no file system could hold.
        """
        if not path or "\0" in path or len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH:
            raise WorkspaceError("the path is empty, too long or holds a null byte; name a file of the workspace")
        pending = self._relative(path).split("/")[::-1]
        done: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise outside(path)
                done.pop()
                continue
            here = "/".join([*done, part])
            try:
                target = os.readlink(here, dir_fd=self._fd)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    raise WorkspaceError(f"the path `{path[:80]}` is too long; shorten it") from None
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise WorkspaceError(f"the path `{path[:80]}` goes through too many links; name the file itself")
            if target.startswith("/"):
                done = []
                target = self._relative(target)
            pending.extend(target.split("/")[::-1])
        return "/".join(done) or "."

    def _relative(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        root = str(self.root).rstrip("/")
        if path == root or path.startswith(f"{root}/"):
            return path[len(root) :].lstrip("/") or "."
        raise outside(path)

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the directory that holds `path`, and the last component; `make` creates the way."""
        *parts, name = path.split("/")
        fd = os.dup(self._fd)
        try:
            for part in parts:
                try:
                    inner = os.open(part, _DIRECTORY, dir_fd=fd)
                except FileNotFoundError:
                    if not make:
                        raise
                    os.mkdir(part, dir_fd=fd)
                    inner = os.open(part, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd, name
        finally:
            os.close(fd)

    def look(self, path: str, *, max_hash: int = 0) -> Look:
        """Return what is at `path`, never following a link; files up to `max_hash` bytes are hashed."""
        try:
            with self.parent(path) as (fd, name):
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                kind = (
                    "file" if stat.S_ISREG(found.st_mode) else "directory" if stat.S_ISDIR(found.st_mode) else "other"
                )
                digest = ""
                if kind == "file" and found.st_size <= max_hash:
                    digest = self._hash(path, found, fd, name)
                return Look(kind, digest, found.st_size, found.st_nlink, stat.S_IMODE(found.st_mode))
        except (FileNotFoundError, NotADirectoryError):
            return Look()
        except OSError as error:
            raise cannot("look at", path, error) from None

    def _hash(self, path: str, found: os.stat_result, fd: int, name: str) -> str:
        """Hash a file's content; known content is recognised by inode, size, mtime and ctime, which cannot be set."""
        mark = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._hashes.get(path)
        if known and known[0] == mark:
            return known[1]
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=fd)
        with os.fdopen(file, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if len(self._hashes) > 4096:
            self._hashes.clear()
        self._hashes[path] = (mark, digest)
        return digest

    def read(self, path: str, *, limit: int = -1, offset: int = 0) -> bytes:
        """Return the bytes of a regular file from `offset`, at most `limit` of them."""
        try:
            with self.parent(path) as (fd, name):
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=fd)
            with os.fdopen(file, "rb") as stream:
                if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    raise WorkspaceError(f"`{path}` is not a regular file; name one")
                if offset:
                    stream.seek(offset)
                return stream.read(limit)
        except OSError as error:
            raise cannot("read", path, error) from None

    def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Put `data` at `path` in one step: readers see the old bytes or the new ones. Keeps the file's mode."""
        if path == ".":
            raise WorkspaceError("the workspace itself is not a file; name a file in it")
        temporary = f".foregate-{secrets.token_hex(8)}"
        try:
            with self.parent(path, make=True) as (fd, name):
                if mode is None:
                    mode = self._mode(fd, name)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                file = os.open(temporary, flags, 0o666, dir_fd=fd)
                try:
                    with os.fdopen(file, "wb") as stream:
                        stream.write(data)
                        if mode is not None:
                            os.fchmod(stream.fileno(), mode)
                    os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
                except BaseException:
                    os.unlink(temporary, dir_fd=fd)
                    raise
        except OSError as error:
            raise cannot("write", path, error) from None

    @staticmethod
    def _mode(fd: int, name: str) -> int | None:
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise WorkspaceError(f"`{name}` is not a regular file; name one")
        return stat.S_IMODE(found.st_mode)


def outside(path: str) -> WorkspaceError:
    """Return the error for a path that leads out of the workspace."""
    return WorkspaceError(f"`{path[:80]}` lies outside the workspace; use a path inside it")


def cannot(verb: str, path: str, error: OSError) -> WorkspaceError:
    """Return the error for a file system's refusal."""
    if error.errno == errno.ELOOP:
        return WorkspaceError(f"cannot {verb} `{path[:80]}`: it became a link; nothing was done")
    return WorkspaceError(f"cannot {verb} `{path[:80]}`: {error.strerror}")
