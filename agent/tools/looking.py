"""Tools that look at the workspace: list folders, search files, show the places an error names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import re2

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.tool import Arguments, Tool, cap_text
from foregate.agent.workspace import directory
from foregate.agent.workspace.directory import DirectoryEntry
from foregate.agent.workspace.workspace import Workspace, check_readable
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection, is_off_limits, matches
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import get_bool, get_text
from foregate.schemas.tool_call import EvidenceRecord, ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind, TargetParameter
from foregate.telemetry.log.temporary_file import is_temporary

_GLOB = builtin_tool.describe_text(
    "Glob such as `*.py` (compared with the name) or `src/**/*.py` (compared with the whole path)."
)
_HIDDEN = builtin_tool.describe_flag("Also what begins with a dot. Default false.")
_WITHIN = TargetParameter("path", ResourceKind.DIRECTORY, Effect.OBSERVATION, ".")
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


def list_files(workspace: Workspace, policy: Policy) -> Tool:
    def run(arguments: Arguments) -> ToolResult:
        path, glob = check_readable(workspace, get_text(arguments, "path", ".")), get_text(arguments, "glob", "")
        hidden, recursive = get_bool(arguments, "hidden", False), get_bool(arguments, "recursive", False)
        most = min(builtin_tool.get_count(arguments, "max_results", policy.files.max_entries), policy.files.max_entries)
        found = list_entries(workspace, policy, path, hidden, recursive=recursive)
        entries = (entry for entry in found if is_match(glob, entry, path))
        listed = list(islice(entries, most))
        lines = [*map(format_entry, listed), "" if listed else "nothing here"]
        if next(entries, None) is not None:
            lines.append(f"there is more: only {most} entries are listed; name a folder or a glob")
        text, dropped = cap_text("\n".join(lines), policy.files.max_output)
        records = [builtin_tool.build_seen_record(ResourceKind.DIRECTORY, path)]
        for entry in listed if not dropped else ():
            if entry.is_readable:
                kind = ResourceKind.DIRECTORY if entry.kind == "directory" else ResourceKind.FILE
                records.append(builtin_tool.build_seen_record(kind, entry.path))
        return ToolResult(True, text, tuple(records), dropped=dropped)

    return builtin_tool.build_tool(
        "list_files",
        "List a folder: one line per entry, folders end with `/`, files show their size in bytes.",
        {
            "path": builtin_tool.describe_text("Folder relative to the workspace; the workspace itself when left out."),
            "glob": _GLOB,
            "recursive": builtin_tool.describe_flag("Also what is in folders below. Default false."),
            "hidden": _HIDDEN,
            "max_results": builtin_tool.describe_count("Entries to return at most."),
        },
        None,
        [_WITHIN],
        run,
    )


def list_entries(
    workspace: Workspace, policy: Policy, path: str, hidden: bool, *, recursive: bool
) -> list[DirectoryEntry]:
    """Return what lies beneath `path`, one more than the policy's bound at most; protected folders stay closed."""

    def is_shown(entry: DirectoryEntry) -> bool:
        return not entry.name.startswith(".") or (hidden and not is_temporary(entry.name))

    def enter(entry: DirectoryEntry) -> bool:
        return is_shown(entry) and not is_off_limits(entry.path, policy)

    if workspace.look(path).kind != "directory":
        raise WorkspaceError(f"`{path[:80]}` is not a folder; name one")
    walked = directory.walk(workspace, path, recursive=recursive, enter=enter)
    return list(islice(filter(is_shown, walked), 20 * policy.files.max_entries + 1))


def is_match(glob: str, entry: DirectoryEntry, base: str) -> bool:
    """Whether an entry matches a glob: by its name, or by its path when the glob holds a slash; "" matches all."""
    try:
        if "/" not in glob:
            return not glob or matches(glob, entry.name)
        below = entry.path if base == "." else entry.path[len(base) + 1 :]
        return matches(glob, entry.path) or matches(glob, below)
    except ValueError as error:
        raise WorkspaceError(str(error)) from None


def format_entry(entry: DirectoryEntry) -> str:
    name = strict_json.scrub(entry.path)
    shown = repr(name) if any(ord(char) < 32 for char in name) else name
    endings = {"directory": "/", "file": f"  {entry.size}"}
    return shown + endings.get(entry.kind, f"  ({entry.kind})")


