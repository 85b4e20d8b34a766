"""Which definitions a person has said yes to: hashes, with what they stood for, in one file of Foregate's home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from foregate.agent.tools.mcp.definition import Definition, compute_hash, render_definition
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.agent.workspace.json_file import LockedJsonFile
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, WorkspaceError
from foregate.schemas.judgement import Need
from foregate.schemas.strict_json import Json, as_object, get_int
from foregate.schemas.visible import make_visible

LARGEST = 64 * 1024 * 1024
"""Bytes of the file at most."""


class Pin(Struct, frozen=True):
    """What was pinned of one tool, and when (UTC text)."""

    hash: str
    definition: Mapping[str, Json]
    launch: Mapping[str, Json]
    at: str = ""


class Pins:
    """The pins by server and tool. Reading is strict; a file that is damaged pins nothing and is said to be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = LockedJsonFile(path, "the file of pinned MCP tools", LARGEST)

    def of(self, server: str) -> dict[str, Pin]:
        """Return the pins of a server by tool; raise WorkspaceError for a file that is not what this class wrote."""
        return self._all().get(server, {})

    def pin(self, definitions: Iterable[Definition], at: str) -> None:
        """Pin definitions as they are, in the place of what was pinned under their names."""
        with self._file.lock():
            servers = self._all()
            for definition in definitions:
                pin = Pin(definition.hash, definition.content, definition.launch, at)
                servers.setdefault(definition.server, {})[definition.name] = pin
            dumped = {
                name: {tool: strict_json.dump(pin) for tool, pin in pins.items()} for name, pins in servers.items()
            }
            self._file.replace(strict_json.canonical({"version": 1, "servers": dumped}))

    def _all(self) -> dict[str, dict[str, Pin]]:
        content = self._file.read()
        if content is None:
            return {}
        try:
            if get_int(content, "version") != 1:
                raise InvalidJson("it is of another version")
            servers = {
                server: {tool: strict_json.load(Pin, pin) for tool, pin in as_object(pins, server).items()}
                for server, pins in as_object(as_object(content).get("servers"), "servers").items()
            }
        except InvalidJson as error:
            raise WorkspaceError(f"{self._file} is of another kind ({error}); move it away, and pin again") from None
        for server, pins in servers.items():
            for tool, pin in pins.items():
                if pin.hash != compute_hash(pin.definition, pin.launch):
                    raise WorkspaceError(f"{self._file} was changed at `{server}.{tool}`; move it away, and pin again")
        return servers


def get_pin_state(definition: Definition, pins: Mapping[str, Pin]) -> str:
    """Return how a definition stands to the pins: `pinned`, `changed`, `new`, or `unusable`."""
    if definition.problem:
        return "unusable"
    pin = pins.get(definition.name)
    if pin is None:
        return "new"
    return "pinned" if pin.hash == definition.hash else "changed"


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
