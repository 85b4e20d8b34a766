"""The tool that replaces what a pattern matches in files that are named one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import re2

from foregate.agent.tools.builtin.files import PATH, WRITER, build_change_result
from foregate.agent.tools.builtin.looking import compile_pattern
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.confine import check_readable, check_unchanged, check_writable
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import Json, as_texts, get_bool, get_object, get_text
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind, TargetParameter, ToolSpec

_GROUP = re2.compile(r"\$(\$|[0-9]+|\{[A-Za-z0-9_]+\})")
_FLAGS = "(?m)"
_NO_MATCH = "the pattern matches nothing in these files; nothing was changed"
Replacement = Callable[[Any], str]


def search_replace(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool; all files are read and replaced in memory before the first one is written."""

    def plan_changes(arguments: Mapping[str, Json]) -> list[tuple[FileChange, int]]:
        literal, any_case = get_bool(arguments, "literal", False), not get_bool(arguments, "case_sensitive", True)
        wanted = get_text(arguments, "pattern") if literal else _FLAGS + get_text(arguments, "pattern")
        pattern = compile_pattern(wanted, literal=literal, any_case=any_case, otherwise="give `literal` true")
        fill = build_filler(get_text(arguments, "replacement"), pattern, literal=literal)
        found: dict[str, tuple[FileChange, int]] = {}
        for name in as_texts(arguments.get("paths"), "paths"):
            path = check_writable(workspace, policy, name)
            data = workspace.read(path, limit=policy.files.max_hash + 1)
            check_unchanged(path, strict_json.sha256(data))
            after, count = replace_matches(read_text(data, path, policy), pattern, fill, policy.files.max_hash)
            found[path] = FileChange(path, data, after.encode(), ("replacement",)), count
        return list(found.values())

    def replace(arguments: Mapping[str, Json]) -> ToolResult:
        found = plan_changes(arguments)
        if not any(count for _, count in found):
            return ToolResult(False, _NO_MATCH, error="no_match")
        return write_changes(workspace, policy, found)

    def foresee(arguments: Mapping[str, Json]) -> tuple[FileChange, ...]:
        found = plan_changes(arguments)
        if not any(count for _, count in found):
            raise WorkspaceError(_NO_MATCH)
        return tuple(change for change, _ in found if change.after != change.before)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        return await asyncio.to_thread(replace, arguments)

    return Tool(
        ToolSpec(
            "search_replace",
            "Replace every match of a pattern in the files named. The pattern is RE2 (`^` and `$` match at line ends) "
            "unless `literal` is true. In the replacement `$1` or `${name}` is a group, `$0` the match, `$$` a dollar.",
            {
                "type": "object",
                "properties": {
                    "paths": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1},
                        "minItems": 1,
                        "description": "Files, relative to the workspace; taken as they are, not as patterns.",
                    },
                    "pattern": {"type": "string", "minLength": 1, "description": "What to replace."},
                    "replacement": {"type": "string", "description": "What stands there afterwards."},
                    "literal": {
                        "type": "boolean",
                        "description": "Take pattern and replacement as plain text. Default false.",
                    },
                    "case_sensitive": {"type": "boolean", "description": "Default true."},
                },
                "required": ["paths", "pattern", "replacement"],
                "additionalProperties": False,
            },
            Effect.EDIT,
            WRITER,
            (TargetParameter("paths", ResourceKind.FILE, Effect.EDIT),),
            "builtin",
        ),
        run,
        preview=foresee,
    )


def read_text(data: bytes, path: str, policy: Policy) -> str:
    """Return a file's text; raise WorkspaceError for one that is too large, or no UTF-8 and so would be damaged."""
    if len(data) > policy.files.max_hash:
        raise WorkspaceError(f"`{path[:80]}` is larger than {policy.files.max_hash} bytes; nothing was changed")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WorkspaceError(f"`{path[:80]}` is no UTF-8 text; nothing was changed") from None


def build_filler(replacement: str, pattern: Any, *, literal: bool) -> Replacement:
    """Return what puts a match's groups into the replacement; raise WorkspaceError for a group there is none of."""
    if literal:
        return lambda match: replacement
    parts: list[str | int] = []
    done = 0
    for found in _GROUP.finditer(replacement):
        parts += [check_plain(replacement[done : found.start()]), resolve_group(found.group(1), pattern)]
        done = found.end()
    parts.append(check_plain(replacement[done:]))
    return lambda match: "".join(part if isinstance(part, str) else match.group(part) or "" for part in parts)


def check_plain(text: str) -> str:
    """Return a piece of the replacement that holds no dollar sign; raise WorkspaceError for one that does."""
    if "$" in text:
        raise WorkspaceError("a `$` in the replacement stands for no group; write `$$` for a dollar sign")
    return text


def resolve_group(name: str, pattern: Any) -> str | int:
    """Return the number of a group, or a dollar sign."""
    if name == "$":
        return "$"
    bare = name.strip("{}")
    number = int(bare) if bare.isdigit() else pattern.groupindex.get(bare, -1)
    if not 0 <= number <= pattern.groups:
        raise WorkspaceError(f"the pattern has no group `{bare[:40]}`; it has {pattern.groups}")
    return int(number)


def replace_matches(text: str, pattern: Any, fill: Replacement, most: int) -> tuple[str, int]:
    """Return the text with every match replaced, and how many there were; raise WorkspaceError beyond `most`."""
    pieces: list[str] = []
    done = count = 0
    size = len(text)
    for match in pattern.finditer(text):
        new = fill(match)
        size += len(new)
        if size > most:
            raise WorkspaceError(f"the result would be larger than {most} bytes; nothing was changed")
        pieces += [text[done : match.start()], new]
        done = match.end()
        count += 1
    return "".join([*pieces, text[done:]]), count


def write_changes(workspace: Workspace, policy: Policy, planned: Sequence[tuple[FileChange, int]]) -> ToolResult:
    """Write what was planned and return one result for all files; what cannot be written ends it and is named."""
    results: list[ToolResult] = []
    for made, count in planned:
        times = "1 place" if count == 1 else f"{count} places"
        if made.after == made.before:
            results.append(ToolResult(True, f"`{made.path}`: {f'{times}, nothing new' if count else 'no match'}"))
            continue
        try:
            workspace.write(made.path, made.after)
        except WorkspaceError as error:
            results.append(ToolResult(False, f"{error}; the files after it were left as they are", error="not_written"))
            break
        results.append(build_change_result(workspace, policy, made, f"`{made.path}`: {times} replaced"))
    return ToolResult(
        all(result.ok for result in results),
        "\n".join(result.content for result in results),
        tuple(record for result in results for record in result.evidence),
        tuple(change for result in results for change in result.changes),
        error=next((result.error for result in results if result.error), ""),
    )


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
