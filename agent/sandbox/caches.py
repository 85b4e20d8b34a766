"""What sandboxes made and later ones run: caches of programs that stay in a layer of their own, over the workspace."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from foregate.agent.sandbox.layers import (
    Merged,
    OverlayLayer,
    is_opaque,
    is_whiteout,
    list_names,
    open_entry,
    open_layers,
)
from foregate.agent.sandbox.namespaces import copy_metadata
from foregate.agent.sandbox.removal import open_folder, remove_at, remove_tree
from foregate.agent.sandbox.states import Budget, Unfolding, copy_traits
from foregate.agent.sandbox.view import MARKS, TRUSTED, USER, find_layer
from foregate.schemas.errors import WorkspaceError

Stamp = list[int] | None
"""Number and time of change in nanoseconds of what the workspace has at a path, None for nothing."""


def keep_folders(
    upper: str, caches: str, workspace: str, folders: Iterable[str], *, max_paths: int, max_bytes: int
) -> None:
    """Move folders that a command which has ended wrote into the layer `caches`, where later sandboxes see them.

    `folders` are relative to the workspace; what is no folder there stays where it is, and the layer forgets one that
    was deleted. `upper` and `caches` are as in the plan, and lie on one file system. Changes are listed anew after it.
    Raises WorkspaceError, also where more than `max_paths` paths or `max_bytes`
    bytes would have to be copied because a folder was renamed.
    """
    try:
        store = _Store(caches, Path(upper, MARKS).read_text())
        with open_layers(upper, caches, workspace) as (written, below):
            Unfolding(below, Budget(max_paths, max_bytes)).run(written)
            for folder in folders:
                if ".." in (names := folder.split("/")) or not all(names):
                    raise WorkspaceError(f"`{folder}` names no folder of the workspace; give a path without `..`")
                _keep(written, below, store, Path(workspace), folder)
    except OSError as error:
        raise WorkspaceError(f"what a command left cannot be kept: {error.strerror}; free some space") from error


def release_folders(upper: str, caches: str, folders: Iterable[str]) -> None:
    """Move folders that `keep_folders` has moved back to what the command wrote, with all the layer held of them.

    Listed anew, their changes are all that is new to the workspace, also what earlier commands left. Raises
    WorkspaceError.
    """
    try:
        store = _Store(caches, Path(upper, MARKS).read_text())
        for folder in folders:
            kept = store.layer / folder
            if _is_folder(kept):
                kept.rename(Path(upper, "upper", folder))
            store.drop(folder)
    except OSError as error:
        raise WorkspaceError(f"what a command left cannot be listed: {error.strerror}; run it again") from error


def prune_caches(caches: str, workspace: str) -> None:
    """Forget what the layer holds of folders that are gone in the workspace, or were made or changed there meanwhile.

    Called before each sandbox that shows the layer, so that it hides nothing of the workspace. Raises WorkspaceError.
    """
    try:
        for marks in (TRUSTED, USER):
            if find_layer(caches, marks).is_dir():
                _Store(caches, marks).prune(Path(workspace))
    except OSError as error:
        raise WorkspaceError(f"the caches of sandboxes cannot be looked after: {error.strerror}") from error


class _Store:
    """A layer, and a list of the folders that were moved into it, each with what the workspace had there."""

    def __init__(self, caches: str, marks: str) -> None:
        self.layer = find_layer(caches, marks)
        self.layer.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._listed = self.layer.with_suffix(".json")
        self._known: dict[str, Stamp] = {}
        if self._listed.exists():
            try:
                self._known = json.loads(self._listed.read_text())
            except ValueError:
                # A power cut left half of it: what the layer hides of the workspace is not known.
                self._listed.unlink()
                remove_tree(str(self.layer))
                self.layer.mkdir(mode=0o700)

    def add(self, folder: str, stamp: Stamp) -> None:
        """Write down a folder before it is moved here; one that lies in another is part of that."""
        if not any(f"{folder}/".startswith(f"{one}/") for one in self._known if one != folder):
            inside = {one for one in self._known if one.startswith(f"{folder}/")}
            self._write({one: there for one, there in self._known.items() if one not in inside} | {folder: stamp})

    def drop(self, folder: str) -> None:
        """Remove a folder, and those above it that are there for nothing else."""
        known = {one: there for one, there in self._known.items() if one != folder}
        for up in (folder, *(str(one) for one in Path(folder).parents if one.name)):
            if any(f"{one}/".startswith(f"{up}/") for one in known):
                break
            remove_tree(str(self.layer / up))
        self._write(known)

    def prune(self, workspace: Path) -> None:
        """Drop what no longer belongs to the workspace, and let the folders above the rest be as they are there."""
        for folder, stamp in list(self._known.items()):
            above = [one for one in Path(folder).parents if one.name]
            if stamp != make_stamp(workspace / folder) or not all(_is_folder(workspace / one) for one in above):
                self.drop(folder)
        for up in {one for folder in self._known for one in Path(folder).parents if one.name}:
            if _summarize(workspace / up) != _summarize(self.layer / up):
                copy_metadata(workspace / up, self.layer / up)

    def _write(self, known: dict[str, Stamp]) -> None:
        if known != self._known:
            fresh = self._listed.with_suffix(".new")
            fresh.write_text(json.dumps(known))
            fresh.replace(self._listed)
            self._known = known


def make_stamp(path: Path) -> Stamp:
    """Return what tells a later change of a folder; a link is not followed."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [found.st_ino, found.st_mtime_ns]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _summarize(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns


