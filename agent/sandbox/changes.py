"""What a command changed in a work sandbox: the exact difference between what it wrote and what lay below."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from foregate.agent.sandbox.layers import (
    LayerEntry,
    Merged,
    OverlayLayer,
    is_opaque,
    is_whiteout,
    list_names,
    list_submounts,
    open_entry,
    open_layers,
)
from foregate.agent.sandbox.programs import is_linked_python
from foregate.agent.sandbox.states import Budget, Unfolding, is_privileged, read_state
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathChange, PathState, Refusal
from foregate.schemas.tool_spec import Effect

_DEEPEST = 100
_NOTHING = PathState()


def list_changes(
    upper: str, workspace: str, *, caches: str = "", masks: Collection[str] = (), max_paths: int, max_bytes: int
) -> list[PathChange]:
    """Return what a command that has ended changed in the workspace, in an order in which it can be applied.

    That is: what is deleted, innermost first, then all else, outermost first; "." is the workspace itself. `upper`,
    `workspace` and `caches` are as in the plan, `masks` the paths relative to the workspace that were not seen inside.
    What is new lies at its path in the `upper` of the folder `upper`, also where a folder was renamed. Times are no
    change, and hard links are files of their own.

    Raises WorkspaceError where that is more than `max_paths` paths or `max_bytes` bytes to read, or cannot be read.
    """
    unseen = {*masks, *(os.path.relpath(path, workspace) for path in list_submounts(workspace))}
    budget = Budget(max_paths, max_bytes)
    try:
        with open_layers(upper, caches, workspace) as (written, below):
            Unfolding(below, budget).run(written)
            listing = _ChangeListing(workspace, below, written, frozenset(unseen), budget)
            listing.run()
    except OSError as error:
        raise WorkspaceError(f"what the command changed cannot be read: {error.strerror}; run it again") from error
    deleted = [change for change in listing.found if change.effect is Effect.DELETE]
    others = [change for change in listing.found if change.effect is not Effect.DELETE]
    return sorted(deleted, key=_place, reverse=True) + sorted(others, key=_place)


def _place(change: PathChange) -> list[str]:
    return [] if change.path == "." else change.path.split("/")


@dataclass(frozen=True, slots=True)
class _ChangeListing:
    workspace: str
    below: Merged
    written: OverlayLayer
    unseen: frozenset[str]
    budget: Budget
    found: list[PathChange] = field(default_factory=list)

    def run(self) -> None:
        """Find all changes."""
        bottom = self.below.layers[-1].folder
        before = read_state(bottom, ".", self.budget)
        after = read_state(self.written.folder, ".", self.budget)
        if before != after:
            self._add(".", before, after)
        self._compare("", self.written, self.below, whole=is_opaque(self.written))

    def _compare(self, path: str, folder: OverlayLayer, below: Merged | None, *, whole: bool) -> None:
        """Compare an open folder of the upper layer with what it lies over; `whole` where nothing shines through."""
        if path.count("/") >= _DEEPEST:
            raise WorkspaceError(f"the command made folders more than {_DEEPEST} deep; have it make fewer")
        names = list_names(folder.folder)
        for name in names:
            status = os.lstat(name, dir_fd=folder.folder)
            entry = below.find(name) if below and path + name not in self.unseen else None
            if is_whiteout(status):
                self._delete(path + name, below, entry)
            elif stat.S_ISDIR(status.st_mode):
                self._compare_folder(path + name, folder, name, below, entry, whole=whole)
            else:
                self._delete_inside(path + name, below, entry)
                self._change(path + name, folder, name, entry)
        if whole and below:
            for name in set(below.list_names()).difference(names):
                self._delete(path + name, below, below.find(name))

    def _compare_folder(
        self, path: str, folder: OverlayLayer, name: str, below: Merged | None, entry: LayerEntry | None, *, whole: bool
    ) -> None:
        self._change(path, folder, name, entry)
        with open_entry(folder.folder, name, own=True) as opened, _open(below if entry else None, name) as inner:
            inside = OverlayLayer(opened, folder.marks)
            self._compare(f"{path}/", inside, inner, whole=whole or is_opaque(inside))

    def _delete(self, path: str, below: Merged | None, entry: LayerEntry | None) -> None:
        """List what was seen under a name, which is not seen any more."""
        if entry is None or path in self.unseen:
            return
        refused: Refusal = self._delete_inside(path, below, entry)
        self._add(path, self._read(entry), _NOTHING, refused)

    def _delete_inside(self, path: str, below: Merged | None, entry: LayerEntry | None) -> Refusal:
        """List all that was in a folder; what cannot be read of the workspace counts as not seen."""
        if entry is None or not entry.is_folder:
            return ""
        with suppress(PermissionError), _open(below, entry.name) as inner:
            for name in inner.list_names() if inner else []:
                self._delete(f"{path}/{name}", inner, inner.find(name) if inner else None)
            return ""
        return "unseen"

    def _change(self, path: str, folder: OverlayLayer, name: str, entry: LayerEntry | None) -> None:
        """List what lies at a path in the upper layer, unless it is what was there before."""
        before = _NOTHING if entry is None else self._read(entry)
        after = read_state(folder.folder, name, self.budget, own=True)
        if before == after:
            return
        refused: Refusal = ""
        if after.kind == "other":
            refused = "special"
        elif after.kind == "link":
            refused = "leads_out" if leads_out(self.written, self.below, self.workspace, path) else ""
        elif is_privileged(folder.folder, name):
            refused = "privileged"
        self._add(path, before, after, refused)

    def _read(self, entry: LayerEntry) -> PathState:
        layer = entry.layer
        return read_state(layer.folder, entry.name, self.budget, own=bool(layer.marks))

    def _add(self, path: str, before: PathState, after: PathState, refused: Refusal = "") -> None:
        self.budget.take(paths=1)
        was_folder = before.kind == "directory" != after.kind
        for one in self.unseen:
            if f"{path}/".startswith(f"{one}/") or (was_folder and one.startswith(f"{path}/")):
                refused = "unseen"
        text = os.fsencode(path).decode("utf-8", "backslashreplace")
        # A name that cannot be written down cannot be applied.
        if text != path:
            refused = refused or "special"
        effect = Effect.CREATE if not before.kind else Effect.DELETE if not after.kind else Effect.EDIT
        self.found.append(PathChange(text, effect, before, after, refused))


@contextmanager
def _open(below: Merged | None, name: str) -> Iterator[Merged | None]:
    if below is None:
        yield None
        return
    with below.open(name) as inner:
        yield inner


_MOST_LINKS = 40


def leads_out(written: OverlayLayer, below: Merged, workspace: str, path: str) -> bool:
    """Whether a link at a path relative to the workspace leads out of it, as seen in the view; links are followed.

    What is absolute must start with the resolved path of the workspace. The Python of a virtual environment may be a
    link to an installation of Python. Raises OSError.
    """
    way = _find_way_out(written, below, workspace, path)
    return bool(way) and not is_linked_python(path, way)


def _find_way_out(written: OverlayLayer, below: Merged, workspace: str, path: str) -> str:
    """Return where outside of the workspace a link leads, "" where it does not."""
    view = Merged((written, *below.layers))
    at, rest = path.split("/")[:-1], path.split("/")[-1:]
    links = 0
    # A circle leads nowhere.
    while rest and links <= _MOST_LINKS:
        name = rest.pop(0)
        if name == ".." and not at:
            return "/".join([workspace, name, *rest])
        if name == "..":
            at.pop()
        elif name not in ("", "."):
            target = _read_link(view, at, name)
            if target is None:
                at.append(name)
                continue
            links += 1
            if target.startswith("/"):
                if not f"{target}/".startswith(f"{workspace}/"):
                    return "/".join([target, *rest])
                at, target = [], target[len(workspace) :]
            rest = target.split("/") + rest
    return ""


def _read_link(view: Merged, folders: list[str], name: str) -> str | None:
    with view.open_beneath(folders) as folder:
        entry = folder.find(name) if folder else None
        if entry is None or not stat.S_ISLNK(entry.status.st_mode):
            return None
        return os.readlink(name, dir_fd=entry.layer.folder)
