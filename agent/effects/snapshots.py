"""What was there before a call changed it, kept so that the change can be undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind

_KEPT = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE)
"""Effects on paths that have a before-image."""
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Where before-images are made of: the workspace, and through the `inverse` of a tool what only it can read."""

    workspace: Workspace
    policy: Policy
    blobs: Blobs
    inverse: Inverse | None = None

    def keep_images(self, resources: Sequence[SurveyedResource], facts: CallFacts) -> list[BeforeImage]:
        """Store what a call is about to change of its resources, as they are now; return what names it.

        What cannot be kept is left out when the call was judged irreversible; raises WorkspaceError when it was judged
        on there being a way back.
        """
        if facts.spec is not None and facts.spec.is_elsewhere:
            return []  # nothing of it lies here; its runtime keeps what was there
        kept: list[BeforeImage | None] = []
        for resource in resources:
            try:
                kept.append(self._keep_image(resource))
            except WorkspaceError:
                if not facts.irreversible:
                    raise
        return [image for image in kept if image is not None]

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
                return replace(bare, image=put(self.workspace.read(path)))
            case "link":
                return replace(bare, image=put(self.workspace.read_link(path)))
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

    def add_missing_changes(self, result: ToolResult, kept: Sequence[BeforeImage]) -> ToolResult:
        """Return `result` with a change and a read-back for each file with a before-image the tool did not report on.

        So what a tool of any source did to the files it names is verified and can be undone, and with an `inverse` what
        it did to things of its own.
        """
        reported = {change.resource for change in result.changes}
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
            except ForegateError:  # its tool or the workspace fails to say
                continue
            if now.kind in ("", "file") and now.hash != image.image:
                changes.append(Change(resource, image.image, now.hash, now.mode))
                if now.hash:
                    kind = EvidenceKind.VERIFICATION_RESULT
                    records.append(EvidenceRecord(kind, resource, now.hash, own_change=True))
        if not changes:
            return result
        return replace(result, changes=(*result.changes, *changes), evidence=(*result.evidence, *records))
