"""A workspace on disk: one folder, opened beneath its root, never through a link out of it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from foregate.agent.sandbox.attributes import read_attributes
from foregate.agent.workspace.copying import sync_change, sync_file_system
from foregate.agent.workspace.file_traits import AS_THERE, HARD_LINKS, FileTraits, set_traits
from foregate.agent.workspace.workspace import (
    PathFacts,
    Workspace,
    build_outside_error,
    check_path,
    get_kind,
    refuse_errors,
)
from foregate.schemas.errors import NotText, WorkspaceError
from foregate.schemas.strict_json import scrub
from foregate.telemetry.log.temporary_file import create_temporary, is_temporary, sweep_temporary, sync_folder

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_INDEX, _INDEX_MARK = ".git/index", b"DIRC"
_MAX_LINKS = 40
_SETTLED = 100_000_000
"""Nanoseconds after which a file's times are sure to tell a later write apart, so that its hash may be remembered."""


class LocalWorkspace(Workspace):
    """Files below one root. All paths are relative ids as `resolve` returns them.

    Every opening walks the components without following links, so that a link put there in between is an error
    and not a way out. Pipes, devices and sockets are never opened for reading content and never written.
    """

    root = Path()
    sandboxes: Path | None = None

    def __init__(self, root: Path | str, sandboxes: Path | None = None) -> None:
        self.sandboxes = sandboxes
        try:
            self.root = Path(root).resolve(strict=True)
            if scrub(str(self.root)) != str(self.root):
                raise WorkspaceError(f"the name of the workspace `{scrub(str(root))}` is no valid text; rename it")
            self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise WorkspaceError(
                f"the workspace `{root}` cannot be opened ({error.strerror}); name a directory that exists"
            ) from None
        self._hashes: dict[str, tuple[tuple[int, ...], str]] = {}

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def standing(self) -> None:
        """Raise WorkspaceError where the root is gone or another folder took its place, or git's index is no index."""
        try:
            there, held = self.root.stat(), os.fstat(self._fd)
        except OSError as error:
            raise WorkspaceError(f"the workspace `{self.root}` is gone ({error.strerror}); bring it back") from None
        if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            raise WorkspaceError(f"another folder took the place of the workspace `{self.root}`; look what happened")
        if self.look(_INDEX).kind == "file" and self.read(_INDEX, limit=len(_INDEX_MARK)) != _INDEX_MARK:
            raise WorkspaceError("git's index cannot be read; mend the repository (`git status` tells more)")

    def resolve(self, path: str, *, follow: bool = True) -> str:
        """Return the canonical id of `path`: relative, links followed, no `.` or `..`; "." is the root.

        Raises WorkspaceError for a path that leads outside, also by a link, or that is too long. Raises NoPath for a
        null byte, and NotText for a link to a name that is no text.
        """
        check_path(path)
        pending = _list_parts(self._relative(path))
        done: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                if not done:
                    raise build_outside_error(path)
                done.pop()
                continue
            if not pending and not follow:
                done.append(part)
                break
            try:
                target = os.readlink("/".join([*done, part]), dir_fd=self._fd)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    raise WorkspaceError(f"the path `{path[:80]}` is too long; shorten it") from None
                done.append(part)
                continue
            except UnicodeEncodeError:
                raise _build_not_text_error(path) from None
            links += 1
            if links > _MAX_LINKS:
                raise WorkspaceError(f"the path `{path[:80]}` goes through too many links; name the file itself")
            # It begins at the root again; what lies outside of that is refused below.
            if target.startswith("/"):
                done = []
            pending += _list_parts(self._relative(target))
        found = "/".join(done) or "."
        if scrub(found) != found:
            raise _build_not_text_error(path)
        return found

    def _relative(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        root = str(self.root).rstrip("/")
        if path == root or path.startswith(f"{root}/"):
            return path[len(root) :].lstrip("/") or "."
        raise build_outside_error(path)

    @contextmanager
    def directory(self, path: str, *, make: bool = False) -> Iterator[int]:
        """Open a folder; those made on the way are on disk, and gone again where what is done inside fails."""
        # A copy of the descriptor would share its place with all others, so that of two that list one sees nothing.
        fd = os.open(".", _DIRECTORY, dir_fd=self._fd)
        made: list[tuple[int, str]] = []
        try:
            for part in path.split("/") if path != "." else ():
                try:
                    inner = os.open(part, _DIRECTORY, dir_fd=fd)
                except FileNotFoundError:
                    if not make:
                        raise
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                        made.append((os.dup(fd), part))
                        sync_folder(fd)
                    inner = os.open(part, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        except BaseException:
            for above, part in reversed(made):
                with suppress(OSError):
                    os.rmdir(part, dir_fd=above)
            raise
        finally:
            for held in (fd, *(above for above, _ in made)):
                os.close(held)

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        above, _, name = path.rpartition("/")
        with self.directory(above or ".", make=make) as fd:
            yield fd, name

    def look(self, path: str, *, max_hash: int = 0) -> PathFacts:
        with (
            refuse_errors("look at", path),
            suppress(FileNotFoundError, NotADirectoryError),
            self.parent(path) as (fd, name),
        ):
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind, digest = get_kind(found.st_mode), ""
            if kind == "link":
                digest = hashlib.sha256(os.fsencode(os.readlink(name, dir_fd=fd))).hexdigest()
            elif kind == "file" and found.st_size <= max_hash:
                digest = self._hash(path, found, fd, name)
            return PathFacts(
                kind, digest, found.st_size, found.st_nlink, stat.S_IMODE(found.st_mode), found.st_mtime_ns
            )
        return PathFacts()

    def _hash(self, path: str, found: os.stat_result, fd: int, name: str) -> str:
        """Hash a file's content; known content is recognised by inode, size, mtime and ctime, which cannot be set."""
        mark = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._hashes.get(path)
        if known and known[0] == mark:
            return known[1]
        with os.fdopen(_open_regular(path, fd, name), "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if len(self._hashes) > 4096:
            self._hashes.clear()
        if time.time_ns() - found.st_ctime_ns > _SETTLED:
            self._hashes[path] = (mark, digest)
        return digest

    def read(self, path: str, *, limit: int = -1, offset: int = 0) -> bytes:
        with refuse_errors("read", path):
            with self.parent(path) as (fd, name):
                file = _open_regular(path, fd, name)
            with os.fdopen(file, "rb") as stream:
                if offset:
                    stream.seek(offset)
                return stream.read(limit)

    def read_link(self, path: str) -> bytes:
        with refuse_errors("read the link", path), self.parent(path) as (fd, name):
            return os.fsencode(os.readlink(name, dir_fd=fd))

    def write(self, path: str, data: bytes, traits: FileTraits = AS_THERE) -> tuple[str, ...]:
        """Put `data` at `path` in one step: readers see the old bytes or the new ones. Keeps what the file had."""
        _refuse_root(path, "is not a file; name a file in it")
        with refuse_errors("write", path), self.parent(path, make=True) as (fd, name):
            before = _stat_replaceable(fd, name)
            traits = self._complete_traits(path, before, traits)
            # The umask takes from this mode what it takes from that of any new file.
            file, temporary = create_temporary(fd, ".foregate-", 0o666)
            try:
                with os.fdopen(file, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    lost = set_traits(file, traits)
                    os.fsync(file)
                    os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=fd)
                raise
            sync_change(path, fd)
        return tuple(lost + [HARD_LINKS] * _has_more_names(before))

    def _complete_traits(self, path: str, before: os.stat_result | None, traits: FileTraits) -> FileTraits:
        """Return traits with what is not given as a file has it."""
        if before is None:
            return traits
        attributes = self.read_attributes(path) if traits.attributes is None else traits.attributes
        mode = stat.S_IMODE(before.st_mode) if traits.mode is None else traits.mode
        return FileTraits(mode, traits.modified, attributes, (before.st_uid, before.st_gid))

    def list_unkept(self, path: str, attributes: Mapping[str, bytes] | None = None) -> tuple[str, ...]:
        with refuse_errors("look at", path), suppress(FileNotFoundError), self.parent(path) as (fd, name):
            before = _stat_replaceable(fd, name)
            traits = self._complete_traits(path, before, FileTraits(attributes=attributes))
            lost = [HARD_LINKS] * _has_more_names(before)
            try:
                file = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=fd)
            except (OSError, AttributeError):
                # Nothing can be tried here: what cannot be told counts as lost.
                return (*sorted(traits.attributes or ()), *lost)
            try:
                return (*set_traits(file, traits), *lost)
            finally:
                os.close(file)
        return ()

    def read_attributes(self, path: str) -> Mapping[str, bytes]:
        kind = self.look(path).kind
        with refuse_errors("read", path):
            if kind == "directory":
                with self.directory(path) as fd:
                    return read_attributes(fd)
            if kind != "file":
                return {}
            with self.parent(path) as (fd, name):
                file = _open_regular(path, fd, name)
            try:
                return read_attributes(file)
            finally:
                os.close(file)

    def sync(self) -> None:
        sync_file_system(self._fd)

    def sweep(self) -> None:
        """Remove temporary files that processes have left which are gone; what cannot be read is left out."""
        pending = ["."]
        while pending:
            here = pending.pop()
            with suppress(OSError), self.directory(here) as fd, os.scandir(fd) as found:
                for entry in found:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.name if here == "." else f"{here}/{entry.name}")
                    elif is_temporary(entry.name):
                        sweep_temporary(fd, entry.name)

    def changeable(self, path: str) -> None:
        above = path.rpartition("/")[0] or "."
        with refuse_errors("change", path):
            try:
                with self.directory(above) as fd:
                    if not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
                        raise WorkspaceError(f"cannot change `{path[:80]}`: its folder does not allow it")
            except FileNotFoundError:
                self.changeable(above)

    def make_link(self, path: str, target: bytes, *, modified: int = 0) -> None:
        with refuse_errors("create", path), self.parent(path, make=True) as (fd, name):
            os.symlink(os.fsdecode(target), name, dir_fd=fd)
            if modified:
                with suppress(OSError):
                    os.utime(name, ns=(modified, modified), dir_fd=fd, follow_symlinks=False)
            sync_change(path, fd)

    def make_directory(self, path: str, traits: FileTraits = AS_THERE) -> None:
        with refuse_errors("create", path), self.directory(path, make=True) as fd:
            set_traits(fd, traits)
            sync_change(path, fd)

    def remove(self, path: str) -> None:
        _refuse_root(path, "cannot be deleted; name something in it")
        with refuse_errors("delete", path), self.parent(path) as (fd, name):
            if get_kind(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode) not in ("file", "link"):
                raise WorkspaceError(f"`{path[:80]}` is not a file; nothing was deleted")
            os.unlink(name, dir_fd=fd)
            sync_change(path, fd)

    def remove_directory(self, path: str) -> None:
        _refuse_root(path, "cannot be deleted; name something in it")
        with refuse_errors("delete", path), self.parent(path) as (fd, name):
            os.rmdir(name, dir_fd=fd)
            sync_change(path, fd)

    def move(self, source: str, destination: str) -> None:
        """Rename a file, link or directory; the destination is taken first, so that nothing is ever overwritten."""
        _refuse_root(source, "cannot be moved; name something in it")
        _refuse_root(destination, "is there already; name a new path")
        if destination.startswith(f"{source}/"):
            raise WorkspaceError(f"`{source[:80]}` cannot be moved into itself; name a place outside it")
        with refuse_errors("move", source):
            try:
                self._move(source, destination)
            except FileExistsError:
                raise WorkspaceError(f"`{destination[:80]}` is there already; name a new path") from None

    def _move(self, source: str, destination: str) -> None:
        with self.parent(source) as (old, name), self.parent(destination, make=True) as (new, target):
            kind = get_kind(os.stat(name, dir_fd=old, follow_symlinks=False).st_mode)
            if kind == "directory":
                os.mkdir(target, dir_fd=new)
            elif kind in ("file", "link"):
                os.close(os.open(target, _NEW, 0o600, dir_fd=new))
            else:
                raise WorkspaceError(f"`{source[:80]}` is neither file nor directory; nothing was moved")
            try:
                os.rename(name, target, src_dir_fd=old, dst_dir_fd=new)
            except BaseException:
                (os.rmdir if kind == "directory" else os.unlink)(target, dir_fd=new)
                raise
            sync_change(destination, new, old)


def _list_parts(path: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in path.split("/")[::-1] if part not in ("", ".")]


def _refuse_root(path: str, why: str) -> None:
    if path == ".":
        raise WorkspaceError(f"the workspace itself {why}")


def _build_not_text_error(path: str) -> NotText:
    return NotText(f"`{scrub(path)[:80]}` leads to a name that is no valid text; rename it by hand, or name another")


def _stat_replaceable(fd: int, name: str) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise WorkspaceError(f"`{name}` is not a regular file; name one")
    return found


def _has_more_names(found: os.stat_result | None) -> bool:
    return found is not None and found.st_nlink > 1


def _open_regular(path: str, fd: int, name: str) -> int:
    """Open a regular file for reading; anything else is refused before and after opening, which never blocks."""
    if stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
        file = os.open(name, _READ, dir_fd=fd)
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
    raise WorkspaceError(f"`{path[:80]}` is not a regular file; name one")
