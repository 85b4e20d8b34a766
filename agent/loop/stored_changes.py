"""The changes of a sandbox, and what was there before them: kept as one, and the two places contents come from."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.sandbox.attributes import choose_attributes, pack_attributes, read_attributes
from foregate.agent.workspace.directory import ImageEntry, read_traits
from foregate.agent.workspace.file_traits import HARD_LINKS, FileTraits
from foregate.agent.workspace.git_folder import hash_index, is_index
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.path_state import READ_FILE, Conflict, Content, Step, is_adjusted, is_at, look_at_path
from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, WorkspaceError
from foregate.schemas.protocols import Blobs
from foregate.schemas.sandbox import PathChange, PathState

_UNTRUSTED = 0o6000
"""The bits of a mode that lend a program its owner's rights."""
_KINDS = ("", "file", "directory", "link")
_NAMED = 20
"""Paths a text names at most."""


class StoredChanges(Struct, frozen=True, dict=True):
    """Changes to apply, and images of what they replace and of the folders around, as the blob store holds them.

    An image's `path` is relative to the workspace. One of a file without a `hash` is of a file too large to keep. Its
    `first` is another path of these that is a name of the same file. `stamp` is the time, in nanoseconds, that the
    folders get which are changed only by what lies in them. `staged` are, by the path of an index of git, the hashes of
    what it says is staged, before and after. `linked` are the paths whose files have several names before or after,
    `joined` those that have several after.
    """

    changes: tuple[PathChange, ...]
    images: tuple[ImageEntry, ...]
    stamp: str
    staged: Mapping[str, tuple[str, str]] = {}
    linked: frozenset[str] = frozenset()
    joined: frozenset[str] = frozenset()

    @cached_property
    def by_path(self) -> dict[str, ImageEntry]:
        """The images by their paths."""
        return {image.path: image for image in self.images}

    def look(self, workspace: Workspace, change: PathChange) -> tuple[PathState, PathState]:
        """Return what a path is now, and that as one of the states of its change where it comes to the same.

        So an index of git is as it was when only what it notes of the files on disk is new. Raises WorkspaceError.
        """
        now = look_at_path(workspace, change.path).state
        staged = self.staged.get(change.path)
        if staged is not None and now.kind == "file" and now.hash not in (change.before.hash, change.after.hash):
            found = hash_index(workspace.read(change.path))
            for state, hash_ in zip((change.before, change.after), staged, strict=True):
                if found and found == hash_:
                    return now, replace(now, hash=state.hash)
        return now, now

    @cached_property
    def around(self) -> frozenset[str]:
        """The folders that are changed only by what is put into them or goes out of them."""
        listed = {change.path for change in self.changes}
        steps = [step for step in self.list_forward() if step.is_moved]
        return frozenset(step.path.rpartition("/")[0] or "." for step in steps) - listed

    @property
    def lost(self) -> tuple[str, ...]:
        """The paths without a copy, as they are too large or special: these changes cannot be taken back."""
        return tuple(one.path for one in self.images if one.kind == "other" or (one.kind == "file" and not one.hash))

    @property
    def unlinked(self) -> tuple[str, ...]:
        """The paths of files that have further names that do not change: taken back, they are files of their own."""
        names = Counter(one.first or one.path for one in self.images)
        return tuple(one.path for one in self.images if one.kind == "file" and one.links > names[one.first or one.path])

    @property
    def parted(self) -> tuple[str, ...]:
        """Those of them that were written to: that does not show under the other names.

        One that has several names again is another file in its place, as a build makes.
        """
        there = {one.path for one in self.changes if one.after.kind == "file"} - self.joined
        return tuple(path for path in self.unlinked if path in there)

    def list_forward(self) -> list[Step]:
        """Return the steps that apply the changes."""
        return [
            Step(number, one.path, one.before, one.after, one.path in self.linked)
            for number, one in enumerate(self.changes)
        ]

    def list_back(self) -> list[Step]:
        """Return the steps that take the changes back; objects git got stay, as others may have come to need them."""
        made = {one.path for one in self.changes if not one.before.kind}
        steps = [
            Step(number, one.path, one.after, one.before, one.path in self.linked)
            for number, one in enumerate(self.changes)
        ]
        return [one for one in steps if one.then.kind != "other" and not (one.path in made and _is_object(one, made))]


def _is_object(step: Step, made: set[str]) -> bool:
    """Whether a path lies in an object store of git that was there before."""
    above, inside, _ = step.path.partition("/objects/")
    return bool(inside) and ".git" in above.split("/") and f"{above}/objects" not in made