def search_text(workspace: Workspace, policy: Policy) -> Tool:
    def run(arguments: Arguments) -> ToolResult:
        path = check_readable(workspace, get_text(arguments, "path", "."))
        plain, any_case = not get_bool(arguments, "regex", False), not get_bool(arguments, "case_sensitive", True)
        pattern = compile_pattern(get_text(arguments, "pattern").encode(), literal=plain, any_case=any_case)
        glob, most = (
            get_text(arguments, "glob", ""),
            builtin_tool.get_count(arguments, "max_results", policy.files.max_entries),
        )
        lines: list[str] = []
        records: list[EvidenceRecord] = []
        left, skipped = policy.files.max_hash, 0
        for name in find_files_to_search(workspace, policy, path, glob, get_bool(arguments, "hidden", False)):
            data = None
            if name == path or find_protection(name, policy) != "secret":
                with suppress(WorkspaceError):
                    data = workspace.read(name, limit=left + 1)
            left -= len(data or b"")
            if data is None or left < 0 or b"\0" in data[:8192]:
                skipped += 1
            elif hits := list(islice(find_lines(pattern, data, name), most - len(lines))):
                lines += hits
                records.append(builtin_tool.build_seen_record(ResourceKind.FILE, name, strict_json.sha256(data)))
            if left <= 0 or len(lines) >= most:
                break
        if not lines:
            lines.append("nothing found")
        if skipped:
            lines.append(f"({skipped} files were not searched: binary, unreadable, too large, or usually secret)")
        text, dropped = cap_text("\n".join(lines), policy.files.max_output)
        return ToolResult(True, text, () if dropped else tuple(records), dropped=dropped)

    return builtin_tool.build_tool(
        "search_text",
        "Find lines in files: `path:line: text`. The pattern is plain text unless `regex` is true (RE2 syntax).",
        {
            "pattern": builtin_tool.describe_text("What to find."),
            "regex": builtin_tool.describe_flag("Read the pattern as RE2. Default false."),
            "case_sensitive": builtin_tool.describe_flag("Default true."),
            "path": builtin_tool.describe_text("File or folder to search; the workspace when left out."),
            "glob": _GLOB,
            "hidden": _HIDDEN,
            "max_results": builtin_tool.describe_count("Lines to return at most."),
        },
        ["pattern"],
        [_WITHIN],
        run,
    )


def find_files_to_search(workspace: Workspace, policy: Policy, path: str, glob: str, hidden: bool) -> list[str]:
    if workspace.look(path).kind == "file":
        return [path]
    return [
        entry.path
        for entry in list_entries(workspace, policy, path, hidden, recursive=True)
        if entry.kind == "file" and entry.is_readable and is_match(glob, entry, path)
    ]


def compile_pattern(
    pattern: str | bytes, *, literal: bool, any_case: bool, otherwise: str = "leave `regex` out"
) -> Any:
    """Return the RE2 program; raise WorkspaceError for what is none. `otherwise` is what to do but correct it."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not any_case
    try:
        return re2.compile(re2.escape(pattern) if literal else pattern, options)
    except re2.error as error:
        why = error.args[0]
        reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise WorkspaceError(f"the pattern is not RE2 ({reason[:120]}); correct it, or {otherwise}") from None


def find_lines(pattern: Any, data: bytes, name: str) -> Iterator[str]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if pattern.search(line):
            yield f"{name}:{number}: {render_line(line)}"


def render_line(line: bytes) -> str:
    return line[:_WIDTH].decode("utf-8", "replace").rstrip()


def analyze_error(workspace: Workspace, policy: Policy) -> Tool:
    def run(arguments: Arguments) -> ToolResult:
        base = check_readable(workspace, get_text(arguments, "path", "."))
        around, most = (
            builtin_tool.get_count(arguments, "context_lines", _AROUND),
            builtin_tool.get_count(arguments, "max_results", _MOST),
        )
        shown: list[str] = []
        records: dict[str, EvidenceRecord] = {}
        for path, number in islice(find_places(workspace, policy, base, get_text(arguments, "text")), most):
            data = workspace.read(path, limit=policy.files.max_hash + 1)
            shown.append(f"{path}:{number}\n{render_excerpt(data, number, around)}")
            content = strict_json.sha256(data) if len(data) <= policy.files.max_hash else ""
            records[path] = builtin_tool.build_seen_record(ResourceKind.FILE, path, content)
        if not shown:
            return ToolResult(True, "the text names no line of a file that can be read here")
        text, dropped = cap_text("\n\n".join(shown), policy.files.max_output)
        return ToolResult(True, text, () if dropped else tuple(records.values()), dropped=dropped)

    return builtin_tool.build_tool(
        "analyze_error",
        "Find the places (`file:line`) an error message or a traceback names and show the lines around them.",
        {
            "text": builtin_tool.describe_text("The error as it was printed."),
            "path": builtin_tool.describe_text(
                "Folder its paths start from, relative to the workspace; default the workspace."
            ),
            "context_lines": builtin_tool.describe_count(
                f"Lines to show on each side of a place. Default {_AROUND}.", 0, maximum=50
            ),
            "max_results": builtin_tool.describe_count(f"Places to show at most. Default {_MOST}.", maximum=100),
        },
        ["text"],
        [_WITHIN],
        run,
    )


def find_places(workspace: Workspace, policy: Policy, base: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield the places a text names, once each: regular files beneath `base` that do not usually hold secrets."""
    seen: set[tuple[str, int]] = set()
    looked: set[tuple[str, int]] = set()
    named = ((match["python"] or match["path"], int(match["at"] or match["line"])) for match in _PLACE.finditer(text))
    for name, number in named:
        if (name, number) in looked:
            continue
        if len(looked) == _MOST_NAMED:
            return
        looked.add((name, number))
        path = resolve_file(workspace, base, name)
        if path and (path, number) not in seen and number > 0 and not find_protection(path, policy):
            seen.add((path, number))
            yield path, number


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
    chosen = enumerate(lines[first - 1 : number + around], start=first)
    return "\n".join(f"{'>' if at == number else ' '} {at}: {render_line(line)}" for at, line in chosen)
