"""Tools that list folders and search files of the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import re2

from foregate.agent.tools.builtin.declaration import get_count
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace import directory
from foregate.agent.workspace.confine import check_readable
from foregate.agent.workspace.directory import Entry
from foregate.agent.workspace.output import cap_text
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection, is_off_limits, matches
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json, get_bool, get_text
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, ToolResult, Trust
from foregate.schemas.tool_spec import OBSERVER, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

_FOLDER: Mapping[str, Json] = {
    "type": "string",
    "minLength": 1,
    "description": "Folder relative to the workspace; the workspace itself when left out.",
}
_GLOB: Mapping[str, Json] = {
    "type": "string",
    "minLength": 1,
    "description": "Glob such as `*.py` (compared with the name) or `src/**/*.py` (compared with the whole path).",
}
_HIDDEN: Mapping[str, Json] = {"type": "boolean", "description": "Also what begins with a dot. Default false."}


def list_files(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that lists a folder."""

    def look(arguments: Mapping[str, Json]) -> ToolResult:
        path = check_readable(workspace, get_text(arguments, "path", "."))
        glob, hidden = get_text(arguments, "glob", ""), get_bool(arguments, "hidden", False)
        lines: list[str] = []
        most = min(get_count(arguments, "max_results", policy.files.max_entries), policy.files.max_entries)
        records, more = [build_seen_record(ResourceKind.DIRECTORY, path)], False
        for entry in list_entries(workspace, policy, path, hidden, recursive=get_bool(arguments, "recursive", False)):
            if glob and not is_match(glob, entry, path):
                continue
            if len(lines) >= most:
                more = True
                break
            lines.append(format_entry(entry))
            if entry.is_readable:
                kind = ResourceKind.DIRECTORY if entry.kind == "directory" else ResourceKind.FILE
                records.append(build_seen_record(kind, entry.path))
        lines.append("") if lines else lines.append("nothing here")
        if more:
            lines.append(f"there is more: only {most} entries are listed; name a folder or a glob")
        text, dropped = cap_text("\n".join(lines), policy.files.max_output)
        return ToolResult(True, text, tuple(records) if not dropped else tuple(records[:1]), dropped=dropped)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        return await asyncio.to_thread(look, arguments)

    return Tool(
        ToolSpec(
            "list_files",
            "List a folder: one line per entry, folders end with `/`, files show their size in bytes.",
            {
                "type": "object",
                "properties": {
                    "path": _FOLDER,
                    "glob": _GLOB,
                    "recursive": {"type": "boolean", "description": "Also what is in folders below. Default false."},
                    "hidden": _HIDDEN,
                    "max_results": {"type": "integer", "minimum": 1, "description": "Entries to return at most."},
                },
                "additionalProperties": False,
            },
            Effect.OBSERVATION,
            OBSERVER,
            (TargetParameter("path", ResourceKind.DIRECTORY, Effect.OBSERVATION, "."),),
            "builtin",
        ),
        run,
    )


def list_entries(workspace: Workspace, policy: Policy, path: str, hidden: bool, *, recursive: bool) -> list[Entry]:
    """Return what lies beneath `path`, one more than the policy's bound at most; protected folders stay closed."""

    def enter(entry: Entry) -> bool:
        return (hidden or not entry.name.startswith(".")) and not is_off_limits(entry.path, policy)

    if workspace.look(path).kind != "directory":
        raise WorkspaceError(f"`{path[:80]}` is not a folder; name one")
    found = []
    for entry in directory.walk(workspace, path, recursive=recursive, enter=enter):
        if hidden or not entry.name.startswith("."):
            found.append(entry)
        if len(found) > 20 * policy.files.max_entries:
            break
    return found


def is_match(glob: str, entry: Entry, base: str) -> bool:
    """Whether an entry matches a glob: by its name, or by its path when the glob holds a slash.

    Raises WorkspaceError for a glob that is too long or too large.
    """
    try:
        if "/" not in glob:
            return matches(glob, entry.name)
        below = entry.path if base == "." else entry.path[len(base) + 1 :]
        return matches(glob, entry.path) or matches(glob, below)
    except ValueError as error:
        raise WorkspaceError(str(error)) from None


def format_entry(entry: Entry) -> str:
    """Return one line of a listing."""
    name = strict_json.scrub(entry.path)
    shown = repr(name) if any(ord(char) < 32 for char in name) else name
    match entry.kind:
        case "directory":
            return f"{shown}/"
        case "file":
            return f"{shown}  {entry.size}"
        case _:
            return f"{shown}  ({entry.kind})"


