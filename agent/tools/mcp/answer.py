"""What a server answered to a call, as a result: text from outside, bounded, with sizes for what is no text."""

from __future__ import annotations

import json

from mcp import types

from foregate.agent.workspace.output import cap_text
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, ToolResult


def build_result(answer: types.CallToolResult, most: int) -> ToolResult:
    """Return the result of a call that was answered; at most about `most` bytes of text are kept."""
    parts = [render_block(block) for block in answer.content]
    if answer.structured_content is not None and not any(is_json_of(part, answer.structured_content) for part in parts):
        parts.append(json.dumps(answer.structured_content, ensure_ascii=False))
    text, dropped = cap_text(strict_json.scrub("\n".join(parts)) or "(the tool answered without any content)", most)
    failed = answer.is_error
    return ToolResult(not failed, text, origin=Origin.EXTERNAL, error="tool_error" if failed else "", dropped=dropped)


def render_block(block: types.ContentBlock) -> str:
    """Return one block of an answer as text."""
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


def is_json_of(text: str, value: Json) -> bool:
    """Whether a text is nothing but that value as JSON, as servers send it for clients that know no structure."""
    try:
        return bool(strict_json.canonical(strict_json.parse(text)) == strict_json.canonical(value))
    except (InvalidJson, TypeError):
        return False
