"""The folder git keeps a repository in: where it is, what its index has staged, and locks of commands now dead."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError

_ENTERED = ("refs", "logs", "info", "objects", "reftable")
"""Folders git follows links in on the way of a tool; those in `hooks` lead nowhere, since no hook is run."""
_STORES = 64
"""Object stores one repository may be made of."""
_LISTED = 65536
"""Bytes of one list of alternates that are read."""
_PLAIN_PATH = 4096
_TICK = 10_000_000
"""Nanoseconds by which a file system's clock is behind: it stands still between two ticks of the kernel (100 Hz)."""
_STAT = 40
"""Bytes of an entry that note a file on disk; the mode among them, at 24, is staged."""
_EXTENDED = 0x4000
_NAME = 0x0FFF
_SPLIT = b"link"


def find_git_folder(workspace: Workspace, here: str) -> str:
    """Return the git folder of the repository at `here`, "" for none; raise WorkspaceError where it leads outside."""
    inside = ".git" if here == "." else f"{here}/.git"
    kind = workspace.look(inside).kind
    if kind in ("", "directory"):
        return inside if kind else ""
    if kind != "file":
        raise WorkspaceError(f"`{inside[:80]}` is a link or something special; a repository needs its own git folder")
    text = _read_line(workspace, inside)
    if not text.startswith("gitdir: "):
        raise WorkspaceError(f"`{inside[:80]}` is no git folder and names none")
    return _resolve_path(workspace, here, text.removeprefix("gitdir: "), inside)


def find_common_folder(workspace: Workspace, git: str) -> str:
    """Return the folder of objects, branches and settings, often `git` itself; raise WorkspaceError for one outside."""
    named = f"{git}/commondir"
    if not workspace.look(named).kind:
        return git
    return _resolve_path(workspace, git, _read_line(workspace, named), named)


def _read_line(workspace: Workspace, path: str) -> str:
    return workspace.read(path, limit=_PLAIN_PATH).decode("utf-8", "replace").strip()


def _resolve_path(workspace: Workspace, beside: str, path: str, named: str) -> str:
    """Return the id of a path that the file `named` gives relative to `beside`."""
    try:
        return workspace.resolve(path if path.startswith("/") or beside == "." else f"{beside}/{path}")
    except WorkspaceError:
        raise WorkspaceError(
            f"`{named[:80]}` leads git outside the workspace; open the folder that holds both as the workspace"
        ) from None


def refuse_ways_out(workspace: Workspace, git: str) -> None:
    """Raise WorkspaceError when git would read or write outside the workspace by what its own folder says.

    That is by the folder it shares, by a link, or by an object store of another repository (`info/alternates`).
    No variable and no setting has git leave alternates out, so they are read here, at each call, as git reads them.
    """
    common = find_common_folder(workspace, git)
    for folder in dict.fromkeys((git, common)):
        _refuse_links(workspace, folder, _ENTERED)
    _refuse_foreign_objects(workspace, f"{common}/objects")


def _refuse_links(workspace: Workspace, folder: str, entered: Collection[str] | None = None) -> None:
    """Raise WorkspaceError when there is a link beneath a folder; of its own folders only `entered` are looked into."""
    pending = [folder]
    while pending:
        here = pending.pop()
        with (
            refuse_errors("list", here),
            suppress(FileNotFoundError, NotADirectoryError),
            workspace.directory(here) as fd,
            os.scandir(fd) as entries,
        ):
            # The kind comes with the name, so that thousands of objects cost no `stat` each.
            for entry in entries:
                path = f"{here}/{entry.name}"
                if entry.is_symlink():
                    shown = strict_json.scrub(path)[:80]
                    raise WorkspaceError(f"`{shown}` is a link in git's own folder; the git tools do not follow it")
                deeper = here != folder or entered is None or entry.name in entered
                if deeper and entry.is_dir(follow_symlinks=False):
                    pending.append(path)


def _refuse_foreign_objects(workspace: Workspace, store: str) -> None:
    """Raise WorkspaceError when an object store, or one it borrows from, borrows from one outside the workspace."""
    pending, seen = [store], {store}
    while pending:
        here = pending.pop()
        for other in _read_alternates(workspace, here):
            if other not in seen:
                seen.add(other)
                pending.append(other)
                _refuse_links(workspace, other)
        if len(seen) > _STORES:
            raise WorkspaceError(
                f"`{store[:80]}` borrows from more than {_STORES} stores; run `git repack -a -d` there"
            )


def _read_alternates(workspace: Workspace, store: str) -> list[str]:
    """Return the stores that one borrows from; raise WorkspaceError for a list that cannot be read or leads outside."""
    listed = f"{store}/info/alternates"
    found = workspace.look(listed)
    if not found.kind:
        return []
    if found.kind != "file" or found.size > _LISTED:
        raise WorkspaceError(f"`{listed[:80]}` is no plain list of object stores; remove it, and copy what it borrows")
    lines = workspace.read(listed, limit=_LISTED + 1).decode("utf-8", "surrogateescape").split("\n")
    return [_resolve_store(workspace, store, line, listed) for line in lines if line and not line.startswith("#")]


def _resolve_store(workspace: Workspace, beside: str, line: str, listed: str) -> str:
    """Return the store a line of the list means; one in quotes counts as outside, since git writes none."""
    with suppress(WorkspaceError, OSError, RuntimeError, ValueError):
        path = str(Path(line).resolve()) if line.startswith("/") else f"{beside}/{line}"
        if not line.startswith('"'):
            return workspace.resolve(path)
    raise WorkspaceError(
        f"`{listed[:80]}` has git read objects outside the workspace, in `{strict_json.scrub(line)[:120]}`; copy them "
        "with `git repack -a -d` and remove that file, or open the folder that holds both as the workspace"
    )


