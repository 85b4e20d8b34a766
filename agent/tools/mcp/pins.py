"""Which definitions a person has said yes to: hashes, with what they stood for, in one file of Foregate's home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from foregate.agent.tools.mcp.definition import Definition, compute_hash
from foregate.agent.workspace.json_file import LockedJsonFile
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, WorkspaceError
from foregate.schemas.strict_json import Json, as_object, get_int

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
