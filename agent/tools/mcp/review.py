"""What a person is asked before the tools of a server are offered: once per server, all of it on one sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foregate.agent.tools.mcp.definition import Definition, render_definition
from foregate.agent.tools.mcp.pins import Pin, get_pin_state
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.schemas.judgement import Need
from foregate.schemas.strict_json import Json
from foregate.schemas.visible import make_visible

GATE = "tools"
"""Who asks: no gate of the prelude, for nothing is judged yet."""
_NAMES = 8


def build_review(server: ServerConfiguration, definitions: Sequence[Definition], pins: Mapping[str, Pin]) -> Need:
    """Return the question whether the tools that are new or changed may be offered as they are now."""
    tools = [describe_tool(definition, pins) for definition in definitions]
    asked = [definition.hash for definition in definitions if get_pin_state(definition, pins) in ("new", "changed")]
    request = {
        "question": f"May the model be offered these tools of the MCP server `{server.name}`?",
        "server": server.name,
        "launch": server.launch_line,
        "tools": tools,
    }
    return Need(GATE, "person", server.name, (), tuple(asked), request, "tools_not_pinned")


def describe_tool(definition: Definition, pins: Mapping[str, Pin]) -> Json:
    """Return a tool for the sheet: how it stands to its pin, what its server claims, and all it says."""
    state = get_pin_state(definition, pins)
    pin = pins.get(definition.name)
    lines = definition.description.strip().splitlines()
    return {
        "tool": definition.full_name,
        "state": state,
        "claims": describe_claims(definition.hints),
        "first_line": lines[0] if lines else "",
        "before": render_definition(pin.definition, pin.launch) if pin is not None and state == "changed" else "",
        "after": render_definition(definition.content, definition.launch) if state in ("new", "changed") else "",
        "problem": definition.problem,
    }


def describe_unlisted(server: str, definitions: Sequence[Definition], pins: Mapping[str, Pin]) -> list[Json]:
    """Return the tools that are pinned and that their server lists no more, as `describe_tool` does."""
    listed = {definition.name for definition in definitions}
    bare = {"claims": "", "first_line": "", "before": "", "after": "", "problem": "its server no longer lists it"}
    return [{"tool": f"{server}.{tool}", "state": "gone", **bare} for tool in pins if tool not in listed]


def describe_claims(hints: Mapping[str, bool]) -> str:
    """Return what a server says of a tool's nature, as its claim."""
    words = {
        "readOnlyHint": ("only reads", "changes things"),
        "destructiveHint": ("destroys", "destroys nothing"),
        "idempotentHint": ("repeats harmlessly", "does not repeat harmlessly"),
        "openWorldHint": ("reaches outside", "reaches nothing outside"),
    }
    return ", ".join(words[name][0 if said else 1] for name, said in hints.items()) or "nothing"


def format_names(definitions: Sequence[Definition]) -> str:
    """Return the names of tools for a sentence."""
    names = [f"`{make_visible(definition.name)}`" for definition in definitions[:_NAMES]]
    more = len(definitions) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
