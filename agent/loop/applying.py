"""Applies what a sandbox changed to the workspace, takes it back as one, and continues after a crash.

Everything here blocks. In order: `find_conflicts`, `keep_images`, then durably the start with the hash it returned,
then `apply_changes`; after a crash `go_on_or_back`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from foregate.agent.loop.probe import PARTLY_DONE, SAID
from foregate.agent.loop.snapshots import Snapshots, UndoStep
from foregate.agent.loop.stored_changes import (
    ImageSource,
    StoredChanges,
    UpperSource,
    check_changes,
    keep_changes,
    load_changes,
    name_paths,
)
from foregate.agent.tools.builtin_tool import build_change_record
from foregate.agent.workspace.directory import EMPTY
from foregate.agent.workspace.file_traits import HARD_LINKS, FileTraits, set_traits
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.path_state import (
    Conflict,
    PlacementFailed,
    Source,
    Step,
    clear_staging,
    is_at,
    is_between,
)
from foregate.agent.workspace.placement import Placement
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.plan import NOT_DONE
from foregate.schemas.errors import ForegateError, SyncError, WorkspaceError
from foregate.schemas.sandbox import PathChange, PathState
from foregate.schemas.tool_call import Change, ToolResult
from foregate.schemas.tool_spec import Resource, ResourceKind

_SAID = dict.fromkeys(("", NOT_DONE, PARTLY_DONE), "not all could be brought back; look before you continue")
"""What is said where some changes stay, though all were to be applied or none."""


def find_conflicts(workspace: Workspace, changes: Sequence[PathChange]) -> list[str]:
    """Return the paths that are not what a sandbox saw there before it changed them, sorted.

    Among them are folders that hold more than what is deleted with them, and missing folders above a path. A lock of a
    running git command on the same index is one too. Raises WorkspaceError for changes that are never applied, and for
    what cannot be looked at.
    """
    check_changes(changes)
    stored = StoredChanges(tuple(changes), (), "")
    return _find_moved(workspace, stored, stored.list_forward())


def _find_moved(workspace: Workspace, stored: StoredChanges, steps: Sequence[Step]) -> list[str]:
    """Return the paths that steps cannot be taken from, as they or what is around them is otherwise."""
    by_path, changes = {step.path: step for step in steps}, stored.changes
    found = {step.path for step in steps if not is_at(stored.look(workspace, changes[step.number])[1], step.now)}
    for step in steps:
        above = step.path.rpartition("/")[0]
        if above and above not in by_path and workspace.look(above).kind != "directory":
            found.add(above)
        if step.now.kind == "directory" and step.then.kind != "directory":
            found |= {path for path in _list_folder(workspace, step.path) if _stays(by_path.get(path))}
        if step.path.endswith(".git/index") and f"{step.path}.lock" not in by_path:
            found |= {f"{step.path}.lock"} if workspace.look(f"{step.path}.lock").kind else set()
    return sorted(found)


def _renew(workspace: Workspace, stored: StoredChanges, step: Step) -> Step:
    """Return a step from what an index of git is now, where that is as good as what it was."""
    if step.path not in stored.staged:
        return step
    now, known = stored.look(workspace, stored.changes[step.number])
    return structs.replace(step, now=now) if is_at(known, step.now) else step


def _stays(step: Step | None) -> bool:
    return step is None or bool(step.then.kind)


def _list_folder(workspace: Workspace, path: str) -> list[str]:
    """Return the paths of what lies in a folder, none where there is no folder."""
    with suppress(OSError), workspace.directory(path) as fd:
        return [f"{path}/{name}" for name in os.listdir(fd)]  # noqa: PTH208 - a descriptor is no path
    return []


def keep_images(place: Snapshots, changes: Sequence[PathChange], upper: Path) -> str:
    """Store changes and what they replace, and return the hash to record with the start of applying them.

    `upper` is the folder with their new contents.

    What it names has all that applying, recovery and undo need. Files larger than the policy's `files.max_hash` are
    left out of it, and special ones: `load_changes(blobs, hash).lost` names those, and with any the changes cannot be
    taken back. Raises Conflict where something is not as it was judged, WorkspaceError for changes that are never
    applied, and LogError where nothing can be stored.
    """
    return keep_changes(place.workspace, place.blobs, changes, upper, place.policy.files.max_hash)


def apply_changes(place: Snapshots, kept: str, upper: Path) -> ToolResult:
    """Apply the changes `keep_images` stored as `kept`, with the contents beneath `upper`: all, durably, or none.

    The result is `ok`, or says with `partly_done` which paths could not be brought back after something else failed.
    Where all was brought back it raises Conflict (`paths` names what is not as judged) or another WorkspaceError, such
    as for a full disk. It raises SyncError where it is unknown what is on disk.
    """
    stored = load_changes(place.blobs, kept)
    try:
        if conflicts := _find_moved(place.workspace, stored, stored.list_forward()):
            raise Conflict(conflicts)
        steps = [_renew(place.workspace, stored, step) for step in stored.list_forward()]
        _place_forward(place, kept, stored, steps, upper)
    except (Conflict, PlacementFailed) as error:
        if not error.left:
            raise
        return _build_result(place.workspace, stored, error.left, str(error), _SAID)
    return _report(stored.changes)


def _place_forward(
    place: Snapshots, kept: str, stored: StoredChanges, steps: Sequence[Step], upper: Path, *, again: bool = False
) -> None:
    left = LocalWorkspace(upper)
    try:
        source = UpperSource(left, ImageSource(stored, place.blobs))
        folders = _list_folders_after(stored, again)
        Placement(place.workspace, steps, source, _name_stagings(kept)[0], folders).place()
    finally:
        left.close()


def _list_folders_after(stored: StoredChanges, again: bool) -> dict[str, FileTraits]:
    """Return what folders around the changes get; after an end in the middle also the mode, and the root its time."""
    modes = {path: stored.by_path[path].mode if again else None for path in stored.around}
    found = {path: FileTraits(mode, int(stored.stamp)) for path, mode in modes.items()}
    if again and "." not in found:
        found["."] = FileTraits(modified=int(stored.by_path["."].modified))
    return found


def _place_back(
    place: Snapshots, kept: str, stored: StoredChanges, steps: Sequence[Step], *, again: bool = False
) -> None:
    """Take steps back. Folders around get the time they had, unless something else was changed in them since."""
    folders = {}
    for path in {".", *stored.around}:
        image = stored.by_path[path]
        with place.workspace.directory(path) as fd:
            is_ours = os.fstat(fd).st_mtime_ns == int(stored.stamp)
        if again or is_ours:
            folders[path] = FileTraits(image.mode if again else None, int(image.modified))
    source: Source = ImageSource(stored, place.blobs)
    Placement(place.workspace, steps, source, _name_stagings(kept)[1], folders).place()


def _name_stagings(kept: str) -> tuple[str, str]:
    """Return the names of the folders in which contents wait while changes are applied, and while taken back."""
    return f".foregate-{kept[:16]}.tmp", f".foregate-{kept[16:32]}.tmp"


def _clear_stagings(workspace: Workspace, kept: str, stored: StoredChanges) -> list[str]:
    """Remove what a process left on the way; return the paths to which it had to bring back what somebody saved."""
    lists = stored.list_forward(), stored.list_back()
    stagings = zip(_name_stagings(kept), lists, strict=True)
    return [path for name, steps in stagings for path in clear_staging(workspace, name, steps)]


def go_on_or_back(place: Snapshots, kept: str, upper: Path | None) -> ToolResult:
    """Bring changes to an end that a process was applying, or taking back, when it ended; nothing of it may still run.

    Where `upper` still holds the contents that were judged they are applied, else all is brought back. A path that is
    neither as before nor as after is left alone. The result is `ok`, or its error is `not_done` or `partly_done`, and
    it says which paths were left. Raises LogError where what was kept is gone, and SyncError.
    """
    stored, workspace = load_changes(place.blobs, kept), place.workspace
    was_at_work = any(workspace.look(name).kind for name in _name_stagings(kept))
    strays, why = _clear_stagings(workspace, kept, stored), ""
    if upper is not None:
        try:
            steps, left = _choose_steps(workspace, stored, stored.list_forward(), strays)
            _place_forward(place, kept, stored, steps, upper, again=True)
            return _build_result(workspace, stored, left)
        except SyncError:
            raise
        except ForegateError as error:
            why = str(error)
    elif not was_at_work and all(is_at(stored.look(workspace, one)[1], one.after) for one in stored.changes):
        with workspace.directory(".") as root:
            set_traits(root, _list_folders_after(stored, again=True)["."])
        workspace.sync()
        return _build_result(workspace, stored)
    steps, left = _choose_steps(workspace, stored, stored.list_back(), strays)
    try:
        _place_back(place, kept, stored, steps, again=True)
    except (Conflict, PlacementFailed) as error:
        why, left = str(error), left or [one.path for one in steps]
    return _build_result(workspace, stored, left, why)


def _is_known(now: PathState, change: PathChange) -> bool:
    """Whether a path is as before a change, as after it, or in the middle of it."""
    return is_at(now, change.before) or is_at(now, change.after) or is_between(now, change)


def _choose_steps(
    workspace: Workspace, stored: StoredChanges, steps: Sequence[Step], strays: Collection[str]
) -> tuple[list[Step], list[str]]:
    """Return the steps still to be taken, from what is there now, and the paths that are left as they are."""
    seen = {one.path: stored.look(workspace, one) for one in stored.changes}
    now = {path: state for path, (state, _) in seen.items()}
    left = {*strays, *(one.path for one in stored.changes if not _is_known(seen[one.path][1], one))}
    by_path = {step.path: step for step in steps}
    # From the top: what would stand in a folder that is left as it is cannot be made.
    for step in sorted(steps, key=lambda step: step.path):
        above = step.path.rpartition("/")[0]
        if above in left and step.then.kind and now[above].kind != "directory":
            left.add(step.path)
    # From the bottom: a folder in which something stays is not removed.
    for step in sorted(steps, key=lambda step: step.path, reverse=True):
        if now[step.path].kind == "directory" and step.then.kind != "directory":
            inside = _list_folder(workspace, step.path)
            if any(path in left or _stays(by_path.get(path)) for path in inside):
                left.add(step.path)
    chosen = [structs.replace(one, now=now[one.path]) for one in steps if one.path not in left]
    return [one for one in chosen if _is_open(one, by_path[one.path])], sorted(left)


def _is_open(step: Step, whole: Step) -> bool:
    """Whether a step still changes something, or may: a state does not tell other names, nor times."""
    has_times = step.then.kind == "directory" or is_at(whole.now, whole.then)
    has_times = has_times or (step.then.kind == "file" and not whole.is_staged)
    return not is_at(step.now, step.then) or step.linked or has_times


def build_undo_step(place: Snapshots, kept: str, changes: Iterable[Change]) -> UndoStep:
    """Return the one step that takes back what was applied, of the changes a result reported.

    Raises LogError where what was kept is gone.
    """
    stored, workspace = load_changes(place.blobs, kept), place.workspace
    reported = {change.resource.id for change in changes}
    steps = [step for step in stored.list_back() if step.path in reported]

    def is_left() -> bool:
        if moved := _find_moved(workspace, stored, steps):
            raise WorkspaceError(
                f"{name_paths(moved)} changed since; undo what came after it first, or change it by hand"
            )
        return True

    def is_back() -> bool:
        if workspace.look(_name_stagings(kept)[1]).kind:
            return False
        return all(is_at(stored.look(workspace, stored.changes[step.number])[1], step.then) for step in steps)

    def is_midway() -> bool:
        changes = [stored.changes[step.number] for step in steps]
        return all(_is_known(stored.look(workspace, one)[1], one) for one in changes)

    def check_possible() -> None:
        if stored.lost:
            raise WorkspaceError(f"no copy was kept of {name_paths(stored.lost)}; change it by hand")
        needed = {step.then.hash for step in steps if step.is_staged}
        for hash_ in (needed | {image.attributes for image in stored.images}) - {""}:
            place.blobs.get(hash_)

    def take_back() -> None:
        broke_off = bool(workspace.look(_name_stagings(kept)[1]).kind)
        if strays := _clear_stagings(workspace, kept, stored):
            raise Conflict(strays)
        chosen, _ = _choose_steps(workspace, stored, steps, ())
        _place_back(place, kept, stored, chosen, again=broke_off or len(chosen) < len(steps))

    words = f"take back what was changed at {len(steps)} paths"
    words += f", {name_paths(stored.unlinked)} without {HARD_LINKS}" if stored.unlinked else ""
    return UndoStep(words, "what was applied", is_left, is_back, check_possible, take_back, is_midway)


def _build_result(
    workspace: Workspace,
    stored: StoredChanges,
    left: Sequence[str] = (),
    why: str = "",
    said: Mapping[str, str] = SAID,
) -> ToolResult:
    """Return the outcome of changes that were cut off, by looking."""
    now = {one.path: stored.look(workspace, one)[1] for one in stored.changes}
    made = [one for one in stored.changes if is_at(now[one.path], one.after)]
    if not left and len(made) == len(stored.changes):
        error = ""
    elif all(is_at(now[one.path], one.before) for one in stored.changes):
        error, made = NOT_DONE, []
    else:
        error = PARTLY_DONE
    more = "; ".join(filter(None, (why, f"left as they are: {name_paths(left)}" if left else "")))
    return replace(_report(made), ok=not error, content=f"{said[error]}{more and f' ({more})'}", error=error)


def _report(made: Sequence[PathChange]) -> ToolResult:
    """Return the result of changes that are there."""
    changes = tuple(_describe_change(one) for one in made)
    records = (build_change_record(one.resource, one.after) for one in changes)
    evidence = tuple(record for record in records if record.resource.kind is ResourceKind.FILE)
    return ToolResult(True, f"{len(changes)} paths changed", evidence, changes)


def _describe_change(one: PathChange) -> Change:
    """Return a change as results report it: a folder that is there has the hash of an empty listing."""
    kind = ResourceKind.DIRECTORY if (one.after.kind or one.before.kind) == "directory" else ResourceKind.FILE
    before, after = (EMPTY if state.kind == "directory" else state.hash for state in (one.before, one.after))
    return Change(Resource(kind, one.path), before, after, one.after.mode)
