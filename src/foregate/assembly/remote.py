"""Where a session's tools run in another process: reaching it, and telling it who asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foregate.assembly.runtime_token import TOKEN, read_token
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Log, ToolSource

if TYPE_CHECKING:
    from foregate.agent.tools.remote.connection import RuntimeConnection
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.policy import Policy

_OWN_HASH = 16
"""Characters of the hash of a session's first event that tell it from others of its name."""

UNDECLARED = (
    "the tools of a runtime count as undeclared, so every call asks, also a look; where the runtime is yours, "
    "`runtime.declarations: believe` in your policy takes its word, and `tools:` declares them one by one"
)


async def connect_runtime(setting: SessionOptions, policy: Policy, recorded: str | None) -> RuntimeConnection | None:
    """Return a connection to the runtime a session is to use, None for a session with tools of its own.

    `recorded` is the runtime an earlier process of the session used, None for a new session. Raises UsageError where
    the runtime cannot be used, or does not go with what else was asked for.
    """
    if not setting.runtime:
        return None
    if recorded == "":
        raise UsageError("this session has had tools of its own; begin a new one to use a runtime")
    if setting.tools or setting.tool_modules or not setting.builtin:
        raise UsageError("with a runtime all tools come from it; leave out your own")
    try:
        import websockets  # noqa: F401
    except ImportError:
        raise UsageError("a runtime needs the extra `ws`; install it with `pip install 'foregate[ws]'`") from None
    from foregate.agent.tools.remote.address import parse_address
    from foregate.agent.tools.remote.connection import RuntimeConnection

    address = parse_address(setting.runtime, insecure=setting.insecure_runtime)
    token = read_token(setting.environ)
    if not token:
        raise UsageError(f"the runtime wants a token; set {TOKEN} to the one it printed")
    connection = RuntimeConnection(address, token, policy.runtime)
    await connection.open()
    return connection


def list_remarks(policy: Policy, servers: Sequence[object]) -> list[str]:
    """Return what a person should know who uses a runtime under a policy, with MCP servers configured here."""
    told = [UNDECLARED] if policy.runtime.declarations == "raise" else []
    return told + (["MCP servers are left out: all tools come from the runtime"] if servers else [])


def open_remote_tools(connection: RuntimeConnection) -> ToolSource:
    """Return the tools of a runtime; raise UsageError for what no honest one offers."""
    from foregate.agent.tools.remote.remote_tools import RemoteTools

    return RemoteTools(connection)


async def introduce_session(connection: RuntimeConnection, log: Log, name: str) -> None:
    """Tell the runtime which session asks, by a name no other session has, and that stays."""
    (first,) = await log.read(name, limit=1)
    connection.agent = f"{name}-{first.hash[:_OWN_HASH]}"
