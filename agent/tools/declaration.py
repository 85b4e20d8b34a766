"""How a built-in tool is declared, in few words: its specification, the usual capabilities, arguments and records."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from foregate.agent.tools.tool import Arguments, Run, Tool
from foregate.schemas.strict_json import Json, get_int
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, ToolResult, Trust
from foregate.schemas.tool_spec import OBSERVER, Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

WRITER = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
MAKER = Capabilities(external_side_effect=False, needs_approval=False, idempotent=True, reversible=True)
SENDER = Capabilities(needs_approval=False)
PUBLISHER = Capabilities(high_impact_write=True)
GRACE = 15
"""Seconds beyond the policy's own limit before the executor gives up on a tool."""


def describe_text(description: str) -> dict[str, Json]:
    return {"type": "string", "minLength": 1, "description": description}


def describe_count(description: str, minimum: int = 1, **more: Json) -> dict[str, Json]:
    """Return the schema of an integer that is not below `minimum`."""
    return {"type": "integer", "minimum": minimum, **more, "description": description}


def describe_flag(description: str) -> dict[str, Json]:
    return {"type": "boolean", "description": description}


def describe_paths(things: str) -> dict[str, Json]:
    """Return the schema of a list of paths; `things` is what they lead to."""
    said = f"{things}, relative to the workspace; taken as they are, not as patterns."
    return {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "description": said}


PATH = describe_text("Path relative to the workspace.")


def build_tool(
    name: str,
    description: str,
    properties: Mapping[str, Json],
    required: Sequence[str] | None,
    targets: Sequence[TargetParameter],
    run: Run | Callable[[Arguments], ToolResult],
    effect: Effect = Effect.OBSERVATION,
    capabilities: Capabilities = OBSERVER,
    *,
    timeout: int = 120,
    **more: Any,
) -> Tool:
    """Return a built-in tool; a `run` that is no coroutine runs in a thread. `more` are fields of Tool."""
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if required is not None:
        schema["required"] = list(required)
    schema["additionalProperties"] = False
    spec = ToolSpec(name, description, schema, effect, capabilities, tuple(targets), "builtin", timeout)

    async def run_in_thread(arguments: Arguments) -> ToolResult:
        return await asyncio.to_thread(cast(Callable[[Arguments], ToolResult], run), arguments)

    return Tool(spec, run if inspect.iscoroutinefunction(run) else run_in_thread, **more)


def get_count(arguments: Arguments, key: str, default: int | None = None) -> int:
    """Return an integer argument, `default` where it is missing; to JSON Schema 5.0 is an integer as well."""
    value = arguments.get(key)
    return int(value) if isinstance(value, float) and value.is_integer() else get_int(arguments, key, default)


def build_seen_record(kind: ResourceKind, path: str, hash: str = "") -> EvidenceRecord:  # noqa: A002
    """Return the record of a thing that was listed or shown in part: it is there, but its content is not known."""
    return EvidenceRecord(EvidenceKind.COMMAND_OUTPUT, Resource(kind, path), hash, Trust.INFERRED)


def build_change_record(resource: Resource, hash: str) -> EvidenceRecord:  # noqa: A002
    """Return the record of what was read back after a change of the agent's own."""
    return EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, resource, hash, own_change=True)
