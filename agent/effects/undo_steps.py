"""The ways back of one call: a file or directory restored, removed or moved back, a repository set back."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from foregate.agent.effects.snapshots import read_own_state
from foregate.agent.workspace import directory
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, WorkspaceError
from foregate.schemas.event_body import BeforeImage
from foregate.schemas.protocols import Blobs, Inverse
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord
from foregate.schemas.tool_spec import Resource, ResourceKind


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One way back.

    `check_as_left` raises WorkspaceError when the world is not as the call left it, `check_possible` when nothing
    could be put back (LogError where the bytes are gone), `verify` when things are not as before the call. `is_midway`
    tells whether an undo that broke off can have left what is there now.
    """

    words: str
    check_as_left: Callable[[], None]
    check_possible: Callable[[], None]
    take_back: Callable[[], None]
    verify: Callable[[], None]
    is_midway: Callable[[], bool] = lambda: False

    def check(self, broke_off: bool) -> None:
        """Raise when the step must not or cannot be taken; where an undo `broke_off` before, it may go on midway."""
        if not (broke_off and self.is_midway()):
            self.check_as_left()
        self.check_possible()

    @property
    def is_done(self) -> bool:
        """Whether everything is as it was before the call."""
        return is_met(self.verify)

    @property
    def is_partly_done(self) -> bool:
        """Whether things are neither as they were before the call nor as it left them."""
        return not self.is_done and not is_met(self.check_as_left)


@dataclass(frozen=True, slots=True)
class UndoContext:
    """Where steps act."""

    workspace: Workspace
    policy: Policy
    blobs: Blobs
    inverse: Inverse | None = None


def build_steps(changes: Sequence[Change], before: Sequence[BeforeImage], place: UndoContext) -> list[UndoStep]:
    """Return the steps that take the changes of one call back; raise WorkspaceError for one without a way back."""
    images = {image.resource: image for image in before}
    by_id = {image.id: image for image in images.values()}
    moved = find_move(changes, by_id)
    if moved is not None:
        return [build_move_step(place, *moved, by_id.get(moved[1].resource.id))]
    steps = []
    for change in reversed(changes):
        image = images.get(change.resource) or by_id.get(change.resource.id)
        if image is None:
            raise WorkspaceError(f"no copy was kept of what `{change.resource.id[:80]}` was before; change it by hand")
        steps.append(build_step(place, change, image))
    return steps


def is_met(check: Callable[[], None]) -> bool:
    """Whether a check raises nothing."""
    try:
        check()
    except ForegateError:
        return False
    return True


def build_step(place: UndoContext, change: Change, image: BeforeImage) -> UndoStep:
    """Return the step for one change."""
    if image.type == "repository":
        return build_repository_step(place, change, image)
    if image.type == "own":
        return build_own_step(place, change, image)
    return build_path_step(place, change, image)


def build_own_step(place: UndoContext, change: Change, image: BeforeImage) -> UndoStep:
    """Return the step that has a tool put back what only it can reach."""
    name, inverse = change.resource.id, place.inverse
    if inverse is None:
        raise WorkspaceError(f"the tool that could put `{name[:80]}` back is not there; start with it")

    def state() -> str:
        data = read_own_state(inverse, name)
        return strict_json.sha256(data) if data is not None else ""

    def as_left() -> None:
        if state() != change.after:
            raise build_changed_error(f"`{name[:80]}`")

    def possible() -> None:
        if image.image:
            place.blobs.get(image.image)

    def verify() -> None:
        if state() != image.image:
            raise WorkspaceError(f"`{name[:80]}` could not be brought back as it was; look at it")

    def take_back() -> None:
        try:
            inverse.put_back(name, place.blobs.get(image.image) if image.image else None)
        except ForegateError:
            raise
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise WorkspaceError(f"`{name[:80]}` could not be put back: {why}") from None

    return UndoStep(f"restore `{name}`" if image.image else f"remove `{name}`", as_left, possible, take_back, verify)


def find_move(changes: Sequence[Change], images: Mapping[str, BeforeImage]) -> tuple[Change, Change] | None:
    """Return the changes of a move, source and destination, None for any other call."""
    if len(changes) != 2:
        return None
    source, destination = changes
    same = source.before == destination.after and source.resource.kind is destination.resource.kind
    was = images.get(source.resource.id)
    return (source, destination) if same and was is not None and not source.after and not destination.before else None


def build_path_step(place: UndoContext, change: Change, image: BeforeImage) -> UndoStep:
    """Return the step that puts a file, link or directory back, or removes what was created."""
    path = change.resource.id

    def take_back() -> None:
        if image.type == "":
            remove_created(place, path, image)
        elif image.type == "file":
            place.workspace.write(path, place.blobs.get(image.image), mode=image.mode)
        elif image.type == "link":
            if place.workspace.look(path).kind:
                place.workspace.remove(path)
            place.workspace.make_link(path, place.blobs.get(image.image))
        else:
            directory.restore_image(place.workspace, path, place.blobs.get(image.image), place.blobs)

    def as_left() -> None:
        if read_state_hash(place, change.resource) != change.after:
            raise build_changed_error(f"`{path[:80]}`")

    def midway() -> bool:
        if image.type == "directory" and image.image:
            return directory.is_partly_restored(place.workspace, path, place.blobs.get(image.image))
        return image.type == "link" and not place.workspace.look(path).kind

    def possible() -> None:
        if image.type and not image.image:
            raise WorkspaceError(f"no copy was kept of `{path[:80]}`; change it by hand")
        kept = place.blobs.get(image.image) if image.image else b""
        for hash_ in directory.list_hashes(kept) if image.type == "directory" else ():
            place.blobs.get(hash_)
        for one in (path, *image.parents):
            place.workspace.changeable(one)

    def verify() -> None:
        now = place.workspace.look(path, max_hash=place.policy.files.max_hash)
        whole = now.hash
        if now.kind == "directory":
            whole = strict_json.sha256(
                directory.build_image(place.workspace, path, place.policy.files.max_entries, strict_json.sha256)
            )
        if now.kind != image.type or whole != image.image or (now.kind and now.mode != image.mode):
            raise WorkspaceError(f"`{path[:80]}` could not be brought back as it was; look at it")

    words = {"": f"remove `{path}`", "directory": f"bring the folder `{path}` back"}
    return UndoStep(words.get(image.type, f"restore `{path}`"), as_left, possible, take_back, verify, midway)


