"""The tool that reads an error text and shows the places in files it names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import re2

from foregate.agent.tools.arguments import get_count
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.confine import check_readable
from foregate.agent.workspace.output import cap_text
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, ToolResult, Trust
from foregate.schemas.tool_spec import OBSERVER, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

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
