"""What was there before a call changed it, kept so that the change can be undone."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from foregate.agent.workspace import directory
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, WorkspaceError
from foregate.schemas.event_body import BeforeImage
from foregate.schemas.protocols import Blobs, Inverse
from foregate.schemas.tool_call import CallFacts, Change, EvidenceKind, EvidenceRecord, SurveyedResource, ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind

KEPT = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE)
"""Effects on paths that have a before-image."""
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)


def keep_images(
    resources: Sequence[SurveyedResource],
    facts: CallFacts,
    workspace: Workspace,
    policy: Policy,
    blobs: Blobs,
    inverse: Inverse | None = None,
) -> list[BeforeImage]:
    """Store what a call is about to change of its resources, as they are now; return what names it.

    What cannot be kept is left out when the call was judged irreversible; raises WorkspaceError when it was judged
    on there being a way back.
    """
    kept: list[BeforeImage] = []
    if facts.spec is not None and facts.spec.is_elsewhere:
        return kept  # nothing of it lies here; its runtime keeps what was there
    for resource in resources:
        try:
            if inverse is not None and resource.kind is ResourceKind.OTHER:
                image: BeforeImage | None = keep_own_image(resource, inverse, blobs)
            else:
                image = keep_image(resource, workspace, policy, blobs)
        except WorkspaceError:
            if not facts.irreversible:
                raise
            continue
        if image is not None:
            kept.append(image)
    return kept


def has_image(resource: SurveyedResource, inverse: Inverse | None) -> bool:
    """Whether `keep_images` stores anything of a resource before a call changes it; that nothing was there counts."""
    if resource.kind is ResourceKind.OTHER:
        return inverse is not None
    if resource.kind is ResourceKind.REPOSITORY:
        return resource.access.changes
    return resource.kind in _PATHS and resource.access in KEPT and resource.restorable


def keep_image(resource: SurveyedResource, workspace: Workspace, policy: Policy, blobs: Blobs) -> BeforeImage | None:
    """Return the stored image of one resource, None where the call leaves it alone or nothing can be kept of it."""
    if resource.kind is ResourceKind.REPOSITORY and resource.access.changes:
        return keep_repository_image(resource, workspace, policy, blobs)
    if resource.kind not in _PATHS or resource.access not in KEPT:
        return None
    if not resource.restorable:
        raise WorkspaceError(
            f"`{resource.id[:80]}` is too large or too special for a copy to be kept; nothing was done"
        )
    found = workspace.look(resource.id)
    bare = BeforeImage(kind=resource.kind, id=resource.id, image="", type=found.kind, mode=found.mode)
    match found.kind:
        case "file":
            return replace(bare, image=blobs.put(workspace.read(resource.id)))
        case "link":
            return replace(bare, image=blobs.put(workspace.read_link(resource.id)))
        case "directory" if resource.access is Effect.DELETE:
            limit = policy.files.max_entries
            return replace(bare, image=blobs.put(directory.build_image(workspace, resource.id, limit, blobs.put)))
        case "":
            return replace(bare, mode=0, parents=find_missing_parents(workspace, resource.id))
        case _:
            return bare


def keep_own_image(resource: SurveyedResource, inverse: Inverse, blobs: Blobs) -> BeforeImage:
    """Return the image of something only its tool can read and put back."""
    data = read_own_state(inverse, resource.id)
    image = blobs.put(data) if data is not None else ""
    return BeforeImage(kind=resource.kind, id=resource.id, image=image, type="own")


def read_own_state(inverse: Inverse, name: str) -> bytes | None:
    """Return what is at something only its tool can read; raise WorkspaceError where the tool fails to say."""
    try:
        data = inverse.now(name)
    except ForegateError:
        raise
    except Exception as error:
        why = f"its tool failed to say ({type(error).__name__})"
        raise WorkspaceError(f"what is at `{name[:80]}` cannot be kept: {why}") from None
    if data is not None and not isinstance(data, bytes):
        raise WorkspaceError(f"what is at `{name[:80]}` cannot be kept: its tool gives no bytes")
    return data


def keep_repository_image(
    resource: SurveyedResource, workspace: Workspace, policy: Policy, blobs: Blobs
) -> BeforeImage:
    """Return the image of a repository: the commit it stands on and its index."""
    repository = find_repository(workspace, policy, resource.id)
    index = f"{repository.git}/index"
    data = workspace.read(index) if workspace.look(index).kind else None
    kept = {"head": repository.read_head(), "index": blobs.put(data) if data is not None else ""}
    image = blobs.put(strict_json.canonical(kept))
    return BeforeImage(kind=resource.kind, id=resource.id, image=image, type="repository")


def find_missing_parents(workspace: Workspace, path: str) -> tuple[str, ...]:
    """Return the directories above `path` that do not exist, outermost first."""
    parts = path.split("/")[:-1]
    ways = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    return tuple(way for way in ways if not workspace.look(way).kind)


def add_missing_changes(
    result: ToolResult,
    kept: Sequence[BeforeImage],
    workspace: Workspace,
    policy: Policy,
    inverse: Inverse | None = None,
) -> ToolResult:
    """Return `result` with a change and a read-back for each file with a before-image the tool did not report on.

    So what a tool of any source did to the files it names is verified and can be undone, and with an `inverse` what it
    did to things of its own.
    """
    reported = {change.resource for change in result.changes}
    changes, records = [], []
    for image in kept:
        if image.resource in reported:
            continue
        if image.type == "own" and inverse is not None:
            changes += read_own_change(image, inverse)
        if image.kind is not ResourceKind.FILE or image.type not in ("", "file"):
            continue
        try:
            now = workspace.look(image.id, max_hash=policy.files.max_hash)
        except WorkspaceError:
            continue
        if now.kind in ("", "file") and now.hash != image.image:
            changes.append(Change(image.resource, image.image, now.hash, now.mode))
            if now.hash:
                kind = EvidenceKind.VERIFICATION_RESULT
                records.append(EvidenceRecord(kind, image.resource, now.hash, own_change=True))
    if not changes:
        return result
    return replace(result, changes=(*result.changes, *changes), evidence=(*result.evidence, *records))


def read_own_change(image: BeforeImage, inverse: Inverse) -> list[Change]:
    """Return the change of something only its tool can read, none where there is none or the tool fails to say."""
    try:
        data = read_own_state(inverse, image.id)
    except ForegateError:
        return []
    after = strict_json.sha256(data) if data is not None else ""
    return [Change(image.resource, image.image, after)] if after != image.image else []
