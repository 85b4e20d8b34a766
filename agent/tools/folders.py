"""Tools that create, delete and move what is in the workspace."""

from __future__ import annotations

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.tool import Arguments, Tool
from foregate.agent.workspace import directory
from foregate.agent.workspace.workspace import PathFacts, Workspace, check_unchanged, check_writable
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_off_limits
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import get_bool, get_text
from foregate.schemas.tool_call import Change, ToolResult
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, TargetParameter

GONE = strict_json.sha256(b"foregate: nothing is there")
"""The hash recorded for a deleted thing: no content has it, so whatever appears there later counts as changed."""


def create_directory(workspace: Workspace, policy: Policy) -> Tool:
    async def run(arguments: Arguments) -> ToolResult:
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        there = workspace.look(path).kind
        if there not in ("", "directory"):
            raise WorkspaceError(f"`{path[:80]}` is there already and is no folder; name a new path")
        if there:
            record = builtin_tool.build_seen_record(ResourceKind.DIRECTORY, path)
            return ToolResult(True, f"`{path}` was there already", (record,))
        workspace.make_directory(path)
        change = Change(Resource(ResourceKind.DIRECTORY, path), "", directory.EMPTY, workspace.look(path).mode)
        record = builtin_tool.build_change_record(change.resource, directory.EMPTY)
        return ToolResult(True, f"created the folder `{path}`", (record,), (change,))

    return builtin_tool.build_tool(
        "create_directory",
        "Create a folder and the folders above it that are missing.",
        {"path": builtin_tool.PATH},
        ["path"],
        [TargetParameter("path", ResourceKind.DIRECTORY, Effect.CREATE)],
        run,
        Effect.CREATE,
        builtin_tool.MAKER,
    )


def delete_path(workspace: Workspace, policy: Policy) -> Tool:
    def run(arguments: Arguments) -> ToolResult:
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

    return builtin_tool.build_tool(
        "delete_path",
        "Delete a file, a link (not what it points to) or an empty folder; with `recursive` any folder.",
        {
            "path": builtin_tool.PATH,
            "recursive": builtin_tool.describe_flag("Also what is in the folder. Default false."),
        },
        ["path"],
        [TargetParameter("path", ResourceKind.FILE, Effect.DELETE)],
        run,
        Effect.DELETE,
        builtin_tool.WRITER,
    )


def delete_folder(workspace: Workspace, policy: Policy, path: str, found: PathFacts, *, recursive: bool) -> ToolResult:
    """Delete a folder; the change names it by the hash of its image where one can be made."""
    most = policy.files.max_entries
    inside = directory.list_tree(workspace, path, most)
    if inside.entries and not recursive:
        raise WorkspaceError(f"the folder `{path[:80]}` is not empty; use `recursive` to delete what is in it")
    refuse_protected(workspace, policy, path)
    before = inside.hash
    if directory.is_restorable(inside, policy.files.max_hash):
        before = strict_json.sha256(directory.build_image(workspace, path, most, strict_json.sha256))
    try:
        count = directory.delete_tree(workspace, path)
    except WorkspaceError as error:
        if directory.list_tree(workspace, path, most).hash == inside.hash:
            raise
        text = f"{error}; part of the folder is gone, look at what is left"
        return ToolResult(False, text, error="partly_deleted", unknown=True)
    change = Change(Resource(ResourceKind.DIRECTORY, path), before, "", found.mode)
    return build_deletion_result(workspace, change, f"deleted the folder `{path}` and {count - 1} entries in it")


def build_deletion_result(workspace: Workspace, change: Change, text: str) -> ToolResult:
    """Return the result of a deletion, checked on disk."""
    path = change.resource.id
    if workspace.look(path).kind:
        text = f"`{path}` was deleted and is there again; look at it"
        return ToolResult(False, text, (), (change,), error="returned")
    return ToolResult(True, text, (builtin_tool.build_change_record(change.resource, GONE),), (change,))


def move_path(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that moves or renames; what is at the destination is never overwritten."""

    async def run(arguments: Arguments) -> ToolResult:
        source, destination = (
            check_writable(workspace, policy, get_text(arguments, key), follow=False)
            for key in ("source", "destination")
        )
        found = workspace.look(source, max_hash=policy.files.max_hash)
        if not found.kind:
            raise WorkspaceError(f"`{source[:80]}` does not exist; nothing was moved")
        if workspace.look(destination).kind:
            raise WorkspaceError(f"`{destination[:80]}` is there already; name a new path")
        kind = ResourceKind.DIRECTORY if found.kind == "directory" else ResourceKind.FILE
        before = compute_hash(workspace, policy, source, found)
        if kind is ResourceKind.DIRECTORY:
            refuse_protected(workspace, policy, source)
        else:
            check_unchanged(source, before)
        workspace.move(source, destination)
        now = workspace.look(destination, max_hash=policy.files.max_hash)
        after = compute_hash(workspace, policy, destination, now)
        moved = Resource(kind, destination)
        changes = (Change(Resource(kind, source), before, "", found.mode), Change(moved, "", after, now.mode))
        record = builtin_tool.build_change_record(moved, now.hash)
        return ToolResult(True, f"moved `{source}` to `{destination}`", (record,), changes)

    return builtin_tool.build_tool(
        "move_path",
        "Move or rename a file or a folder. The destination is the new path itself and must not exist yet.",
        {
            "source": builtin_tool.PATH,
            "destination": builtin_tool.describe_text("New path, relative to the workspace."),
        },
        ["source", "destination"],
        [
            TargetParameter("source", ResourceKind.FILE, Effect.MOVE),
            TargetParameter("destination", ResourceKind.FILE, Effect.CREATE),
        ],
        run,
        Effect.MOVE,
        builtin_tool.WRITER,
    )


def compute_hash(workspace: Workspace, policy: Policy, path: str, found: PathFacts) -> str:
    if found.kind != "directory":
        return found.hash
    return directory.list_tree(workspace, path, policy.files.max_entries).hash


def refuse_protected(workspace: Workspace, policy: Policy, path: str) -> None:
    """Raise WorkspaceError when something beneath a folder may never be changed by the agent."""
    for entry in directory.walk(workspace, path):
        if is_off_limits(entry.path, policy):
            raise WorkspaceError(f"`{entry.path[:80]}` belongs to git or to Foregate; the folder was not changed")
