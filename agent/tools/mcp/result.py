"""What a server answers to a call, as the one text that a model is told and that values are found in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from mcp import types

from foregate.agent.tools.tool import cap_text
from foregate.evidence.records import is_prose
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, ToolResult

_BETWEEN = "(the structured content)"
"""A line that continues no JSON, YAML or table."""


def build_result(answer: types.CallToolResult, most: int) -> ToolResult:
    """Return the result of a call that was answered; at most about `most` bytes of text are kept."""
    text = strict_json.scrub(render_answer(answer)) or "(the tool answered without any content)"
    text, dropped = cap_text(text, most)
    failed = answer.is_error
    return ToolResult(not failed, text, origin=Origin.EXTERNAL, error="tool_error" if failed else "", dropped=dropped)


def render_answer(answer: types.CallToolResult) -> str:
    """Return the blocks of an answer and its structured content as one text.

    Where one block says the structure, or a text that the structure only wraps, the text is that block. Where each
    block says a part of the structure that is no prose, or no block exists, the text is the structure as JSON. Where a
    block says anything else it is both, and has no record by the line between them: nothing is found where they differ.
    """
    parts, structure = [render_block(block) for block in answer.content], answer.structured_content
    if structure is None:
        return "\n".join(parts)
    said = _write_forms(structure)
    if len(parts) == 1 and (_says(parts[0], said) or _is_wrapped(parts[0], structure)):
        return parts[0]
    whole = json.dumps(structure, ensure_ascii=False)
    known = said.union(*map(_write_forms, _list_parts(structure)))
    if all(isinstance(block, types.TextContent) and _says(block.text, known) for block in answer.content):
        return whole
    return "\n".join([*(part for part in parts if not _says(part, said)), _BETWEEN, whole])


def _is_wrapped(text: str, structure: Json) -> bool:
    """Whether a structure is a text or another value and a name: `result`, or for prose any name."""
    if not isinstance(structure, dict) or len(structure) != 1:
        return False
    ((name, value),) = structure.items()
    return _says(text, _write_forms(value)) if name == "result" else value == text and is_prose(text)


def render_block(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"({block.type}, {block.mime_type[:80]}, {count_bytes(block.data)} bytes, not shown)"
        case types.ResourceLink():
            kind = f", {block.mime_type[:80]}" if block.mime_type else ""
            size = f", {block.size} bytes" if block.size is not None else ""
            return f"(a link to {block.uri}: {block.name}{kind}{size})"
        case types.EmbeddedResource(resource=types.TextResourceContents() as inner):
            return f"({inner.uri})\n{inner.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            return f"({blob.uri}, {blob.mime_type or 'bytes'}, {count_bytes(blob.blob)} bytes, not shown)"
    return "(content of a kind that is not known here)"


def count_bytes(data: str) -> int:
    """Return how many bytes a text in base64 stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _list_parts(structure: Json) -> Iterator[Json]:
    """Yield the values in a structure, and the items of those that are lists; prose is better left unchanged."""
    values = structure.values() if isinstance(structure, dict) else structure if isinstance(structure, list) else ()
    for value in values:
        for part in (value, *value) if isinstance(value, list) else (value,):
            if not (isinstance(part, str) and is_prose(part)):
                yield part


def _write_forms(value: Json) -> set[str]:
    """Return how a block says a value: a text itself, and anything as JSON."""
    forms = {value} if isinstance(value, str) else set()
    with suppress(InvalidJson, TypeError):
        forms.add(strict_json.canonical(value).decode())
    return forms


def _says(text: str, forms: set[str]) -> bool:
    if text in forms:
        return True
    try:
        return strict_json.canonical(strict_json.parse(text)).decode() in forms
    except InvalidJson:
        return False
