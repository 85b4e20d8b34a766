"""What lies beneath a directory of the workspace: listed, fingerprinted, kept as an image, deleted, put back."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.sandbox.attributes import unpack_attributes
from foregate.agent.workspace.file_traits import FileTraits
from foregate.agent.workspace.workspace import Workspace, get_kind, keep_attributes, refuse_errors
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event_body import BeforeImage
from foregate.schemas.protocols import Blobs

EMPTY = strict_json.sha256(b"")
"""The hash of the listing of an empty directory."""


class DirectoryEntry(Struct, frozen=True):
    """One thing beneath a directory. `path` is relative to the workspace, `modified` in nanoseconds.

    `links` counts the names of what is no directory.
    """

    path: str
    kind: str
    size: int
    mode: int
    modified: int
    links: int = 1

    @property
    def name(self) -> str:
        """The last component."""
        return self.path.rpartition("/")[2]

    @property
    def is_readable(self) -> bool:
        """Whether the name is text; other names cannot be recorded."""
        return self.path == strict_json.scrub(self.path)


class DirectoryListing(Struct, frozen=True):
    """Entries in order of their paths; `complete` False when there are more than were asked for."""

    entries: tuple[DirectoryEntry, ...]
    complete: bool

    @property
    def can_be_kept(self) -> bool:
        """Whether all is listed, of known kinds and with names that are text."""
        return self.complete and all(entry.kind != "other" and entry.is_readable for entry in self.entries)

    @property
    def hash(self) -> str:
        """The SHA-256 over names, kinds, sizes and times relative to the directory; not over content."""
        base = min((entry.path.rpartition("/")[0] for entry in self.entries), key=len, default="")
        lines = []
        for entry in self.entries:
            size, modified = (0, 0) if entry.kind == "directory" else (entry.size, entry.modified)
            lines.append(f"{entry.path[len(base) :]}\0{entry.kind}\0{size}\0{modified}\n")
        return strict_json.sha256("".join(lines).encode("utf-8", "surrogatepass"))


class ImageEntry(Struct, frozen=True):
    """One thing of a directory's image. `path` is relative to the directory; a directory has no `hash`.

    `modified`, `attributes` and `links` are as in a before-image; images of earlier versions say nothing of them.
    `owner` are user and group, and `first` is the path of another entry that is a name of the same file.
    """

    path: str
    kind: str
    mode: int
    hash: str = ""
    modified: str = ""
    attributes: str = ""
    links: int = 1
    owner: tuple[int, int] | None = None
    first: str = ""


class DirectoryImage(Struct, frozen=True):
    """What an image says of a directory and of what lies beneath it, parents before children."""

    mode: int
    entries: tuple[ImageEntry, ...]
    modified: str = ""
    attributes: str = ""

    @property
    def whole(self) -> tuple[ImageEntry, ...]:
        """The directory itself, under the path "", and all beneath it."""
        return (ImageEntry("", "directory", self.mode, "", self.modified, self.attributes), *self.entries)


def walk(
    workspace: Workspace,
    path: str,
    *,
    recursive: bool = True,
    enter: Callable[[DirectoryEntry], bool] = lambda entry: True,
) -> Iterator[DirectoryEntry]:
    """Yield what lies beneath `path`, parents before children, never following a link.

    Directories for which `enter` is False are yielded and not entered. Raises WorkspaceError when the directory
    cannot be read; one that vanishes or becomes a link on the way is left out.
    """
    pending = [path]
    while pending:
        here = pending.pop()
        inside: list[DirectoryEntry] = []
        with refuse_errors("list", path) if here == path else suppress(OSError):
            inside = _list_directory(workspace, here)
        yield from inside
        if recursive:
            pending.extend(entry.path for entry in reversed(inside) if entry.kind == "directory" and enter(entry))


def _list_directory(workspace: Workspace, path: str) -> list[DirectoryEntry]:
    """Return the entries of one directory, sorted by name."""
    prefix = "" if path == "." else f"{path}/"
    found = []
    with workspace.directory(path) as fd:
        for name in sorted(os.listdir(fd)):  # noqa: PTH208 - a descriptor is no path
            try:
                seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            kind, mode = get_kind(seen.st_mode), stat.S_IMODE(seen.st_mode)
            links = 1 if kind == "directory" else seen.st_nlink
            found.append(DirectoryEntry(f"{prefix}{name}", kind, seen.st_size, mode, seen.st_mtime_ns, links))
    return found


def list_tree(workspace: Workspace, path: str, limit: int) -> DirectoryListing:
    """Return what lies beneath `path`, at most `limit` entries, sorted by path."""
    entries = list(islice(walk(workspace, path), limit + 1))
    found = sorted(entries[:limit], key=lambda entry: entry.path)
    return DirectoryListing(tuple(found), len(entries) <= limit)


def is_restorable(found: DirectoryListing, max_bytes: int) -> bool:
    """Whether everything listed can be kept: complete, of known kinds, with names that are text, not too much."""
    return found.can_be_kept and sum(entry.size for entry in found.entries if entry.kind == "file") <= max_bytes


def build_image(workspace: Workspace, path: str, limit: int, put: Callable[[bytes], str]) -> bytes:
    """Return a directory as bytes that name everything beneath it; contents go to `put`, which returns their hash.

    Raises WorkspaceError when there are more than `limit` entries, or something that cannot be kept.
    """
    found = list_tree(workspace, path, limit)
    if not found.can_be_kept:
        raise WorkspaceError(f"`{path[:80]}` holds too much or something special; no copy of it can be kept")
    entries = []
    for entry in found.entries:
        digest = ""
        if entry.kind != "directory":
            digest = put((workspace.read if entry.kind == "file" else workspace.read_link)(entry.path))
        kept = keep_attributes(workspace, entry.path, put)
        name, modified = entry.path.removeprefix(f"{path}/"), str(entry.modified)
        entries.append(ImageEntry(name, entry.kind, entry.mode, digest, modified, kept, entry.links))
    top, attributes = workspace.look(path), keep_attributes(workspace, path, put)
    return strict_json.canonical(
        strict_json.dump(DirectoryImage(top.mode, tuple(entries), str(top.modified), attributes))
    )


def read_traits(kept: ImageEntry | BeforeImage, blobs: Blobs) -> FileTraits:
    """Return what an image says a file or folder had beside its content."""
    attributes = unpack_attributes(blobs.get(kept.attributes)) if kept.attributes else None
    return FileTraits(kept.mode, int(kept.modified or 0), attributes)


def has_attributes(workspace: Workspace, path: str, traits: FileTraits, lost: Collection[str] = ()) -> bool:
    """Whether a file or folder has the extended attributes it is to have, those apart that are `lost`."""
    wanted = {name: value for name, value in (traits.attributes or {}).items() if name not in lost}
    return not wanted or wanted.items() <= workspace.read_attributes(path).items()


def restore_image(workspace: Workspace, path: str, data: bytes, blobs: Blobs) -> None:
    """Create at `path` the directory an image describes; what is there already is left alone."""
    kept = _read_image(data)
    directories = [entry for entry in kept.whole if entry.kind == "directory"]
    for entry in kept.whole:
        here = _place(path, entry)
        if entry.kind == "directory":
            workspace.make_directory(here)
        elif _is_there(workspace, here, entry) and workspace.look(here).mode == entry.mode:
            continue
        elif entry.kind == "file":
            workspace.write(here, blobs.get(entry.hash), read_traits(entry, blobs))
        else:
            workspace.make_link(here, blobs.get(entry.hash), modified=int(entry.modified or 0))
    for entry in reversed(directories):
        workspace.make_directory(_place(path, entry), read_traits(entry, blobs))


def is_restored(workspace: Workspace, path: str, data: bytes, blobs: Blobs, limit: int) -> bool:
    """Whether at `path` is what an image describes, its times and hard links apart."""
    kept, now = (_read_image(image) for image in (data, build_image(workspace, path, limit, strict_json.sha256)))
    same = [[replace(one, modified="", attributes="", links=1) for one in image.whole] for image in (kept, now)]
    return same[0] == same[1] and all(
        has_attributes(workspace, _place(path, entry), read_traits(entry, blobs)) for entry in kept.whole
    )


def _place(path: str, entry: ImageEntry) -> str:
    """Return where an entry of the image of a directory at `path` belongs."""
    return f"{path}/{entry.path}" if entry.path else path


def _read_image(data: bytes) -> DirectoryImage:
    """Return what the bytes of an image say."""
    return strict_json.load(DirectoryImage, strict_json.parse(data.decode(), max_bytes=len(data) + 1))


def list_hashes(data: bytes) -> list[str]:
    """Return the hashes of all that an image names."""
    return [hash_ for entry in _read_image(data).whole for hash_ in (entry.hash, entry.attributes) if hash_]


def has_hard_links(data: bytes) -> bool:
    """Whether a file of an image had further names."""
    return any(entry.links > 1 for entry in _read_image(data).entries)


def _is_there(workspace: Workspace, path: str, entry: ImageEntry) -> bool:
    """Whether at `path` is what an entry of an image says, whatever its mode."""
    found = workspace.look(path, max_hash=sys.maxsize)
    return (found.kind, found.hash) == (entry.kind, entry.hash)


def is_partly_restored(workspace: Workspace, path: str, data: bytes) -> bool:
    """Whether at `path` is a directory that holds nothing but what an image describes."""
    entries = {f"{path}/{entry.path}": entry for entry in _read_image(data).entries}
    if workspace.look(path).kind != "directory":
        return False
    return all(
        one.path in entries and _is_there(workspace, one.path, entries[one.path]) for one in walk(workspace, path)
    )


def delete_tree(workspace: Workspace, path: str) -> int:
    """Delete a directory and all beneath it, links and special files themselves, none opened; return how many."""
    entries = list(walk(workspace, path))
    for entry in reversed(entries):
        with (
            refuse_errors("delete", entry.path),
            suppress(FileNotFoundError),
            workspace.parent(entry.path) as (fd, name),
        ):
            (os.rmdir if entry.kind == "directory" else os.unlink)(name, dir_fd=fd)
    workspace.remove_directory(path)
    return len(entries) + 1


def remove_empty(workspace: Workspace, folders: Sequence[str]) -> None:
    """Remove directories made on the way to something, innermost first, as far as nothing else is in them."""
    for folder in reversed(folders):
        if workspace.look(folder).kind != "directory" or list_tree(workspace, folder, 1).entries:
            return
        workspace.remove_directory(folder)
