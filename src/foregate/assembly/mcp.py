"""The MCP servers of a session: which are listed, what of theirs is not the agent's to touch, and their start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.assembly.home import Home
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.agent.tools.mcp.mcp_tools import McpTools
    from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
    from foregate.agent.workspace.workspace import Workspace
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.policy import Policy


def read_mcp_servers(setting: SessionOptions) -> tuple[list[ServerConfiguration], list[str]]:
    """Return the MCP servers of a setting and remarks on their file; raise UsageError for one that cannot be read."""
    if setting.mcp is None:
        return [], []
    from foregate.agent.tools.mcp.server_configuration import read_servers

    return read_servers(Path(setting.mcp).expanduser())


def find_own_files(setting: SessionOptions, configured: Sequence[ServerConfiguration]) -> list[Path]:
    """Return the files by which somebody could have Foregate start a process: where servers are or would be listed,
    what they run, and what is pinned of them."""
    from foregate.agent.tools.mcp.server_configuration import get_servers_place

    places = [get_servers_place(environ=setting.environ), Home(Home.path(setting.environ)).pins]
    places += [Path(setting.mcp).expanduser()] if setting.mcp is not None else []
    words = [Path(word).expanduser() for server in configured for word in (server.command, *server.args)]
    return [*places, *(word for word in words if word.is_absolute() and word.is_file())]


async def start_servers(
    configured: Sequence[ServerConfiguration], setting: SessionOptions, policy: Policy, workspace: Workspace
) -> McpTools:
    """Return the MCP servers, started; raise UsageError where the extra is not installed."""
    try:
        from foregate.agent.tools.mcp.mcp_tools import McpTools
        from foregate.agent.tools.mcp.pins import Pins
    except ImportError:
        raise UsageError("MCP servers need the extra `mcp`; install `foregate[mcp]`") from None
    pins = Pins(Home(Home.path(setting.environ)).pins)
    return await McpTools.start(configured, policy.mcp, pins, setting.environ, workspace.root)
