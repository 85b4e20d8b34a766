"""Tools that replace matches in files and fill the placeholders of a template, which is no language: nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import re2

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.files import build_change_result, read_replaced, write_whole
from foregate.agent.tools.looking import compile_pattern
from foregate.agent.tools.tool import Arguments, Tool
from foregate.agent.workspace.workspace import Workspace, check_readable, check_unchanged, check_writable
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import as_texts, get_bool, get_object, get_text
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind, TargetParameter

_PIECE = re2.compile(r"\$(\$|[0-9]+|\{[A-Za-z0-9_]+\})|[^$]+|\$")
_NO_MATCH = "the pattern matches nothing in these files; nothing was changed"
_PLACEHOLDER = re2.compile(r"\{\{ ?\.?([A-Za-z_][A-Za-z0-9_]*) ?\}\}")
_NAMED = 8
"""Names that are said one by one where several are missing."""
Replacement = Callable[[Any], str]


def search_replace(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool; all files are read and replaced in memory before the first one is written."""

    def plan_changes(arguments: Arguments) -> list[tuple[FileChange, int]]:
        literal, any_case = get_bool(arguments, "literal", False), not get_bool(arguments, "case_sensitive", True)
        wanted = get_text(arguments, "pattern") if literal else f"(?m){get_text(arguments, 'pattern')}"
        pattern = compile_pattern(wanted, literal=literal, any_case=any_case, otherwise="give `literal` true")
        fill = build_filler(get_text(arguments, "replacement"), pattern, literal=literal)
        found: dict[str, tuple[FileChange, int]] = {}
        for name in as_texts(arguments.get("paths"), "paths"):
            path = check_writable(workspace, policy, name)
            data = workspace.read(path, limit=policy.files.max_hash + 1)
            check_unchanged(path, strict_json.sha256(data))
            after, count = replace_matches(read_text(data, path, policy), pattern, fill, policy.files.max_hash)
            found[path] = FileChange(path, data, after.encode(), ("replacement",)), count
        return list(found.values()) if any(count for _, count in found.values()) else []

    def foresee(arguments: Arguments) -> tuple[FileChange, ...]:
        if not (found := plan_changes(arguments)):
            raise WorkspaceError(_NO_MATCH)
        return tuple(change for change, _ in found if change.after != change.before)

    def run(arguments: Arguments) -> ToolResult:
        found = plan_changes(arguments)
        return write_changes(workspace, policy, found) if found else ToolResult(False, _NO_MATCH, error="no_match")

    return builtin_tool.build_tool(
        "search_replace",
        "Replace every match of a pattern in the files named. The pattern is RE2 (`^` and `$` match at line ends) "
        "unless `literal` is true. In the replacement `$1` or `${name}` is a group, `$0` the match, `$$` a dollar.",
        {
            "paths": builtin_tool.describe_paths("Files"),
            "pattern": builtin_tool.describe_text("What to replace."),
            "replacement": {"type": "string", "description": "What stands there afterwards."},
            "literal": builtin_tool.describe_flag("Take pattern and replacement as plain text. Default false."),
            "case_sensitive": builtin_tool.describe_flag("Default true."),
        },
        ["paths", "pattern", "replacement"],
        [TargetParameter("paths", ResourceKind.FILE, Effect.EDIT)],
        run,
        Effect.EDIT,
        builtin_tool.WRITER,
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
    """Return what puts a match's groups into the replacement; raise WorkspaceError for an unknown group."""
    if literal:
        return lambda match: replacement
    parts: list[str | int] = []
    for piece in _PIECE.finditer(replacement):
        if piece.group() == "$":
            raise WorkspaceError("a `$` in the replacement stands for no group; write `$$` for a dollar sign")
        parts.append(resolve_group(piece.group(1), pattern) if piece.group(1) else piece.group())
    return lambda match: "".join(part if isinstance(part, str) else match.group(part) or "" for part in parts)


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
            lost = workspace.write(made.path, made.after)
        except WorkspaceError as error:
            results.append(ToolResult(False, f"{error}; the files after it were left as they are", error="not_written"))
            break
        results.append(build_change_result(workspace, policy, made, f"`{made.path}`: {times} replaced", lost))
    return ToolResult(
        all(result.ok for result in results),
        "\n".join(result.content for result in results),
        tuple(record for result in results for record in result.evidence),
        tuple(change for result in results for change in result.changes),
        error=next((result.error for result in results if result.error), ""),
    )


def render_template(workspace: Workspace, policy: Policy) -> Tool:
    def foresee(arguments: Arguments) -> tuple[FileChange]:
        source = check_readable(workspace, get_text(arguments, "template"))
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        template = read_text(workspace.read(source, limit=policy.files.max_hash + 1), source, policy)
        after = fill_template(template, get_object(arguments, "variables"), policy.files.max_hash).encode()
        return (FileChange(path, read_replaced(workspace, path), after, ("variables",)),)

    async def run(arguments: Arguments) -> ToolResult:
        return write_whole(workspace, policy, *foresee(arguments), " from its template")

    return builtin_tool.build_tool(
        "render_template",
        "Write a file from a template of the workspace: each `{{ name }}` in it becomes the variable of that name. "
        "Every placeholder needs its variable and every variable its placeholder.",
        {
            "template": builtin_tool.describe_text("The template, relative to the workspace."),
            "path": builtin_tool.describe_text("Where the result goes, relative to the workspace."),
            "variables": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Texts by name; each is put in unchanged.",
            },
        },
        ["template", "path", "variables"],
        [
            TargetParameter("path", ResourceKind.FILE, Effect.CREATE),
            TargetParameter("template", ResourceKind.FILE, Effect.OBSERVATION),
        ],
        run,
        Effect.CREATE,
        builtin_tool.WRITER,
        preview=foresee,
    )


def fill_template(template: str, variables: Arguments, most: int) -> str:
    """Return the template with each placeholder replaced once: what a variable holds is never read again."""
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
        names = format_names(unused)
        raise WorkspaceError(f"the template has no placeholder for {names}; leave it out or correct the name")
    return "".join(pieces)


def check_no_brace(template: str, start: int, end: int) -> str:
    """Return a stretch of the template; raise WorkspaceError where it holds `{{`, which would be left standing."""
    if (at := template.find("{{", start, end)) >= 0:
        number = template.count("\n", 0, at) + 1
        raise WorkspaceError(
            f"line {number} of the template holds `{{{{` and no placeholder of the form `{{{{ name }}}}`"
        )
    return template[start:end]


def format_names(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _NAMED else ""
    return ", ".join(f"`{name[:64]}`" for name in names[:_NAMED]) + more