def check_changes(changes: Sequence[PathChange]) -> None:
    """Raise WorkspaceError for changes that are never applied, whoever listed them."""
    seen = set()
    for change in changes:
        path, parts = change.path, change.path.split("/")
        if {"", ".", ".."} & {*parts} or "\0" in path or strict_json.scrub(path) != path or path in seen:
            raise WorkspaceError(f"`{strict_json.scrub(path)[:80]}` is no path that can be changed; nothing was done")
        seen.add(path)
        lent = change.after.kind == "file" and change.after.mode & _UNTRUSTED & ~change.before.mode
        if change.refused or change.after.kind not in _KINDS or lent:
            why = change.refused or "privileged"
            raise WorkspaceError(f"the change of `{path[:80]}` is never applied ({why}); leave it out")


def keep_changes(workspace: Workspace, blobs: Blobs, changes: Sequence[PathChange], upper: Path, max_bytes: int) -> str:
    """Store what changes replace, and the changes; return the hash of what names all of it.

    Of files larger than `max_bytes` no content is kept. Raises Conflict where something is not as it was judged,
    WorkspaceError for changes that are never applied, and LogError where nothing can be stored.
    """
    check_changes(changes)
    above = LocalWorkspace(upper)
    try:
        staged = _read_staged(workspace, above, changes)
        joined = {one.path for one in changes if one.after.kind == "file" and above.look(one.path).links > 1}
    finally:
        above.close()
    images = _build_images(workspace, changes)
    linked = joined | {one.path for one in images if one.links > 1}
    adjusted = {one.path for one in changes if one.path not in linked and is_adjusted(one.before, one.after)}
    large = {one.path for one in changes if one.before.kind == "file" and one.before.size > max_bytes}
    images = [replace(one, hash="") if one.path in large - adjusted else one for one in images]
    made = StoredChanges(
        tuple(changes), tuple(images), str(time.time_ns()), staged, frozenset(linked), frozenset(joined)
    )
    images += [_build_image(workspace, path, PathState("directory")) for path in sorted({".", *made.around})]
    named = [(image, hash_) for image in images for hash_ in _list_hashes(image, image.path not in adjusted)]
    for (image, hash_), found in zip(named, blobs.put_all(_read_all(workspace, images, adjusted)), strict=True):
        if hash_ != found:
            raise Conflict([image.path])
    return blobs.put(msgspec.json.encode(replace(made, images=tuple(images))))


def _build_images(workspace: Workspace, changes: Sequence[PathChange]) -> list[ImageEntry]:
    """Return the images of what changes replace; raise Conflict where something is not as it was judged."""
    images, first = [], dict[tuple[int, int], str]()
    for change in changes:
        seen = look_at_path(workspace, change.path)
        if not is_at(seen.state, change.before):
            raise Conflict([change.path])
        if seen.found is not None:
            image = _build_image(workspace, change.path, seen.state)
            if image.kind == "file" and image.links > 1:
                other = first.setdefault((seen.found.st_dev, seen.found.st_ino), change.path)
                image = replace(image, first=other if other != change.path else "")
            images.append(image)
    return images


def _read_staged(
    workspace: Workspace, above: LocalWorkspace, changes: Sequence[PathChange]
) -> dict[str, tuple[str, str]]:
    """Return what is staged before and after, by the paths of the indexes among the changes."""
    found = {}
    for one in (one for one in changes if is_index(one.path)):
        places = ((one.before, workspace), (one.after, above))
        before, after = (hash_index(space.read(one.path)) if at.kind == "file" else "" for at, space in places)
        found[one.path] = (before, after)
    return found


