"""Results as text for a model, by what kind of thing the tool works on."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec.structs import replace

from foregate.evidence.state.truncate import truncate_text
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.thoughts import split_thoughts
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import ResourceKind, ToolSpec

_BROKEN_OFF = ("timeout", "cancelled")


def format_result(spec: ToolSpec, target: str, result: ToolResult, limit: int) -> str:
    """Return the result of a call as a heading, and below it at most `limit` characters of content; 0 cuts nothing."""
    heading, content = build_heading(spec, target, result)
    shown = format_data(content)
    text, _ = truncate_text(shown, limit) if limit else (shown, 0)
    heading += f" ({result.dropped} bytes were left out by the tool)" if result.dropped else ""
    heading += " (it is not known whether it took effect)" if result.unknown else ""
    return f"{heading}\n{text}" if text.strip() else heading


def build_result(body: ToolFinished) -> ToolResult:
    """Return the result a `tool_finished` event tells of."""
    return ToolResult(
        body.ok, body.content, changes=body.changes, error=body.error, dropped=body.dropped, exit_code=body.exit_code
    )


def build_heading(spec: ToolSpec, target: str, result: ToolResult) -> tuple[str, str]:
    """Return the kind of result, what it is about and how it ended, and the content without what that says already."""
    named = f"`{target}`" if target else f"`{spec.name}`"
    kinds = {parameter.kind for parameter in spec.targets}
    failed = "" if result.ok else f": failed ({result.error or 'no reason given'})"
    content = result.content
    if ResourceKind.PROCESS in kinds:
        ended = describe_end(result)
        return f"command {named}: {ended}", content.removesuffix(ended).rstrip("\n") if not result.ok else content
    if ResourceKind.REPOSITORY in kinds:
        return f"git {spec.name.removeprefix('git_')} in {named}{failed}", content
    if ResourceKind.URL in kinds:
        status, _, rest = content.partition("\n")
        return (f"{status} from {named}", rest) if status.startswith("HTTP ") else (f"HTTP {named}{failed}", content)
    if result.changes:
        return f"changed {named}{failed}", content
    if ResourceKind.FILE in kinds:
        return f"{'content of' if not spec.effect.changes else spec.name} {named}{failed}", content
    return (f"{spec.name} in {named}{failed}" if target else f"{named}{failed}"), content


def describe_end(result: ToolResult) -> str:
    """Return how a command ended; what it wrote to output and errors stands together below, in the order it came."""
    code = result.exit_code
    if code is not None:
        return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    if result.error in _BROKEN_OFF:
        return f"did not end by itself ({result.error})"
    return "done" if result.ok else f"failed ({result.error or 'no reason given'})"


def format_data(content: str) -> str:
    """Return JSON that holds an object or a list with two spaces of indentation, any other text unchanged."""
    if content[:1] not in ("{", "["):
        return content
    try:
        value = strict_json.parse(content)
    except InvalidJson:
        return content
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def format_errors(errors: Sequence[str]) -> str:
    """Return several errors as one text, numbered where there are more than one; repeated ones once."""
    found = list(dict.fromkeys(error.strip() for error in errors if error.strip()))
    if len(found) < 2:
        return "".join(found)
    return "\n".join(f"{number}. {error}" for number, error in enumerate(found, start=1))


def strip_thoughts(response: ModelResponse) -> ModelResponse:
    """Return a response whose text begins with what it says, and not with what it thought."""
    thoughts, text = split_thoughts(response.text)
    if not thoughts:
        return response
    return replace(response, text=text, reasoning=f"{response.reasoning}\n{thoughts}".strip())