def build_seen_record(kind: ResourceKind, path: str) -> EvidenceRecord:
    """Return the record of a thing that was listed: it is there, its content is not known."""
    return EvidenceRecord(EvidenceKind.COMMAND_OUTPUT, Resource(kind, path), trust=Trust.INFERRED)


def search_text(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that finds lines in files."""

    def look(arguments: Mapping[str, Json]) -> ToolResult:
        path = check_readable(workspace, get_text(arguments, "path", "."))
        plain, any_case = not get_bool(arguments, "regex", False), not get_bool(arguments, "case_sensitive", True)
        pattern = compile_pattern(get_text(arguments, "pattern").encode(), literal=plain, any_case=any_case)
        glob, most = get_text(arguments, "glob", ""), get_count(arguments, "max_results", policy.files.max_entries)
        lines: list[str] = []
        records: list[EvidenceRecord] = []
        left, skipped = policy.files.max_hash, 0
        for name in find_files_to_search(workspace, policy, path, glob, get_bool(arguments, "hidden", False)):
            if find_protection(name, policy) == "secret" and name != path:
                skipped += 1
                continue
            try:
                data = workspace.read(name, limit=left + 1)
            except WorkspaceError:
                skipped += 1
                continue
            left -= len(data)
            if left < 0 or b"\0" in data[:8192]:
                skipped += 1
            elif hits := list(find_lines(pattern, data, name, most - len(lines))):
                lines.extend(hits)
                whole = Resource(ResourceKind.FILE, name)
                records.append(
                    EvidenceRecord(EvidenceKind.COMMAND_OUTPUT, whole, strict_json.sha256(data), Trust.INFERRED)
                )
            if left <= 0 or len(lines) >= most:
                break
        if not lines:
            lines.append("nothing found")
        if skipped:
            lines.append(f"({skipped} files were not searched: binary, unreadable, too large, or usually secret)")
        text, dropped = cap_text("\n".join(lines), policy.files.max_output)
        return ToolResult(True, text, () if dropped else tuple(records), dropped=dropped)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        return await asyncio.to_thread(look, arguments)

    return Tool(
        ToolSpec(
            "search_text",
            "Find lines in files: `path:line: text`. The pattern is plain text unless `regex` is true (RE2 syntax).",
            {
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "minLength": 1, "description": "What to find."},
                    "regex": {"type": "boolean", "description": "Read the pattern as RE2. Default false."},
                    "case_sensitive": {"type": "boolean", "description": "Default true."},
                    "path": {**_FOLDER, "description": "File or folder to search; the workspace when left out."},
                    "glob": _GLOB,
                    "hidden": _HIDDEN,
                    "max_results": {"type": "integer", "minimum": 1, "description": "Lines to return at most."},
                },
                "required": ["pattern"],
                "additionalProperties": False,
            },
            Effect.OBSERVATION,
            OBSERVER,
            (TargetParameter("path", ResourceKind.DIRECTORY, Effect.OBSERVATION, "."),),
            "builtin",
        ),
        run,
    )


def find_files_to_search(workspace: Workspace, policy: Policy, path: str, glob: str, hidden: bool) -> list[str]:
    """Return the files to search; a glob "" fits all."""
    if workspace.look(path).kind == "file":
        return [path]
    return [
        entry.path
        for entry in list_entries(workspace, policy, path, hidden, recursive=True)
        if entry.kind == "file" and entry.is_readable and (not glob or is_match(glob, entry, path))
    ]


def compile_pattern(
    pattern: str | bytes, *, literal: bool, any_case: bool, otherwise: str = "leave `regex` out"
) -> Any:
    """Return the RE2 program, over what the pattern is of.

    Raises WorkspaceError for a pattern RE2 cannot read; `otherwise` is what to do but correct it.
    """
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not any_case
    try:
        return re2.compile(re2.escape(pattern) if literal else pattern, options)
    except re2.error as error:
        why = error.args[0]
        reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise WorkspaceError(f"the pattern is not RE2 ({reason[:120]}); correct it, or {otherwise}") from None


def find_lines(pattern: Any, data: bytes, name: str, most: int) -> list[str]:
    """Return the lines of a file the pattern is found in, at most `most`, each cut to a readable length."""
    hits: list[str] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if len(hits) >= most:
            break
        if pattern.search(line):
            hits.append(f"{name}:{number}: {line[:400].decode('utf-8', 'replace').rstrip()}")
    return hits


_PLACE = re2.compile(
    r'File "(?P<python>[^"\n]+)", line (?P<at>[0-9]{1,7})'
    r"|(?P<path>[A-Za-z0-9_./\\@+~-]*(?:\.[A-Za-z0-9_]+|Makefile|Dockerfile))(?::|\()(?P<line>[0-9]{1,7})"
)
_AROUND, _MOST = 3, 8
"""Lines shown on each side of a place, and places shown, where a call does not say."""
_MOST_NAMED = 1000
"""Places of a text that are looked up: each is a question to the file system."""
_WIDTH = 400
"""Bytes of a line that are shown."""
Place = tuple[str, int]


def analyze_error(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that shows what an error text points to."""

    def look(arguments: Mapping[str, Json]) -> ToolResult:
        base = check_readable(workspace, get_text(arguments, "path", "."))
        around, most = get_count(arguments, "context_lines", _AROUND), get_count(arguments, "max_results", _MOST)
        shown: list[str] = []
        records: dict[str, EvidenceRecord] = {}
        for path, number in islice(find_places(workspace, policy, base, get_text(arguments, "text")), most):
            data = workspace.read(path, limit=policy.files.max_hash + 1)
            shown.append(f"{path}:{number}\n{render_excerpt(data, number, around)}")
            hash_ = strict_json.sha256(data) if len(data) <= policy.files.max_hash else ""
            resource = Resource(ResourceKind.FILE, path)
            records[path] = EvidenceRecord(EvidenceKind.COMMAND_OUTPUT, resource, hash_, Trust.INFERRED)
        if not shown:
            return ToolResult(True, "the text names no line of a file that can be read here")
        text, dropped = cap_text("\n\n".join(shown), policy.files.max_output)
        return ToolResult(True, text, () if dropped else tuple(records.values()), dropped=dropped)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        return await asyncio.to_thread(look, arguments)

    return Tool(
        ToolSpec(
            "analyze_error",
            "Find the places (`file:line`) an error message or a traceback names and show the lines around them.",
            {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1, "description": "The error as it was printed."},
                    "path": {
                        "type": "string",
                        "minLength": 1,
                        "description": "Folder its paths start from, relative to the workspace; default the workspace.",
                    },
                    "context_lines": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": 50,
                        "description": f"Lines to show on each side of a place. Default {_AROUND}.",
                    },
                    "max_results": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 100,
                        "description": f"Places to show at most. Default {_MOST}.",
                    },
                },
                "required": ["text"],
                "additionalProperties": False,
            },
            Effect.OBSERVATION,
            OBSERVER,
            (TargetParameter("path", ResourceKind.DIRECTORY, Effect.OBSERVATION, "."),),
            "builtin",
        ),
        run,
    )


