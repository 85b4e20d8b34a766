"""Tools that create, delete and move what is in the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from foregate.agent.tools.builtin.files import PATH, WRITER
from foregate.agent.tools.builtin.looking import build_seen_record
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace import directory
from foregate.agent.workspace.confine import check_unchanged, check_writable
from foregate.agent.workspace.workspace import PathState, Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_off_limits
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json, get_bool, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

GONE = strict_json.sha256(b"foregate: nothing is there")
"""The hash recorded for a deleted thing: no content has it, so whatever appears there later counts as changed."""
MAKER = Capabilities(
    read_only=False, external_side_effect=False, needs_approval=False, idempotent=True, reversible=True
)


def create_directory(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that creates a folder."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        resource = Resource(ResourceKind.DIRECTORY, path)
        there = workspace.look(path).kind
        if there not in ("", "directory"):
            raise WorkspaceError(f"`{path[:80]}` is there already and is no folder; name a new path")
        if there:
            return ToolResult(True, f"`{path}` was there already", (build_seen_record(ResourceKind.DIRECTORY, path),))
        workspace.make_directory(path)
        made = workspace.look(path)
        record = EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, resource, directory.EMPTY, own_change=True)
        return ToolResult(
            True, f"created the folder `{path}`", (record,), (Change(resource, "", directory.EMPTY, made.mode),)
        )

    return Tool(
        ToolSpec(
            "create_directory",
            "Create a folder and the folders above it that are missing.",
            {"type": "object", "properties": {"path": PATH}, "required": ["path"], "additionalProperties": False},
            Effect.CREATE,
            MAKER,
            (TargetParameter("path", ResourceKind.DIRECTORY, Effect.CREATE),),
            "builtin",
        ),
        run,
    )


def delete_path(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that deletes a file, or a folder with everything in it."""

    def work(arguments: Mapping[str, Json]) -> ToolResult:
        path = check_writable(workspace, policy, get_text(arguments, "path"), follow=False)
        found = workspace.look(path, max_hash=policy.files.max_hash)
        if found.kind == "directory":
            return delete_folder(workspace, policy, path, found, recursive=get_bool(arguments, "recursive", False))
        if not found.kind:
            raise WorkspaceError(f"`{path[:80]}` does not exist; nothing was deleted")
        check_unchanged(path, found.hash)
        workspace.remove(path)
        change = Change(Resource(ResourceKind.FILE, path), found.hash, "", found.mode)
        return build_deletion_result(workspace, change, f"deleted `{path}`")

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        return await asyncio.to_thread(work, arguments)

    return Tool(
        ToolSpec(
            "delete_path",
            "Delete a file, a link (not what it points to) or an empty folder; with `recursive` any folder.",
            {
                "type": "object",
                "properties": {
                    "path": PATH,
                    "recursive": {"type": "boolean", "description": "Also what is in the folder. Default false."},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
            Effect.DELETE,
            WRITER,
            (TargetParameter("path", ResourceKind.FILE, Effect.DELETE),),
            "builtin",
        ),
        run,
    )


def delete_folder(workspace: Workspace, policy: Policy, path: str, found: PathState, *, recursive: bool) -> ToolResult:
    """Delete a folder; the change names it by the hash of its image where one can be made."""
    inside = directory.list_tree(workspace, path, policy.files.max_entries)
    if inside.entries and not recursive:
        raise WorkspaceError(f"the folder `{path[:80]}` is not empty; use `recursive` to delete what is in it")
    refuse_protected(workspace, policy, path)
    before = inside.hash
    if directory.is_restorable(inside, policy.files.max_hash):
        before = strict_json.sha256(
            directory.build_image(workspace, path, policy.files.max_entries, strict_json.sha256)
        )
    try:
        count = directory.delete_tree(workspace, path)
    except WorkspaceError as error:
        if directory.list_tree(workspace, path, policy.files.max_entries).hash == inside.hash:
            raise
        text = f"{error}; part of the folder is gone, look at what is left"
        return ToolResult(False, text, error="partly_deleted", unknown=True)
    change = Change(Resource(ResourceKind.DIRECTORY, path), before, "", found.mode)
    return build_deletion_result(workspace, change, f"deleted the folder `{path}` and {count - 1} entries in it")


def build_deletion_result(workspace: Workspace, change: Change, text: str) -> ToolResult:
    """Return the result of a deletion, checked on disk."""
    path = change.resource.id
    if workspace.look(path).kind:
        return ToolResult(
            False, f"`{path}` was deleted and is there again; look at it", (), (change,), error="returned"
        )
    record = EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, change.resource, GONE, own_change=True)
    return ToolResult(True, text, (record,), (change,))


def move_path(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that moves or renames; what is at the destination is never overwritten."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        source = check_writable(workspace, policy, get_text(arguments, "source"), follow=False)
        destination = check_writable(workspace, policy, get_text(arguments, "destination"), follow=False)
        found = workspace.look(source, max_hash=policy.files.max_hash)
        if not found.kind:
            raise WorkspaceError(f"`{source[:80]}` does not exist; nothing was moved")
        if workspace.look(destination).kind:
            raise WorkspaceError(f"`{destination[:80]}` is there already; name a new path")
        kind, content = ResourceKind.FILE, found.hash
        if found.kind == "directory":
            kind, content = (
                ResourceKind.DIRECTORY,
                directory.list_tree(workspace, source, policy.files.max_entries).hash,
            )
            refuse_protected(workspace, policy, source)
        else:
            check_unchanged(source, content)
        workspace.move(source, destination)
        now = workspace.look(destination, max_hash=policy.files.max_hash)
        after = now.hash
        if kind is ResourceKind.DIRECTORY:
            after = directory.list_tree(workspace, destination, policy.files.max_entries).hash
        changes = (
            Change(Resource(kind, source), content, "", found.mode),
            Change(Resource(kind, destination), "", after, now.mode),
        )
        record = EvidenceRecord(
            EvidenceKind.VERIFICATION_RESULT, Resource(kind, destination), now.hash, own_change=True
        )
        return ToolResult(True, f"moved `{source}` to `{destination}`", (record,), changes)

    return Tool(
        ToolSpec(
            "move_path",
            "Move or rename a file or a folder. The destination is the new path itself and must not exist yet.",
            {
                "type": "object",
                "properties": {
                    "source": PATH,
                    "destination": {**PATH, "description": "New path, relative to the workspace."},
                },
                "required": ["source", "destination"],
                "additionalProperties": False,
            },
            Effect.MOVE,
            WRITER,
            (
                TargetParameter("source", ResourceKind.FILE, Effect.MOVE),
                TargetParameter("destination", ResourceKind.FILE, Effect.CREATE),
            ),
            "builtin",
        ),
        run,
    )


def refuse_protected(workspace: Workspace, policy: Policy, path: str) -> None:
    """Raise WorkspaceError when something beneath a folder may never be changed by the agent."""
    for entry in directory.walk(workspace, path):
        if is_off_limits(entry.path, policy):
            raise WorkspaceError(f"`{entry.path[:80]}` belongs to git or to Foregate; the folder stays as it is")
