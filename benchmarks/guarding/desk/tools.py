"""The tools of the desk, made of the table `tools.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from foregate.agent.tools.tool import Tool
from foregate.policy.source.strict_yaml import parse_yaml
from foregate.schemas.tool_call import Origin, ToolResult
from foregate.schemas.tool_spec import OBSERVER, Capabilities, Effect, ResourceKind, TargetParameter, ToolSpec

_TYPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "flag": {"type": "boolean", "default": False},
    "texts": {"type": "array", "items": {"type": "string"}},
}
_CHANGES = frozenset(["effect", "external", "high_impact"])
Answer = Callable[[str, Mapping[str, Any]], str]
"""What a tool returns for its arguments."""


@cache
def list_specs() -> tuple[ToolSpec, ...]:
    """Return the declarations of all tools of the desk."""
    table, _ = parse_yaml(Path(__file__).with_name("tools.yaml").read_text("utf-8"), "tools.yaml")
    return tuple(build_spec(name, row) for name, row in table.items())


def build_spec(name: str, row: Mapping[str, Any]) -> ToolSpec:
    """Return the declaration that a row of the table says."""
    properties = {
        parameter: dict(_TYPES[kind]) if isinstance(kind, str) else {"enum": [*kind], "default": kind[0]}
        for parameter, kind in row["params"].items()
    }
    effect = Effect(row.get("effect", "observation"))
    able = OBSERVER
    if not _CHANGES.isdisjoint(row):
        able = Capabilities(
            external_side_effect=row["external"],
            needs_approval=False,
            reversible=False,
            high_impact_write=row.get("high_impact", False),
        )
    targets = tuple(
        TargetParameter(parameter, ResourceKind(kind), effect) for parameter, kind in row.get("targets", {}).items()
    )
    own = row.get("own", ())
    return ToolSpec(
        name,
        name.replace("_", " "),
        {"type": "object", "properties": properties},
        effect,
        able,
        targets,
        amounts=tuple(row.get("amounts", ())),
        texts=tuple(row.get("texts", ())),
        own=own if own == "all" else tuple(own),
        destination=row.get("destination", ""),
    )


def build_tools(answer: Answer) -> tuple[Tool, ...]:
    """Return the tools of the desk over what they return."""
    return tuple(build_tool(spec, answer) for spec in list_specs())


def build_tool(spec: ToolSpec, answer: Answer) -> Tool:
    """Return one tool; its results are from outside, and what it returns as `error: …` is one."""

    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        text = answer(spec.name, arguments)
        failed = text.startswith("error:")
        return ToolResult(not failed, text, origin=Origin.EXTERNAL, error=text if failed else "")

    return Tool(spec, run)