def find_places(workspace: Workspace, policy: Policy, base: str, text: str) -> Iterator[Place]:
    """Yield the places a text names, once each: regular files beneath `base` that do not usually hold secrets."""
    seen: set[Place] = set()
    named = ((match["python"] or match["path"], int(match["at"] or match["line"])) for match in _PLACE.finditer(text))
    for name, number in islice(drop_repeated(named), _MOST_NAMED):
        path = resolve_file(workspace, base, name)
        if path and (path, number) not in seen and number > 0 and not find_protection(path, policy):
            seen.add((path, number))
            yield path, number


def drop_repeated(places: Iterable[Place]) -> Iterator[Place]:
    """Yield each place the first time it comes."""
    seen: set[Place] = set()
    for place in places:
        if place not in seen:
            seen.add(place)
            yield place


def resolve_file(workspace: Workspace, base: str, name: str) -> str:
    """Return the canonical path of a file beneath `base` that a text names, "" for anything else."""
    slashed = name.replace("\\", "/")
    try:
        path = workspace.resolve(slashed if slashed.startswith("/") or base == "." else f"{base}/{slashed}")
        beneath = base == "." or path.startswith(f"{base}/")
        return path if beneath and workspace.look(path).kind == "file" else ""
    except WorkspaceError:
        return ""


def render_excerpt(data: bytes, number: int, around: int) -> str:
    """Return the lines around a line, numbered, with a mark at that line."""
    lines = data.split(b"\n")
    if number > len(lines):
        return f"(the file has only {len(lines)} lines; it has changed since, or the text is of another one)"
    first = max(1, number - around)
    chosen = lines[first - 1 : number + around]
    return "\n".join(
        f"{'>' if at == number else ' '} {at}: {line[:_WIDTH].decode('utf-8', 'replace').rstrip()}"
        for at, line in enumerate(chosen, start=first)
    )
