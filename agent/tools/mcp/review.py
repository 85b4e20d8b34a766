"""What a person is asked before the tools of a server are offered: once per server, all of it on one sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foregate.agent.tools.mcp.definition import Definition, readable
from foregate.agent.tools.mcp.pins import Pin, state_of
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.schemas.need import Need
from foregate.schemas.strict_json import Json
from foregate.schemas.visible import visible

GATE = "tools"
"""Who asks: no gate of the prelude, for nothing is judged yet."""
_NAMES = 8


def review(server: ServerConfiguration, definitions: Sequence[Definition], pins: Mapping[str, Pin]) -> Need:
    """Return the question whether the tools that are new or changed may be offered as they are now."""
    tools = [described(definition, pins) for definition in definitions]
    asked = [definition.hash for definition in definitions if state_of(definition, pins) in ("new", "changed")]
    request = {
        "question": f"May the model be offered these tools of the MCP server `{server.name}`?",
        "server": server.name,
        "launch": server.shown,
        "tools": tools,
    }
    return Need(GATE, "person", server.name, (), tuple(asked), request, "tools_not_pinned")


def described(definition: Definition, pins: Mapping[str, Pin]) -> Json:
    """Return a tool for the sheet: how it stands to its pin, what its server claims, and all it says."""
    state = state_of(definition, pins)
    pin = pins.get(definition.name)
    lines = definition.description.strip().splitlines()
    return {
        "tool": definition.full_name,
        "state": state,
        "claims": claims(definition.hints),
        "first_line": lines[0] if lines else "",
        "before": readable(pin.definition, pin.launch) if pin is not None and state == "changed" else "",
        "after": readable(definition.content, definition.launch) if state in ("new", "changed") else "",
        "problem": definition.problem,
    }


def gone(server: str, definitions: Sequence[Definition], pins: Mapping[str, Pin]) -> list[Json]:
    """Return the tools that are pinned and that their server lists no more, as `described` does."""
    listed = {definition.name for definition in definitions}
    bare = {"claims": "", "first_line": "", "before": "", "after": "", "problem": "its server no longer lists it"}
    return [{"tool": f"{server}.{tool}", "state": "gone", **bare} for tool in pins if tool not in listed]


def claims(hints: Mapping[str, bool]) -> str:
    """Return what a server says of a tool's nature, as its claim."""
    words = {
        "readOnlyHint": ("only reads", "changes things"),
        "destructiveHint": ("destroys", "destroys nothing"),
        "idempotentHint": ("repeats harmlessly", "does not repeat harmlessly"),
        "openWorldHint": ("reaches outside", "reaches nothing outside"),
    }
    return ", ".join(words[name][0 if said else 1] for name, said in hints.items()) or "nothing"


def listing(definitions: Sequence[Definition]) -> str:
    """Return the names of tools for a sentence."""
    names = [f"`{visible(definition.name)}`" for definition in definitions[:_NAMES]]
    more = len(definitions) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