def _keep(written: OverlayLayer, below: Merged, store: _Store, workspace: Path, folder: str) -> None:
    *above, name = folder.split("/")
    with ExitStack() as opened:
        source = written.folder
        try:
            sources = [source := opened.enter_context(open_entry(source, up, own=True)) for up in above]
            status = os.lstat(name, dir_fd=source)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return
            raise
        stamp = make_stamp(workspace / folder)
        if is_whiteout(status):
            store.drop(folder)
            # It was nowhere but here.
            if stamp is None:
                os.unlink(name, dir_fd=source)
        if not stat.S_ISDIR(status.st_mode):
            return
        store.add(folder, stamp)
        target = opened.enter_context(open_entry(-100, str(store.layer), own=True))
        for up, made in zip(above, sources, strict=True):
            target = _open_like(target, up, made, written.marks)
            opened.callback(os.close, target)
        under = opened.enter_context(Merged(below.layers[-1:]).open_beneath(above))
        _merge(OverlayLayer(source, written.marks), OverlayLayer(target, written.marks), name, under)


def _open_like(parent: int, name: str, model: int, marks: str) -> int:
    """Open a folder of the layer; a missing one is made like the open `model`."""
    there = _look(parent, name)
    if there is not None and stat.S_ISDIR(there.st_mode):
        return open_folder(parent, name)
    if there is not None:
        remove_at(parent, name)
    os.mkdir(name, 0o700, dir_fd=parent)
    made = open_folder(parent, name)
    copy_metadata(Path(f"/proc/self/fd/{model}"), Path(f"/proc/self/fd/{made}"))
    # It hid what lies below, and so must what replaces it.
    if there is not None:
        os.setxattr(made, f"{marks}opaque", b"y")
    return made


def _merge(source: OverlayLayer, target: OverlayLayer, name: str, under: Merged | None) -> None:
    """Move what is called `name` from an open folder to another one, as a layer that is laid upon a layer.

    `under` is what the workspace has below both, None where nothing of it shines through.
    """
    status, there = os.lstat(name, dir_fd=source.folder), _look(target.folder, name)
    if not stat.S_ISDIR(status.st_mode):
        if there is not None:
            remove_at(target.folder, name)
        # It would be listed where nothing is merged.
        if is_whiteout(status) and not (under and under.find(name)):
            os.unlink(name, dir_fd=source.folder)
        else:
            os.rename(name, name, src_dir_fd=source.folder, dst_dir_fd=target.folder)
        return
    with open_entry(source.folder, name, own=True) as opened:
        inside = OverlayLayer(opened, source.marks)
        if there is not None and stat.S_ISDIR(there.st_mode) and not is_opaque(inside):
            _merge_folder(inside, status, target, name, under)
            os.rmdir(name, dir_fd=source.folder)
            return
        if there is not None:
            os.setxattr(opened, f"{source.marks}opaque", b"y")
            remove_at(target.folder, name)
        os.rename(name, name, src_dir_fd=source.folder, dst_dir_fd=target.folder)


def _merge_folder(
    source: OverlayLayer, status: os.stat_result, target: OverlayLayer, name: str, under: Merged | None
) -> None:
    """Move what an open folder holds into the folder `name` of another one, and let that be like it was."""
    with ExitStack() as opened:
        into = OverlayLayer(open_folder(target.folder, name), target.marks)
        opened.callback(os.close, into.folder)
        inner = opened.enter_context(under.open(name)) if under and not is_opaque(into) else None
        for one in list_names(source.folder):
            _merge(source, into, one, inner)
        copy_traits(source.folder, status, into.folder)


def _look(folder: int, name: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.lstat(name, dir_fd=folder)
    return None
