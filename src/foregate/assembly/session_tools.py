"""The tools of a session: those that come with Foregate, the caller's, and those of its MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import ToolSource

if TYPE_CHECKING:
    from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
    from foregate.agent.tools.tool import Tool
    from foregate.agent.workspace.workspace import Workspace
    from foregate.policy.policy import Policy


async def open_local_tools(
    setting: SessionOptions,
    place: tuple[Workspace, Path | None],
    policy: Policy,
    configured: Sequence[ServerConfiguration],
    resources: AsyncExitStack,
) -> tuple[Callable[[Policy], ToolSource], Sequence[str]]:
    """Return what makes the tools of a session under a policy, and what a person should know.

    `place` is the workspace and the file of the memory tools. The servers start under `policy` and end with
    `resources`.
    """
    from foregate.agent.session.session_log import utc_now
    from foregate.assembly.remote import start_servers

    workspace, memory = place
    if not configured:
        return prepare_tools(setting, workspace, memory), ()
    servers = await start_servers(configured, setting, policy, workspace)
    resources.push_async_callback(servers.close)
    await servers.offer(setting.person, utc_now)
    return prepare_tools(setting, workspace, memory, servers.tools), servers.notes


def local_tools(setting: SessionOptions, workspace: Workspace, policy: Policy, memory: Path | None) -> ToolSource:
    """Return the built-in tools, the caller's and their sources as one; UsageError for two of a name."""
    return prepare_tools(setting, workspace, memory)(policy)


def prepare_tools(
    setting: SessionOptions, workspace: Workspace, memory: Path | None, more: Sequence[Tool] = ()
) -> Callable[[Policy], ToolSource]:
    """Return what makes the built-in tools, the caller's, `more` and the caller's sources into one under a policy.

    It raises UsageError for two tools of a name. Modules of tools are loaded once.
    """
    from foregate.agent.tools.custom_source import CustomToolSource, load_tools
    from foregate.agent.tools.tool import Tool, Toolbox, ToolSources

    given = list(setting.tools) if isinstance(setting.tools, Sequence) else [setting.tools]
    own = [tool for tool in given if isinstance(tool, Tool)]
    own += [made for place in setting.tool_modules for made in load_tools(place)]
    sources = [CustomToolSource(one) for one in given if not isinstance(one, Tool)]

    def make_tools(policy: Policy) -> ToolSource:
        box = Toolbox([*add_builtin_tools(own, setting, workspace, policy, memory), *more])
        return ToolSources([box, *sources]) if sources else box

    return make_tools


def add_builtin_tools(
    own: Sequence[Tool], setting: SessionOptions, workspace: Workspace, policy: Policy, memory: Path | None
) -> list[Tool]:
    """Return the built-in tools where a setting wants them, and the caller's; UsageError for two of a name."""
    tools: list[Tool] = []
    if setting.builtin:
        from foregate.agent.tools.builtin import builtin_tools

        tools = list(builtin_tools(workspace, policy, memory=memory))
    for tool in own:
        if any(tool.spec.name == other.spec.name for other in tools):
            raise UsageError(f"two tools are named `{tool.spec.name}`; rename yours, or open without the built-in ones")
        tools.append(tool)
    return tools