def build_changed_error(what: str) -> WorkspaceError:
    """Return the error for a thing that is not as the call left it."""
    return WorkspaceError(f"{what} has changed since; undo what came after it first, or change it by hand")


def remove_created(place: UndoContext, path: str, image: BeforeImage) -> None:
    """Remove what a call created, and the directories it made on the way when nothing else is in them."""
    if place.workspace.look(path).kind == "directory":
        place.workspace.remove_directory(path)
    else:
        place.workspace.remove(path)
    remove_empty_parents(place, image.parents)


def remove_empty_parents(place: UndoContext, parents: Sequence[str]) -> None:
    """Remove directories made on the way to something, innermost first, as far as nothing else is in them."""
    for parent in reversed(parents):
        if place.workspace.look(parent).kind != "directory" or directory.list_tree(place.workspace, parent, 1).entries:
            return
        place.workspace.remove_directory(parent)


def build_move_step(place: UndoContext, source: Change, destination: Change, image: BeforeImage | None) -> UndoStep:
    """Return the step that moves something back to where it was."""
    old, new = source.resource.id, destination.resource.id

    def as_left() -> None:
        if place.workspace.look(old).kind:
            raise WorkspaceError(f"`{old[:80]}` is there again; move it away or undo what made it")
        if read_state_hash(place, destination.resource) != destination.after:
            raise build_changed_error(f"`{new[:80]}`")

    def possible() -> None:
        for path in (old, new, *(image.parents if image is not None else ())):
            place.workspace.changeable(path)

    def take_back() -> None:
        place.workspace.move(new, old)
        if image is not None:
            remove_empty_parents(place, image.parents)

    def verify() -> None:
        if read_state_hash(place, source.resource) != source.before or place.workspace.look(new).kind:
            raise WorkspaceError(f"`{old[:80]}` could not be brought back as it was; look at it")

    return UndoStep(f"move `{new}` back to `{old}`", as_left, possible, take_back, verify)


def build_repository_step(place: UndoContext, change: Change, image: BeforeImage) -> UndoStep:
    """Return the step that sets branch and index back; the files stay as they are."""
    stored = strict_json.parse(place.blobs.get(image.image).decode())
    kept_head, kept_index = get_text(stored, "head"), get_text(stored, "index")
    repository = find_repository(place.workspace, place.policy, change.resource.id)
    head, index = repository.read_head(), f"{repository.git}/index"

    def as_left() -> None:
        repository.check_safe()
        if repository.compute_state() != change.after:
            raise build_changed_error("the repository")

    def possible() -> None:
        if place.workspace.look(f"{index}.lock").kind:
            raise WorkspaceError("another git command is at work in the repository; wait for it")
        if kept_index:
            place.blobs.get(kept_index)
        if kept_head:
            repository.run("cat-file", "-e", f"{kept_head}^{{commit}}")
        place.workspace.changeable(index)

    def take_back() -> None:
        if head != kept_head:
            words = ("HEAD", kept_head, head) if kept_head else ("-d", "HEAD", head)
            repository.run("update-ref", "-m", "undo", *words, more=repository.read_identity())
        if kept_index:
            place.workspace.write(index, place.blobs.get(kept_index))
        elif place.workspace.look(index).kind:
            place.workspace.remove(index)

    def verify() -> None:
        if repository.compute_state() != change.before:
            raise WorkspaceError("the repository could not be set back as it was; look at it with git")

    words = f"set the branch back to {kept_head[:12] or 'no commit'}; " if head != kept_head else ""
    return UndoStep(
        f"{words}set what is staged in {shlex.quote(change.resource.id)} back", as_left, possible, take_back, verify
    )


def read_state_hash(place: UndoContext, resource: Resource) -> str:
    """Return the hash of what is at a path now as changes record it: a directory by its listing, "" for nothing."""
    found = place.workspace.look(resource.id, max_hash=place.policy.files.max_hash)
    if found.kind == "directory":
        return directory.list_tree(place.workspace, resource.id, place.policy.files.max_entries).hash
    return found.hash


def build_reverse_changes(changes: Sequence[Change]) -> list[Change]:
    """Return the changes an undo makes."""
    return [Change(change.resource, change.after, change.before, change.mode) for change in reversed(changes)]


def build_reverse_records(changes: Sequence[Change]) -> list[EvidenceRecord]:
    """Return what an undo has verified of what is there again."""
    found = []
    for change in changes:
        kind = (
            EvidenceKind.GIT_STATE
            if change.resource.kind is ResourceKind.REPOSITORY
            else (EvidenceKind.VERIFICATION_RESULT)
        )
        content = change.before if change.resource.kind is not ResourceKind.DIRECTORY else ""
        if change.before:
            found.append(EvidenceRecord(kind, change.resource, content, own_change=True))
    return found
