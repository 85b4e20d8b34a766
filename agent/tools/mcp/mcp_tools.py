"""The servers of a session: started together, reviewed one after the other, ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from foregate.agent.tools.mcp.connection import ServerUnavailable
from foregate.agent.tools.mcp.definition import Definition
from foregate.agent.tools.mcp.pins import Pins, build_review, format_names, get_pin_state
from foregate.agent.tools.mcp.server import ReviewedServer
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.agent.tools.tool import Tool
from foregate.policy.policy import Mcp
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Person

Clock = Callable[[], str]


class McpTools:
    """What servers bring to a session: `tools` that are pinned, and `notes` on what is not offered and why."""

    def __init__(self, servers: Sequence[ReviewedServer], pins: Pins) -> None:
        self.servers, self.pins = servers, pins
        self.tools: list[Tool] = []
        self.notes: list[str] = []
        self.failed: dict[str, str] = {}

    @classmethod
    async def start(
        cls,
        configurations: Sequence[ServerConfiguration],
        policy: Mcp,
        pins: Pins,
        environ: Mapping[str, str],
        root: Path,
    ) -> McpTools:
        """Start the servers and learn what they list; one that fails is noted, and the others serve.

        Raises WorkspaceError where the pins cannot be read; then nothing is started.
        """
        for configuration in configurations:
            pins.of(configuration.name)
        found = cls([ReviewedServer(configuration, policy, environ, root) for configuration in configurations], pins)
        try:
            await asyncio.gather(*(found._begin(server) for server in found.servers))
        except BaseException:
            await found.close()
            raise
        return found

    async def offer(self, person: Person | None, clock: Clock) -> None:
        """Take over the tools that are pinned; ask the person for others, once per server, and pin what is agreed."""
        for server in self.servers:
            pinned = self.pins.of(server.name)
            stands: dict[str, list[Definition]] = {"pinned": [], "changed": [], "new": [], "unusable": []}
            for definition in server.definitions:
                stands[get_pin_state(definition, pinned)].append(definition)
            asked = [*stands["changed"], *stands["new"]]
            if asked and person is not None:
                reply = await person.answer(build_review(server.configuration, server.definitions, pinned))
                if reply is not None and reply.choice == "yes":
                    self.pins.pin(asked, clock())
                    stands["pinned"] += asked
                    asked = []
            self.tools += server.approve([d for d in server.definitions if d in stands["pinned"]])
            self._note(server.name, stands, asked)
            if server.unread:
                most = f"the first {server.policy.max_tools} (`mcp.max_tools`)"
                self.notes.append(f"MCP server `{server.name}`: it lists more tools than are read, {most}")

    async def close(self) -> None:
        """End all servers."""
        await asyncio.gather(*(server.close() for server in self.servers))

    def _note(self, name: str, stands: Mapping[str, list[Definition]], asked: Sequence[Definition]) -> None:
        begin = f"MCP server `{name}`: not offered"
        if asked and stands["changed"]:
            why = "changed since they were pinned"
            self.notes.append(
                f"{begin}, since they {why}: {format_names(stands['changed'])}; "
                f"`foregate tools diff {name}` shows how, `foregate tools pin {name}` pins them anew"
            )
        if asked and stands["new"]:
            self.notes.append(
                f"{begin}, since nobody has pinned them: {format_names(stands['new'])}; "
                f"`foregate tools pin {name}` shows and pins them"
            )
        self.notes += [f"{begin} is `{d.name}`: {d.problem}" for d in stands["unusable"]]

    async def _begin(self, server: ReviewedServer) -> None:
        try:
            await server.start()
        except (ServerUnavailable, UsageError) as error:
            await server.close()
            self.failed[server.name] = str(error)
            self.notes.append(f"MCP server `{server.name}` is not available: {error}")
