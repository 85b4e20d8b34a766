"""Tools for tests of dialects: the built-in ones, one of a server, and some with arguments of every type."""

from __future__ import annotations

from pathlib import Path

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import ToolSpec

BUILTIN = [
    tool.spec
    for tool in builtin_tools(MemoryWorkspace({}), default_policy(), memory=Path("memory"))  # type: ignore[arg-type]
]
TEXT = {"type": "string"}
LIST = {"type": "array", "items": TEXT}


def spec(name: str, properties: dict[str, object], *required: str) -> ToolSpec:
    """Return the specification of a tool."""
    return ToolSpec(name, "A tool.", {"type": "object", "properties": properties, "required": list(required)})


TYPES = spec(
    "types",
    {
        "text": TEXT,
        "content": TEXT,
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": LIST,
        "map": {"type": "object", "additionalProperties": TEXT},
        "kind": {"enum": ["one", "two"]},
        "perhaps": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "deep": {"$ref": "#/$defs/deep"},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "text",
)
TYPES.parameters["$defs"] = {  # type: ignore[index]
    "deep": {"type": "object", "properties": {"inner": LIST}},
    "tree": {"type": "object", "properties": {"tree": {"$ref": "#/$defs/tree"}}},
}
SERVER = spec("web.search", {"query": TEXT, "count": {"type": "integer"}}, "query")
STEP = spec("tool_b", {"input": TEXT}, "input")
TOOLS = [*BUILTIN, TYPES, SERVER, STEP]
