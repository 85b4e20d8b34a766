"""The tool that fills the placeholders of a file with texts. It is no language: nothing in a template is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import re2

from foregate.agent.tools.builtin.files import PATH, WRITER, build_change_result
from foregate.agent.tools.builtin.replacing import read_text
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.confine import check_readable, check_unchanged, check_writable
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import Json, get_object, get_text
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind, TargetParameter, ToolSpec

_PLACEHOLDER = re2.compile(r"\{\{ ?([A-Za-z_][A-Za-z0-9_]*) ?\}\}")
_NAMED = 8
"""Names that are said one by one where several are missing."""


def render_template(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that writes a file from a template."""

    def foresee(arguments: Mapping[str, Json]) -> tuple[FileChange]:
        source = check_readable(workspace, get_text(arguments, "template"))
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        template = read_text(workspace.read(source, limit=policy.files.max_hash + 1), source, policy)
        after = fill_template(template, get_object(arguments, "variables"), policy.files.max_hash).encode()
        found = workspace.look(path)
        if found.kind not in ("", "file"):
            raise WorkspaceError(f"`{path[:80]}` is not a regular file; name one")
        before = workspace.read(path) if found.kind else None
        check_unchanged(path, strict_json.sha256(before) if before is not None else "")
        return (FileChange(path, before, after, ("variables",)),)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        (seen,) = foresee(arguments)
        workspace.write(seen.path, seen.after)
        verb = "created" if seen.before is None else "replaced"
        return build_change_result(
            workspace, policy, seen, f"{verb} `{seen.path}` from its template: {len(seen.after)} bytes"
        )

    return Tool(
        ToolSpec(
            "render_template",
            "Write a file from a template of the workspace: each `{{ name }}` in it becomes the variable of that name. "
            "Every placeholder needs its variable and every variable its placeholder.",
            {
                "type": "object",
                "properties": {
                    "template": {**PATH, "description": "The template, relative to the workspace."},
                    "path": {**PATH, "description": "Where the result goes, relative to the workspace."},
                    "variables": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                        "description": "Texts by name; each is put in as it is.",
                    },
                },
                "required": ["template", "path", "variables"],
                "additionalProperties": False,
            },
            Effect.CREATE,
            WRITER,
            (
                TargetParameter("path", ResourceKind.FILE, Effect.CREATE),
                TargetParameter("template", ResourceKind.FILE, Effect.OBSERVATION),
            ),
            "builtin",
        ),
        run,
        preview=foresee,
    )


def fill_template(template: str, variables: Mapping[str, Json], most: int) -> str:
    """Return the template with each placeholder replaced once: what a variable holds is never read again.

    Raises WorkspaceError for a brace pair that is no placeholder, and for names that only one side has.
    """
    pieces: list[str] = []
    used: set[str] = set()
    done = size = 0
    for match in _PLACEHOLDER.finditer(template):
        pieces.append(check_no_brace(template, done, match.start()))
        used.add(match.group(1))
        pieces.append(get_text(variables, match.group(1), ""))
        size += len(pieces[-1]) + len(pieces[-2])
        if size > most:
            raise WorkspaceError(f"the result would be larger than {most} bytes; nothing was written")
        done = match.end()
    pieces.append(check_no_brace(template, done, len(template)))
    if missing := sorted(used - variables.keys()):
        raise WorkspaceError(f"the template also needs {format_names(missing)}; give a variable for each placeholder")
    if unused := sorted(variables.keys() - used):
        raise WorkspaceError(
            f"the template has no placeholder for {format_names(unused)}; leave it out or correct the name"
        )
    return "".join(pieces)


def check_no_brace(template: str, start: int, end: int) -> str:
    """Return a stretch of the template; raise WorkspaceError where it holds `{{`, which would be left standing."""
    text = template[start:end]
    at = text.find("{{")
    if at >= 0:
        number = template.count("\n", 0, start + at) + 1
        raise WorkspaceError(
            f"line {number} of the template holds `{{{{` and no placeholder of the form `{{{{ name }}}}`"
        )
    return text


def format_names(names: Sequence[str]) -> str:
    """Return names as text."""
    more = ", ..." if len(names) > _NAMED else ""
    return ", ".join(f"`{name[:64]}`" for name in names[:_NAMED]) + more
