"""Tools that read and change one file of the workspace."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.agent.tools.arguments import get_count
from foregate.agent.tools.builtin.patch import apply_diff
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.confine import check_readable, check_unchanged, check_writable
from foregate.agent.workspace.output import trim_cut_end, trim_cut_start
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import Json, get_bool, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolResult, Trust
from foregate.schemas.tool_spec import OBSERVER, Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

WRITER = Capabilities(
    read_only=False, external_side_effect=False, needs_approval=False, idempotent=False, reversible=True
)
_ONE_WAY = "give either `old` and `new`, or `diff`, and not both"
PATH: Mapping[str, Json] = {"type": "string", "minLength": 1, "description": "Path relative to the workspace."}


def read_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that reads a file and remembers which content was seen."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        named = get_text(arguments, "path")
        path = check_readable(workspace, named)
        data = workspace.read(path, limit=policy.files.max_hash + 1)
        offset, limit = get_count(arguments, "offset", 0), get_count(arguments, "max_bytes", policy.files.max_read)
        part = data[offset : offset + min(limit, policy.files.max_read)]
        if offset + len(part) < len(data):
            part = trim_cut_end(part) or part
        if offset:
            part = trim_cut_start(part)
        left_out = len(data) - len(part)
        record = EvidenceRecord(
            EvidenceKind.FILE_READ,
            Resource(ResourceKind.FILE, path),
            strict_json.sha256(data) if len(data) <= policy.files.max_hash else "",
            Trust.INFERRED if left_out else Trust.DIRECT,
        )
        records = (record, *build_link_record(workspace, named, path))
        return ToolResult(True, part.decode("utf-8", "replace"), records, dropped=left_out)

    return Tool(
        ToolSpec(
            "read_file",
            "Read a text file of the workspace. Long files come in part: use offset and max_bytes for the rest.",
            {
                "type": "object",
                "properties": {
                    "path": PATH,
                    "offset": {"type": "integer", "minimum": 0, "description": "First byte to return."},
                    "max_bytes": {"type": "integer", "minimum": 1, "description": "Bytes to return at most."},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
            Effect.OBSERVATION,
            OBSERVER,
            (TargetParameter("path", ResourceKind.FILE, Effect.OBSERVATION),),
            "builtin",
        ),
        run,
    )


def build_link_record(workspace: Workspace, named: str, path: str) -> tuple[EvidenceRecord, ...]:
    """Return the record of a link that was read through, so that the link itself counts as seen."""
    link = workspace.resolve(named, follow=False)
    if link == path:
        return ()
    found = workspace.look(link)
    return (EvidenceRecord(EvidenceKind.FILE_READ, Resource(ResourceKind.FILE, link), found.hash),)


def write_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that puts a whole text at a path."""

    def foresee(arguments: Mapping[str, Json]) -> tuple[FileChange]:
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        found = workspace.look(path)
        if found.kind not in ("", "file"):
            raise WorkspaceError(f"`{path[:80]}` is not a regular file; name one")
        above = path.rpartition("/")[0]
        if above and not get_bool(arguments, "create_dirs", True) and not workspace.look(above).kind:
            raise WorkspaceError(f"the folder `{above[:80]}` does not exist; create it first or leave create_dirs out")
        before = workspace.read(path) if found.kind else None
        check_unchanged(path, strict_json.sha256(before) if before is not None else "")
        return (FileChange(path, before, get_text(arguments, "content").encode(), ("content",)),)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        (seen,) = foresee(arguments)
        workspace.write(seen.path, seen.after)
        verb = "created" if seen.before is None else "replaced"
        return build_change_result(workspace, policy, seen, f"{verb} `{seen.path}`: {len(seen.after)} bytes")

    return Tool(
        ToolSpec(
            "write_file",
            "Write a whole text file: a new one, or in place of what is there. To change a part use edit_file.",
            {
                "type": "object",
                "properties": {
                    "path": PATH,
                    "content": {"type": "string", "description": "The whole new content."},
                    "create_dirs": {"type": "boolean", "description": "Create missing folders. Default true."},
                },
                "required": ["path", "content"],
                "additionalProperties": False,
            },
            Effect.CREATE,
            WRITER,
            (TargetParameter("path", ResourceKind.FILE, Effect.CREATE),),
            "builtin",
        ),
        run,
        preview=foresee,
    )


def edit_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that changes a part of a file: one passage that occurs once, or the hunks of a diff."""

    def foresee(arguments: Mapping[str, Json]) -> tuple[FileChange]:
        if not has_one_way(arguments):
            raise WorkspaceError(_ONE_WAY)
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        data = workspace.read(path)
        check_unchanged(path, strict_json.sha256(data))
        if "diff" in arguments:
            after = apply_diff(data, get_text(arguments, "diff").encode(), path)
        else:
            old, new = get_text(arguments, "old"), get_text(arguments, "new")
            after = replace_passage(data, old.encode(), new.encode(), path)
        return (FileChange(path, data, after, ("old", "new", "diff")),)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        if not has_one_way(arguments):
            return ToolResult(False, _ONE_WAY, error="arguments")
        (seen,) = foresee(arguments)
        workspace.write(seen.path, seen.after)
        sizes = f"{len(seen.before or b'')} -> {len(seen.after)} bytes"
        return build_change_result(workspace, policy, seen, f"edited `{seen.path}`: {sizes}")

    return Tool(
        ToolSpec(
            "edit_file",
            "Change a part of a file: either `old` and `new` (`old` must occur exactly once; add lines around it until "
            "it does), or `diff`, a unified diff for this file whose lines are exactly as in the file.",
            {
                "type": "object",
                "properties": {
                    "path": PATH,
                    "old": {"type": "string", "minLength": 1, "description": "The passage as it is now."},
                    "new": {"type": "string", "description": "What stands there afterwards."},
                    "diff": {"type": "string", "minLength": 1, "description": "A unified diff instead of old and new."},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
            Effect.EDIT,
            WRITER,
            (TargetParameter("path", ResourceKind.FILE, Effect.EDIT),),
            "builtin",
        ),
        run,
        preview=foresee,
    )


def has_one_way(arguments: Mapping[str, Json]) -> bool:
    """Whether an edit is said in one of its two ways, in full, and not in both."""
    return {"old", "new", "diff"} & arguments.keys() in ({"old", "new"}, {"diff"})


def replace_passage(data: bytes, old: bytes, new: bytes, path: str) -> bytes:
    """Return `data` with its one passage `old` replaced; raise WorkspaceError when it is not there exactly once."""
    first = data.find(old)
    if first < 0:
        raise WorkspaceError(f"`old` does not occur in `{path[:80]}`; it must occur exactly once")
    if data.find(old, first + 1) >= 0:
        raise WorkspaceError(f"`old` occurs more than once in `{path[:80]}`; it must occur exactly once")
    return data[:first] + new + data[first + len(old) :]


def build_change_result(workspace: Workspace, policy: Policy, made: FileChange, text: str) -> ToolResult:
    """Return the result of a change, with what is on disk now read back as evidence."""
    resource = Resource(ResourceKind.FILE, made.path)
    now = workspace.look(made.path, max_hash=policy.files.max_hash)
    image, after = "" if made.before is None else strict_json.sha256(made.before), strict_json.sha256(made.after)
    change = Change(resource, image, now.hash or after, now.mode)
    if now.hash and now.hash != after:
        text = f"`{made.path}` was written and changed again by something else at once; read it before going on"
        return ToolResult(False, text, (), (change,), error="changed_meanwhile")
    record = EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, resource, now.hash, own_change=True)
    return ToolResult(True, text, (record,), (change,))
