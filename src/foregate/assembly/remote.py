"""Tools that run in other processes: a runtime and the token for it, and the MCP servers of a session."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.assembly.home import Home
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.agent.tools.mcp.mcp_tools import McpTools
    from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
    from foregate.agent.tools.remote_connection import RuntimeConnection
    from foregate.agent.workspace.workspace import Workspace
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.policy import Policy

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
    from foregate.agent.tools.remote_connection import RuntimeConnection
    from foregate.agent.tools.remote_protocol import parse_address

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


TOKEN, TOKEN_FILE = "FOREGATE_RUNTIME_TOKEN", "FOREGATE_RUNTIME_TOKEN_FILE"
_SHORTEST, _LONGEST = 16, 512


def read_token(environ: Mapping[str, str]) -> str:
    """Return the token of the environment or its file, else ""; raise UsageError for one nobody should rely on."""
    token = environ.get(TOKEN, "").strip()
    if not token and (named := environ.get(TOKEN_FILE)):
        token = _read_file(Path(named).expanduser())
    if token and not (_SHORTEST <= len(token) <= _LONGEST and token.isascii() and token.isprintable()):
        raise UsageError(f"the token has to be {_SHORTEST} to {_LONGEST} printable ASCII characters; make a new one")
    return token


def _read_file(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise UsageError(f"others may read the token in `{path}`; make it yours alone with `chmod 600`")
            return stream.read(_LONGEST + 1).decode("ascii", "replace").strip()
    except OSError as error:
        raise UsageError(f"the token in `{path}` cannot be read ({error.strerror})") from None


def create_token() -> str:
    """Return a token nobody can guess."""
    return secrets.token_urlsafe(32)


def read_mcp_servers(setting: SessionOptions) -> tuple[list[ServerConfiguration], list[str]]:
    """Return the MCP servers of a setting and remarks on their file; raise UsageError for one that cannot be read."""
    servers: list[ServerConfiguration] = []
    notes: list[str] = []
    if setting.mcp is not None:
        from foregate.agent.tools.mcp.server_configuration import read_servers

        servers, notes = read_servers(Path(setting.mcp).expanduser())
    known = {server.name: server for server in servers}
    for server in setting.servers:
        if (other := known.setdefault(server.name, server)) is server:
            servers.append(server)
        elif other.launch != server.launch:
            notes.append(f"MCP server `{server.name}`: the one your own file lists is used, not the one handed over")
    return servers, notes


def find_own_files(setting: SessionOptions, configured: Sequence[ServerConfiguration]) -> list[Path]:
    """Return the files by which somebody could have Foregate start a process: where servers are or would be listed,
    what they run, and what is pinned of them."""
    from foregate.agent.tools.mcp.server_configuration import SERVERS_FILE

    places = [SERVERS_FILE.get_place(None, setting.environ), Home(Home.path(setting.environ)).pins]
    places += [Path(setting.mcp).expanduser()] if setting.mcp is not None else []
    words = [Path(word).expanduser() for server in configured for word in (server.command, *server.args)]
    return [*places, *(word for word in words if word.is_absolute() and word.is_file())]


async def start_servers(
    configured: Sequence[ServerConfiguration], setting: SessionOptions, policy: Policy, workspace: Workspace
) -> McpTools:
    """Return the MCP servers, started; raise UsageError where the extra is not installed."""
    try:
        from foregate.agent.tools.mcp.definition import Pins
        from foregate.agent.tools.mcp.mcp_tools import McpTools
    except ImportError:
        raise UsageError("MCP servers need the extra `mcp`; install `foregate[mcp]`") from None
    pins = Pins(Home(Home.path(setting.environ)).pins)
    return await McpTools.start(configured, policy, pins, setting.environ, workspace)
