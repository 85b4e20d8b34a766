"""The MCP servers an editor hands over with a session, read as our own configuration is, and believed no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from acp.schema import AcpMcpServer, EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio, SseMcpServer
from msgspec.structs import replace

from foregate.agent.tools.mcp.server_configuration import ServerConfiguration, read_server
from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.visible import make_visible

EditorServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
_ODD = compile_late(r"[^A-Za-z0-9_-]+")
_NAMED = 64


def read_editor_servers(servers: Iterable[EditorServer]) -> list[ServerConfiguration]:
    """Return the servers; raise UsageError for a transport that is not spoken here, and for two of one name.

    A name takes the characters that names of tools can have; values of the environment and headers count as they are.
    """
    found: dict[str, ServerConfiguration] = {}
    for given in servers:
        name = _ODD.sub("-", scrub(given.name)).strip("-")[:_NAMED]
        shown = make_visible(scrub(given.name))[:_NAMED]
        try:
            server = read_server(name, build_entry(given))
        except ValueError as error:
            raise UsageError(f"the MCP server `{shown}`: {error}") from None
        assert server is not None
        if name in found:
            raise UsageError(f"two MCP servers are named `{name}` here; rename one")
        found[name] = replace(server, is_handed_over=True)
    return list(found.values())


def build_entry(given: EditorServer) -> Json:
    """Return a server as an entry of our own file; raise ValueError for a transport that is not spoken here."""
    match given:
        case McpServerStdio():
            return {"command": given.command, "args": list(given.args), "env": read_pairs(given.env)}
        case HttpMcpServer():
            return {"type": "http", "url": given.url, "headers": read_pairs(given.headers)}
        case _:
            raise ValueError(f"`{given.type}` is not spoken here, only stdio and http; leave it out")


def read_pairs(pairs: Iterable[EnvVariable | HttpHeader]) -> Mapping[str, str]:
    """Return names and values, in which nothing is filled in from our own environment."""
    return {pair.name: pair.value.replace("${", "${FOREGATE_NO_VARIABLE:-$}{") for pair in pairs}
