"""What was there before a call changed it: kept, so that the change can be undone, and the ways back to it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.workspace import directory
from foregate.agent.workspace.file_traits import HARD_LINKS
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.workspace import Workspace, keep_attributes
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, WorkspaceError
from foregate.schemas.event_body import BeforeImage
from foregate.schemas.protocols import Blobs, Inverse
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import CallFacts, Change, EvidenceKind, EvidenceRecord, SurveyedResource, ToolResult
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind

_KEPT = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE)
"""Effects on paths that have a before-image."""
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)


class Snapshots(Struct, frozen=True):
    """Where before-images are made of: the workspace, and through the `inverse` of a tool what only it can read."""

    workspace: Workspace
    policy: Policy
    blobs: Blobs
    inverse: Inverse | None = None

    def keep_images(self, resources: Sequence[SurveyedResource], facts: CallFacts) -> list[BeforeImage]:
        """Store what a call is about to change of its resources, as they are now; return what names it.

        What cannot be kept is left out when the call was judged irreversible, else it raises WorkspaceError.
        """
        if facts.spec is not None and facts.spec.is_elsewhere:
            # Nothing of it lies here; its runtime keeps what was there.
            return []
        kept: list[BeforeImage] = []
        for resource in resources:
            try:
                if (image := self._keep_image(resource)) is not None:
                    kept.append(image)
            except WorkspaceError:
                if not facts.irreversible:
                    raise
        return kept

    def has_image(self, resource: SurveyedResource) -> bool:
        """Whether anything of a resource is stored before a call changes it; that nothing was there counts."""
        if resource.kind is ResourceKind.OTHER:
            return self.inverse is not None
        if resource.kind is ResourceKind.REPOSITORY:
            return resource.access.changes
        return resource.kind in _PATHS and resource.access in _KEPT and resource.restorable

    def _keep_image(self, resource: SurveyedResource) -> BeforeImage | None:
        """Return the stored image of one resource, None where the call leaves it alone or nothing can be kept of it."""
        path, kind, put = resource.id, resource.kind, self.blobs.put
        if kind is ResourceKind.OTHER and self.inverse is not None:
            data = self.read_own(path)
            return BeforeImage(kind=kind, id=path, image=put(data) if data is not None else "", type="own")
        if kind is ResourceKind.REPOSITORY and resource.access.changes:
            return BeforeImage(kind=kind, id=path, image=self._keep_repository(path), type="repository")
        if kind not in _PATHS or resource.access not in _KEPT:
            return None
        if not resource.restorable:
            raise WorkspaceError(f"`{path[:80]}` is too large or too special for a copy to be kept; nothing was done")
        found = self.workspace.look(path)
        bare = BeforeImage(kind=kind, id=path, image="", type=found.kind, mode=found.mode)
        match found.kind:
            case "file":
                attributes = keep_attributes(self.workspace, path, put)
                bare = replace(bare, modified=str(found.modified), attributes=attributes, links=found.links)
                return replace(bare, image=put(self.workspace.read(path)))
            case "link":
                return replace(bare, image=put(self.workspace.read_link(path)), modified=str(found.modified))
            case "directory" if resource.access is Effect.DELETE:
                listing = directory.build_image(self.workspace, path, self.policy.files.max_entries, put)
                return replace(bare, image=put(listing))
            case "":
                parts = path.split("/")
                above = ["/".join(parts[:end]) for end in range(1, len(parts))]
                missing = tuple(way for way in above if not self.workspace.look(way).kind)
                return replace(bare, mode=0, parents=missing)
            case _:
                return bare

    def _keep_repository(self, path: str) -> str:
        """Store the commit a repository stands on and its index, and return the hash of what names both."""
        repository = find_repository(self.workspace, self.policy, path)
        index = f"{repository.git}/index"
        data = self.workspace.read(index) if self.workspace.look(index).kind else None
        kept = {"head": repository.read_head(), "index": self.blobs.put(data) if data is not None else ""}
        return self.blobs.put(strict_json.canonical(kept))

    def read_own(self, name: str) -> bytes | None:
        """Return what is at something only its tool can read; raise WorkspaceError where the tool fails to say."""
        assert self.inverse is not None
        try:
            data = self.inverse.now(name)
        except ForegateError:
            raise
        except Exception as error:
            why = f"its tool failed to say ({type(error).__name__})"
            raise WorkspaceError(f"what is at `{name[:80]}` cannot be kept: {why}") from None
        if data is not None and not isinstance(data, bytes):
            raise WorkspaceError(f"what is at `{name[:80]}` cannot be kept: its tool gives no bytes")
        return data

    def hash_own(self, name: str) -> str:
        """Return the hash of what is at something only its tool can read, "" for nothing; raises as `read_own`."""
        data = self.read_own(name)
        return strict_json.sha256(data) if data is not None else ""

    def hash_path(self, path: str) -> str:
        """Return the hash of what is at a path now as changes record it: a directory by its listing, "" for nothing."""
        found = self.workspace.look(path, max_hash=self.policy.files.max_hash)
        if found.kind == "directory":
            return directory.list_tree(self.workspace, path, self.policy.files.max_entries).hash
        return found.hash

    def is_as_kept(self, image: BeforeImage, lost: Collection[str] = ()) -> bool:
        """Whether at a path is what its before-image says, with the same mode and attributes, but for those `lost`."""
        space, limit = self.workspace, self.policy.files.max_entries
        now = space.look(image.id, max_hash=self.policy.files.max_hash)
        if (now.kind, now.mode) != (image.type, image.mode if image.type else 0):
            return False
        if image.type == "directory":
            kept = self.blobs.get(image.image) if image.image else b""
            return bool(kept) and directory.is_restored(space, image.id, kept, self.blobs, limit)
        traits = directory.read_traits(image, self.blobs)
        return now.hash == image.image and directory.has_attributes(space, image.id, traits, lost)

    def add_missing_changes(self, result: ToolResult, kept: Sequence[BeforeImage]) -> ToolResult:
        """Return `result` with a change and a read-back for each file with a before-image the tool did not report on.

        So what any tool did to the files it names, and with an `inverse` to things of its own, can be undone.
        """
        reported = {change.resource for change in result.changes} if kept else set()
        changes, records = [], []
        for image in kept:
            resource = Resource(image.kind, image.id)
            if resource in reported:
                continue
            try:
                if image.type == "own" and self.inverse is not None:
                    after = self.hash_own(image.id)
                    changes += [Change(resource, image.image, after)] if after != image.image else []
                if image.kind is not ResourceKind.FILE or image.type not in ("", "file"):
                    continue
                now = self.workspace.look(image.id, max_hash=self.policy.files.max_hash)
            except ForegateError:
                # Its tool or the workspace fails to say.
                continue
            if now.kind in ("", "file") and now.hash != image.image:
                changes.append(Change(resource, image.image, now.hash, now.mode))
                if now.hash:
                    kind = EvidenceKind.VERIFICATION_RESULT
                    records.append(EvidenceRecord(kind, resource, now.hash, own_change=True))
        if not changes:
            return result
        return replace(result, changes=(*result.changes, *changes), evidence=(*result.evidence, *records))


class UndoStep(Struct, frozen=True):
    """One way back. `what` names the thing, `words` say what is done to it.

    `check_possible` raises WorkspaceError when nothing could be put back, LogError where the bytes are gone. `is_left`
    tells whether things are as the call left them, `is_back` whether they are as before it. `is_midway` tells whether
    an undo that broke off can have left what is there now; each may raise WorkspaceError with a reason of its own.
    """

    words: str
    what: str
    is_left: Callable[[], bool]
    is_back: Callable[[], bool]
    check_possible: Callable[[], object]
    take_back: Callable[[], None]
    is_midway: Callable[[], bool] = lambda: False

    def check(self, broke_off: bool) -> None:
        """Raise when the step must not or cannot be taken; where an undo `broke_off` before, it may go on midway."""
        if not (broke_off and self.is_midway()) and not self.is_left():
            raise WorkspaceError(f"{self.what} has changed since; undo what came after it first, or change it by hand")
        self.check_possible()

    def verify(self) -> None:
        """Raise WorkspaceError when things are not as they were before the call."""
        if not self.is_back():
            raise WorkspaceError(f"{self.what} could not be brought back as it was; look at it")

    @property
    def is_done(self) -> bool:
        """Whether everything is as it was before the call."""
        return _is_met(self.is_back)

    @property
    def is_partly_done(self) -> bool:
        """Whether things are neither as they were before the call nor as it left them."""
        return not self.is_done and not _is_met(self.is_left)


def build_steps(changes: Sequence[Change], before: Sequence[BeforeImage], place: Snapshots) -> list[UndoStep]:
    """Return the steps that take the changes of one call back; raise WorkspaceError for one without a way back."""
    images = {image.resource: image for image in before}
    by_id = {image.id: image for image in images.values()}
    moved = _find_move(changes, by_id)
    if moved is not None:
        return [_build_move_step(place, *moved, by_id.get(moved[1].resource.id))]
    steps = []
    for change in reversed(changes):
        image = images.get(change.resource) or by_id.get(change.resource.id) or _find_made_folder(change, before)
        if image is None:
            raise WorkspaceError(f"no copy was kept of what `{change.resource.id[:80]}` was before; change it by hand")
        build = {"repository": _build_repository_step, "own": _build_own_step}.get(image.type, _build_path_step)
        steps.append(build(place, change, image))
    return steps


def _find_made_folder(change: Change, before: Sequence[BeforeImage]) -> BeforeImage | None:
    """Return the before-image of a folder made on the way to something that is not there, None for anything else."""
    path = change.resource.id
    above = next((image.parents for image in before if path in image.parents), ())
    parents = above[: above.index(path)] if above else ()
    return BeforeImage(kind=change.resource.kind, id=path, image="", parents=parents) if above else None


def _is_met(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except ForegateError:
        return False


def _find_move(changes: Sequence[Change], images: Mapping[str, BeforeImage]) -> tuple[Change, Change] | None:
    """Return the changes of a move, source and destination, None for any other call."""
    if len(changes) != 2:
        return None
    source, destination = changes
    same = source.before == destination.after and source.resource.kind is destination.resource.kind
    was = images.get(source.resource.id)
    return (source, destination) if same and was is not None and not source.after and not destination.before else None


def _build_own_step(place: Snapshots, change: Change, image: BeforeImage) -> UndoStep:
    name, inverse = change.resource.id, place.inverse
    if inverse is None:
        raise WorkspaceError(f"the tool that could put `{name[:80]}` back is not there; start with it")

    def is_left() -> bool:
        return place.hash_own(name) == change.after

    def is_back() -> bool:
        return place.hash_own(name) == image.image

    def get() -> bytes | None:
        return place.blobs.get(image.image) if image.image else None

    def take_back() -> None:
        try:
            inverse.put_back(name, get())
        except ForegateError:
            raise
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise WorkspaceError(f"`{name[:80]}` could not be put back: {why}") from None

    words, what = f"restore `{name}`" if image.image else f"remove `{name}`", f"`{name[:80]}`"
    return UndoStep(words, what, is_left, is_back, get, take_back)


def _build_path_step(place: Snapshots, change: Change, image: BeforeImage) -> UndoStep:
    path, space, type_ = change.resource.id, place.workspace, image.type
    lost = _list_lost(place, path, image)

    def get() -> bytes:
        return place.blobs.get(image.image) if image.image else b""

    def take_back() -> None:
        if type_ == "file":
            space.write(path, get(), directory.read_traits(image, place.blobs))
        elif type_ == "link":
            if space.look(path).kind:
                space.remove(path)
            space.make_link(path, get(), modified=int(image.modified or 0))
        elif type_ == "":
            (space.remove_directory if space.look(path).kind == "directory" else space.remove)(path)
            directory.remove_empty(space, image.parents)
        else:
            # An unknown type is refused there.
            directory.restore_image(space, path, get(), place.blobs)

    def is_midway() -> bool:
        if type_ == "directory" and image.image:
            return directory.is_partly_restored(space, path, get())
        return type_ == "link" and not space.look(path).kind

    def check_possible() -> None:
        if type_ and not image.image:
            raise WorkspaceError(f"no copy was kept of `{path[:80]}`; change it by hand")
        kept = get()
        for hash_ in filter(None, directory.list_hashes(kept) if type_ == "directory" else (image.attributes,)):
            place.blobs.get(hash_)
        for one in (path, *image.parents):
            space.changeable(one)

    def is_back() -> bool:
        return place.is_as_kept(image, lost)

    def is_left() -> bool:
        return place.hash_path(path) == change.after

    words = {"": f"remove `{path}`", "directory": f"bring the folder `{path}` back"}.get(type_, f"restore `{path}`")
    words += f" without its {', '.join(lost)}" if lost else ""
    return UndoStep(words, f"`{path[:80]}`", is_left, is_back, check_possible, take_back, is_midway)


def _list_lost(place: Snapshots, path: str, image: BeforeImage) -> tuple[str, ...]:
    """Return the names of what a thing had that bringing it back does not give it again."""
    try:
        if image.type == "directory" and image.image:
            return (HARD_LINKS,) * directory.has_hard_links(place.blobs.get(image.image))
        if image.type == "file":
            lost = place.workspace.list_unkept(path, directory.read_traits(image, place.blobs).attributes)
            return tuple(dict.fromkeys((*lost, *[HARD_LINKS] * (image.links > 1))))
    except ForegateError:
        # The step itself says what is in its way.
        pass
    return ()


def _build_move_step(place: Snapshots, source: Change, destination: Change, image: BeforeImage | None) -> UndoStep:
    old, new, space = source.resource.id, destination.resource.id, place.workspace
    parents = image.parents if image is not None else ()

    def is_left() -> bool:
        if space.look(old).kind:
            raise WorkspaceError(f"`{old[:80]}` is there again; move it away or undo what made it")
        return place.hash_path(new) == destination.after

    def check_possible() -> None:
        for path in (old, new, *parents):
            space.changeable(path)

    def take_back() -> None:
        space.move(new, old)
        directory.remove_empty(space, parents)

    def is_back() -> bool:
        if place.hash_path(old) != source.before or space.look(new).kind:
            raise WorkspaceError(f"`{old[:80]}` could not be brought back as it was; look at it")
        return True

    return UndoStep(f"move `{new}` back to `{old}`", f"`{new[:80]}`", is_left, is_back, check_possible, take_back)


def _build_repository_step(place: Snapshots, change: Change, image: BeforeImage) -> UndoStep:
    """Return the step that sets branch and index back; the files stay as they are."""
    stored = strict_json.parse(place.blobs.get(image.image).decode())
    kept_head, kept_index = get_text(stored, "head"), get_text(stored, "index")
    repository, space = find_repository(place.workspace, place.policy, change.resource.id), place.workspace
    head, index = repository.read_head(), f"{repository.git}/index"

    def is_left() -> bool:
        repository.check_safe()
        return repository.compute_state() == change.after

    def check_possible() -> None:
        if space.look(f"{index}.lock").kind:
            raise WorkspaceError("another git command is at work in the repository; wait for it")
        if kept_index:
            place.blobs.get(kept_index)
        if kept_head:
            repository.run("cat-file", "-e", f"{kept_head}^{{commit}}")
        space.changeable(index)

    def take_back() -> None:
        if head != kept_head:
            words = ("HEAD", kept_head, head) if kept_head else ("-d", "HEAD", head)
            repository.run("update-ref", "-m", "undo", *words, more=repository.read_identity())
        if kept_index:
            space.write(index, place.blobs.get(kept_index))
        elif space.look(index).kind:
            space.remove(index)

    def is_back() -> bool:
        if repository.compute_state() != change.before:
            raise WorkspaceError("the repository could not be set back as it was; look at it with git")
        return True

    words = f"set the branch back to {kept_head[:12] or 'no commit'}; " if head != kept_head else ""
    words += f"set what is staged in {shlex.quote(change.resource.id)} back"
    return UndoStep(words, "the repository", is_left, is_back, check_possible, take_back)