def _build_image(workspace: Workspace, path: str, state: PathState) -> ImageEntry:
    """Return the image of what lies at a path, with the hashes its content and attributes are to be stored under."""
    with refuse_errors("look at", path):
        if path == ".":
            with workspace.directory(".") as fd:
                found = os.fstat(fd)
        else:
            with workspace.parent(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kept = workspace.read_attributes(path)
    mode, links = found.st_mode & 0o7777, 1 if state.kind == "directory" else found.st_nlink
    packed = strict_json.sha256(pack_attributes(kept)) if kept else ""
    owner = (found.st_uid, found.st_gid)
    return ImageEntry(path, state.kind, mode, state.hash, str(found.st_mtime_ns), packed, links, owner)


def _list_hashes(image: ImageEntry, stored: bool) -> list[str]:
    return [hash_ for hash_ in (image.hash if stored else "", image.attributes) if hash_]


def _read_all(workspace: Workspace, images: Sequence[ImageEntry], adjusted: Collection[str]) -> Iterator[bytes]:
    """Yield the bytes behind the hashes of images, in their order."""
    for image in images:
        if image.hash and image.path not in adjusted:
            yield (workspace.read if image.kind == "file" else workspace.read_link)(image.path)
        if image.attributes:
            yield pack_attributes(workspace.read_attributes(image.path))


def load_changes(blobs: Blobs, kept: str) -> StoredChanges:
    """Return what `keep_changes` stored; raise LogError where it is missing or damaged."""
    try:
        return msgspec.json.decode(blobs.get(kept), type=StoredChanges)
    except msgspec.MsgspecError:
        raise LogError(f"the stored bytes `{kept}` are no list of changes; restore them from a copy") from None


class ImageSource:
    """What was there before, out of the blob store."""

    def __init__(self, kept: StoredChanges, blobs: Blobs) -> None:
        self._kept, self._blobs = kept, blobs

    def open_content(self, path: str, then: PathState) -> Content:
        image = self._find(path)
        if not image.hash:
            raise WorkspaceError(f"no copy was kept of `{path[:80]}`; change it by hand")
        return Content(self._blobs.get(image.hash), self._read(image), image.first or image.path)

    def read_traits(self, path: str, then: PathState) -> FileTraits:
        return self._read(self._find(path))

    def find_moved(self, then: PathState) -> Content | None:
        """Return the content of a file or link of that hash wherever it was, None for none."""
        fits = (one for one in self._kept.images if one.hash and (one.kind, one.hash) == (then.kind, then.hash))
        image = next(fits, None)
        return Content(self._blobs.get(image.hash), self._read(image)) if image is not None else None

    def _find(self, path: str) -> ImageEntry:
        if path not in self._kept.by_path:
            raise WorkspaceError(f"no copy was kept of `{path[:80]}`; change it by hand")
        return self._kept.by_path[path]

    def _read(self, image: ImageEntry) -> FileTraits:
        found = read_traits(image, self._blobs)
        return FileTraits(found.mode, found.modified, found.attributes or {}, image.owner)


class UpperSource:
    """What a sandbox left, in a folder with the paths of the workspace; what it only moved may lack there."""

    def __init__(self, upper: LocalWorkspace, moved: ImageSource) -> None:
        self._upper, self._moved = upper, moved

    def open_content(self, path: str, then: PathState) -> Content:
        with refuse_errors("read what was written to", path):
            try:
                with self._upper.parent(path) as (folder, name):
                    return _open(folder, name, then)
            except (FileNotFoundError, NotADirectoryError):
                found = self._moved.find_moved(then)
        if found is None:
            raise WorkspaceError(f"what `{path[:80]}` is to hold is gone; nothing was done")
        return found

    def read_traits(self, path: str, then: PathState) -> FileTraits:
        with refuse_errors("look at", path):
            try:
                with self._upper.parent(path) as (folder, name):
                    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                return FileTraits(then.mode)
        kept = choose_attributes(self._upper.read_attributes(path))
        return FileTraits(then.mode, found.st_mtime_ns, kept, (found.st_uid, found.st_gid))


def _open(folder: int, name: str, then: PathState) -> Content:
    """Open what lies at a name of an open folder of a sandbox; raise WorkspaceError where it is of another kind."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    traits = FileTraits(then.mode, found.st_mtime_ns, {}, (found.st_uid, found.st_gid))
    twin = (found.st_dev, found.st_ino) if found.st_nlink > 1 else None
    if then.kind == "link":
        return Content(os.fsencode(os.readlink(name, dir_fd=folder)), traits, twin)
    file = os.open(name, READ_FILE, dir_fd=folder)
    try:
        kept = choose_attributes(read_attributes(file))
    except BaseException:
        os.close(file)
        raise
    return Content(file, FileTraits(traits.mode, traits.modified, kept, traits.owner), twin)


def name_parted(blobs: Blobs, kept: str) -> str:
    """Return which files of changes that were applied have no further names any more, as a line; "" for none."""
    parted = load_changes(blobs, kept).parted
    return f"\nnot kept: {HARD_LINKS} of {name_paths(parted)}" if parted else ""


def name_paths(paths: Sequence[str]) -> str:
    """Return the first paths of a list, each within backticks."""
    return ", ".join(f"`{path[:80]}`" for path in paths[:_NAMED]) + " and more" * (len(paths) > _NAMED)
