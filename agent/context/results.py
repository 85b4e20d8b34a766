"""Results as text for a model, by what kind of thing the tool works on."""

from __future__ import annotations

import json
from collections.abc import Sequence

from foregate.agent.context.cut import cut
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.resource import ResourceKind
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_result import ToolResult
from foregate.schemas.tool_spec import ToolSpec


def result_text(spec: ToolSpec, target: str, result: ToolResult, limit: int, *, written: int | None = None) -> str:
    """Return a heading that says what came of a call to `target`, and below it at most `limit` characters of content.

    `written` is the number of bytes a change left behind, where that is known; `limit` 0 cuts nothing.
    """
    shown = data_text(result.content)
    text, _ = cut(shown, limit) if limit else (shown, 0)
    heading = " ".join([heading_of(spec, target, result), *more_of(result, written)])
    return f"{heading}\n{text}" if text.strip() else heading


def heading_of(spec: ToolSpec, target: str, result: ToolResult) -> str:
    """Return the kind of result, what it is about, and how it ended."""
    named = f"`{target}`" if target else f"`{spec.name}`"
    kinds = {parameter.kind for parameter in spec.targets}
    if ResourceKind.PROCESS in kinds:
        return f"command {named}: {ended(result)}"
    failed = "" if result.ok else f": failed ({result.error or 'no reason given'})"
    if ResourceKind.REPOSITORY in kinds:
        return f"git {spec.name.removeprefix('git_')} in {named}{failed}"
    if ResourceKind.URL in kinds:
        return f"HTTP {named}{failed}"
    if kinds & {ResourceKind.FILE, ResourceKind.DIRECTORY}:
        return f"{'changed' if result.changes else 'content of'} {named}{failed}"
    return f"{spec.name} {named}{failed}" if target else f"{named}{failed}"


def ended(result: ToolResult) -> str:
    """Return how a command ended; what it wrote to output and errors stands together below."""
    if result.exit_code is not None:
        return f"exit code {result.exit_code}"
    return "done" if result.ok else f"did not end by itself ({result.error or 'no reason given'})"


def more_of(result: ToolResult, written: int | None) -> list[str]:
    """Return what else a heading says: bytes written, bytes the tool itself left out, and doubt."""
    found = [f"({written} bytes written)"] if written is not None else []
    if result.dropped:
        found.append(f"({result.dropped} bytes were left out by the tool)")
    if result.unknown:
        found.append("(it is not known whether it took effect)")
    return found


def data_text(content: str) -> str:
    """Return JSON that holds an object or a list with two spaces of indentation, any other text as it is."""
    if content[:1] not in ("{", "["):
        return content
    try:
        value = strict_json.parse(content)
    except InvalidJson:
        return content
    return indented(value)


def indented(value: Json) -> str:
    """Return a value as JSON a person can read."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def errors_text(errors: Sequence[str]) -> str:
    """Return several errors as one text, numbered where there are more than one; repeated ones once."""
    found = list(dict.fromkeys(error.strip() for error in errors if error.strip()))
    if len(found) < 2:
        return "".join(found)
    return "\n".join(f"{number}. {error}" for number, error in enumerate(found, start=1))
