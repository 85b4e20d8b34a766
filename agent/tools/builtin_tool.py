"""What built-in tools share: how one is declared, and when what it printed of a file counts as read."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from foregate.agent.tools.tool import Arguments, Run, Tool
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, get_int
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, ToolResult, Trust
from foregate.schemas.tool_spec import OBSERVER, Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

WRITER = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
MAKER = Capabilities(external_side_effect=False, needs_approval=False, idempotent=True, reversible=True)
SENDER = Capabilities(needs_approval=False)
PUBLISHER = Capabilities(high_impact_write=True)
GRACE = 15
"""Seconds beyond the policy's own limit before the executor gives up on a tool."""
# "     1\t", "12:".
_NUMBER = compile_late(rb" *\d+[\t:]| +\Z")
"""The number of a line, as `cat -n`, `nl` and `grep -n` write it; nl has only blanks for a line without one."""


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


def build_read_records(
    workspace: Workspace, policy: Policy, named: str, path: str, data: bytes, *, whole: bool
) -> list[EvidenceRecord]:
    """Return the records of a file whose content was shown, in part unless `whole`; a link it was named by counts too.

    `data` is all of its content, or more than the policy's `max_hash` of it.
    """
    content = strict_json.sha256(data) if len(data) <= policy.files.max_hash else ""
    trust = Trust.DIRECT if whole else Trust.INFERRED
    records = [EvidenceRecord(EvidenceKind.FILE_READ, Resource(ResourceKind.FILE, path), content, trust)]
    if (link := workspace.resolve(named, follow=False)) != path:
        seen = Resource(ResourceKind.FILE, link)
        records.append(EvidenceRecord(EvidenceKind.FILE_READ, seen, workspace.look(link).hash))
    return records


def find_printed(output: bytes, contents: Mapping[str, bytes]) -> dict[str, bool]:
    """Return which of these files an output shows, and whether it shows the whole of it.

    >>> find_printed(b"one\\ntwo\\n", {"a": b"one\\ntwo\\n", "b": b"one\\ntwo\\nthree\\n", "c": b"four\\n"})
    {'a': True, 'b': False}
    """
    if b"".join(contents.values()) == output:
        return dict.fromkeys(contents, True)
    shown = [output, *_strip_numbers(output)]
    found: dict[str, bool] = {}
    for path, data in contents.items():
        if any(has_lines(text, data) for text in shown):
            found[path] = True
        elif any(has_lines(data, text) for text in shown):
            found[path] = False
    return found


def has_lines(text: bytes, lines: bytes) -> bool:
    """Whether whole lines stand in a text, one behind the other; lines without a word stand nowhere."""
    if not lines.strip():
        return False
    around = b"\n" + text + (b"" if text.endswith(b"\n") else b"\n")
    wanted = b"\n" + lines + (b"" if lines.endswith(b"\n") else b"\n")
    # a last line that ends is not shown by one that does not
    return wanted in around and (not lines.endswith(b"\n") or lines in text)


def _strip_numbers(output: bytes) -> Iterator[bytes]:
    """Yield an output without the numbers of its lines, where all have one."""
    lines = output.split(b"\n")
    last = lines.pop() if not lines[-1] else None
    if lines and all(map(_NUMBER.match, lines)):
        bare = [_NUMBER.sub(b"", line, count=1) for line in lines]
        yield b"\n".join(bare if last is None else [*bare, b""])


def build_printed_records(
    workspace: Workspace, policy: Policy, output: bytes, named: Mapping[str, str]
) -> list[EvidenceRecord]:
    """Return the records of the files whose content stands in an output; `named` maps each path to how it was named."""
    shown = [path for path in named if output.strip() or not workspace.look(path).size]
    contents = {path: workspace.read(path, limit=policy.files.max_hash + 1) for path in shown}
    records: list[EvidenceRecord] = []
    for path, whole in find_printed(output, contents).items():
        records += build_read_records(workspace, policy, named[path], path, contents[path], whole=whole)
    return records
