"""Tools that read and change files of the workspace."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.agent.tools.tool import Tool
from foregate.agent.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.capabilities import OBSERVER, Capabilities
from foregate.schemas.effect import Effect
from foregate.schemas.evidence_record import EvidenceKind, EvidenceRecord, Trust
from foregate.schemas.resource import Resource, ResourceKind
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_result import Change, ToolResult
from foregate.schemas.tool_spec import TargetParameter, ToolSpec

WRITER = Capabilities(
    read_only=False, external_side_effect=False, needs_approval=False, idempotent=False, reversible=True
)
_PATH = {"type": "string", "minLength": 1, "description": "Path relative to the workspace."}


def read_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that reads a file and remembers which content was seen."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        path = workspace.resolve(arguments["path"])
        data = workspace.read(path, limit=policy.files.max_hash + 1)
        offset, limit = arguments.get("offset", 0), arguments.get("max_bytes", policy.files.max_read)
        part = data[offset : offset + min(limit, policy.files.max_read)]
        left_out = len(data) - len(part)
        record = EvidenceRecord(
            EvidenceKind.FILE_READ,
            Resource(ResourceKind.FILE, path),
            strict_json.sha256(data) if len(data) <= policy.files.max_hash else "",
            Trust.INFERRED if left_out else Trust.DIRECT,
        )
        return ToolResult(True, part.decode("utf-8", "replace"), (record,), dropped=left_out)

    return Tool(
        ToolSpec(
            "read_file",
            "Read a text file of the workspace. Long files come in part: use offset and max_bytes for the rest.",
            {
                "type": "object",
                "properties": {
                    "path": _PATH,
                    "offset": {"type": "integer", "minimum": 0, "description": "First byte to return."},
                    "max_bytes": {"type": "integer", "minimum": 1, "description": "Bytes to return at most."},
                },
                "required": ["path"],
            },
            Effect.OBSERVATION,
            OBSERVER,
            (TargetParameter("path", ResourceKind.FILE, Effect.OBSERVATION),),
            "builtin",
        ),
        run,
    )


def edit_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that replaces one passage of a file, which must occur exactly once."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        path = workspace.resolve(arguments["path"])
        data = workspace.read(path)
        old, new = arguments["old"].encode(), arguments["new"].encode()
        count = data.count(old)
        if count != 1:
            found = "does not occur" if count == 0 else f"occurs {count} times"
            return ToolResult(False, f"`old` {found} in `{path}`; it must occur exactly once", error="no_unique_match")
        after = data.replace(old, new)
        workspace.write(path, after)
        return changed(workspace, policy, path, data, f"edited `{path}`: {len(data)} -> {len(after)} bytes")

    return Tool(
        ToolSpec(
            "edit_file",
            "Replace one passage of a file. `old` must occur exactly once; add lines around it until it does.",
            {
                "type": "object",
                "properties": {
                    "path": _PATH,
                    "old": {"type": "string", "minLength": 1, "description": "The passage as it is now."},
                    "new": {"type": "string", "description": "What stands there afterwards."},
                },
                "required": ["path", "old", "new"],
            },
            Effect.EDIT,
            WRITER,
            (TargetParameter("path", ResourceKind.FILE, Effect.EDIT),),
            "builtin",
        ),
        run,
    )


def changed(workspace: Workspace, policy: Policy, path: str, before: bytes | None, text: str) -> ToolResult:
    """Return the result of a change, with what is on disk now read back as evidence."""
    resource = Resource(ResourceKind.FILE, path)
    now = workspace.look(path, max_hash=policy.files.max_hash)
    record = EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, resource, now.hash, own_change=True)
    image = strict_json.sha256(before) if before is not None else ""
    return ToolResult(True, text, (record,), (Change(resource, image, now.hash, now.mode),))