def remove_dead_locks(workspace: Workspace, git: str, since: int) -> list[str]:
    """Remove the locks in a git folder that were made since a time and that nobody holds; return their paths.

    `since` is in nanoseconds since 1970. Raises WorkspaceError where the folder cannot be read or a lock not removed.
    """
    removed = []
    for path in sorted(_list_locks(workspace, git)):
        with refuse_errors("remove", path), workspace.parent(path) as (folder, name):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            made = min(about.st_mtime_ns, about.st_ctime_ns)
            is_own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_nlink == 1
            if is_own and made >= since - _TICK and not _is_held(about, (workspace.root, workspace.root / git)):
                os.unlink(name, dir_fd=folder)
                removed.append(path)
    return removed


def _list_locks(workspace: Workspace, git: str) -> Iterator[str]:
    """Yield the locks of index, HEAD, settings, packed refs and branches, also where a linked worktree shares them."""
    for top in dict.fromkeys((git, find_common_folder(workspace, git))):
        pending = [top]
        while pending:
            here = pending.pop()
            with refuse_errors("list", here), workspace.directory(here) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".lock") and entry.is_file(follow_symlinks=False):
                        yield f"{here}/{entry.name}"
                    elif (here != top or entry.name == "refs") and entry.is_dir(follow_symlinks=False):
                        pending.append(f"{here}/{entry.name}")


def _is_held(lock: os.stat_result, places: Sequence[Path]) -> bool:
    """Whether a living process may hold a lock; so it is where the system does not list what its processes have open.

    Git closes a lock while an editor has the message of a commit, so a git that works in one of the places counts too.
    """
    processes = [one for one in _list(Path("/proc")) if one.name.isdigit()]
    return not processes or any(_has_open(one, lock) or _is_git_in(one, places) for one in processes)


def _has_open(process: Path, lock: os.stat_result) -> bool:
    for number in _list(process / "fd"):
        with suppress(OSError):
            found = number.stat()
            if (found.st_dev, found.st_ino) == (lock.st_dev, lock.st_ino):
                return True
    return False


def _list(folder: Path) -> list[Path]:
    """Return what is in a folder of /proc: nothing of a process that has ended, or that is another user's.

    None of those made a file of our own.
    """
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_git_in(process: Path, places: Sequence[Path]) -> bool:
    """Whether a process is a git that works in one of some folders, as its own folder or its words say."""
    with suppress(OSError):
        if not (process / "comm").read_bytes().startswith(b"git"):
            return False
        here = (process / "cwd").readlink()
        words = b"\0".join((process / name).read_bytes() for name in ("cmdline", "environ"))
        return any(here.is_relative_to(place) or os.fsencode(place) in words for place in places)
    return False


def describe_removed(paths: Sequence[str]) -> str:
    """Return what is said of locks that were removed, "" for none.

    >>> describe_removed([".git/index.lock"])
    'the lock it left, `.git/index.lock`, was removed'
    """
    if not paths:
        return ""
    what = "the lock it left" if len(paths) == 1 else "the locks it left"
    return f"{what}, {', '.join(f'`{path}`' for path in paths)}, {'was' if len(paths) == 1 else 'were'} removed"


def is_index(path: str) -> bool:
    """Whether a path of the workspace is one of an index of git."""
    parts = path.split("/")
    return parts[-1] == "index" and ".git" in parts[:-1]


def hash_index(data: bytes) -> str:
    """Return the SHA-256 over the entries of an index, "" for bytes that are none, or one that is split in two."""
    for width in (20, 32):
        try:
            entries, end = _read_entries(data, width)
        except (struct.error, ValueError):
            continue
        if _is_end(data, end, width):
            return strict_json.sha256(entries)
    return ""


def _read_entries(data: bytes, width: int) -> tuple[bytes, int]:
    """Return the entries without what they note of files on disk, and where they end."""
    mark, version, count = struct.unpack_from(">4sII", data)
    if mark != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    at, name, found = 12, b"", []
    for _ in range(count):
        start, mode = at, data[at + 24 : at + 28]
        at += _STAT + width
        (flags,) = struct.unpack_from(">H", data, at)
        fixed = data[start + _STAT : at] + struct.pack(">H", flags & ~_NAME)
        at += 2
        if flags & _EXTENDED:
            fixed, at = fixed + data[at : at + 2], at + 2
        if version == 4:
            cut, at = _read_number(data, at)
            name = name[: len(name) - cut]
        else:
            name = b""
        end = data.index(b"\0", at)
        name += data[at:end]
        at = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
        found.append(mode + fixed + name + b"\0")
    return b"".join(found), at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number as git writes how much of a name is cut, and where it ends."""
    byte = data[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        number = (number + 1 << 7) | (byte & 0x7F)
    return number, at + 1


def _is_end(data: bytes, at: int, width: int) -> bool:
    """Whether from here on there are extensions, none that names another index, and the right sum, or none."""
    body = len(data) - width
    while at < body:
        if len(data) < at + 8 or data[at : at + 4] == _SPLIT:
            return False
        at += 8 + struct.unpack_from(">I", data, at + 4)[0]
    total = hashlib.new({20: "sha1", 32: "sha256"}[width], data[:body], usedforsecurity=False)
    return at == body and data[body:] in (bytes(width), total.digest())
