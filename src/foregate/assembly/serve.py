"""Serving the tools of a workspace to other agents: over a WebSocket, or as a server of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foregate.assembly.choices import choose_policy
from foregate.assembly.home import Home
from foregate.assembly.open import open_session
from foregate.assembly.remote import TOKEN
from foregate.assembly.session_tools import local_tools
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import LogError, SessionErased, UsageError
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.sources import explain_source
from foregate.schemas.strict_json import as_object, as_texts, get_list, get_text
from foregate.schemas.visible import make_visible

if TYPE_CHECKING:
    from foregate.agent.serving.tool_server import ToolServer
    from foregate.policy.policy import Policy
    from foregate.schemas.judgement import Need
    from foregate.schemas.protocols import Log
    from foregate.schemas.tool_spec import ToolSpec

_SHOWN = 2000
"""Characters of an argument that somebody is shown who is asked about a call."""


def parse_endpoint(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; raise UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"`{text[:80]}` is no address to listen at; write HOST:PORT, for example 127.0.0.1:8765")
    return host, int(port)


def load_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return TLS settings for a certificate and its key, None without; raise UsageError where they cannot be used."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("TLS needs both --cert and --key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the certificate or its key cannot be used ({error.strerror or error.__class__})") from None
    return context


class AgentSessions:
    """Opens the session that serves an agent: the one that served it before, or a new one."""

    def __init__(self, setting: SessionOptions) -> None:
        self._setting = setting
        self._sessions: dict[str, str] = {}
        self.workspace = str(Path(setting.workspace).resolve())

    async def find_sessions(self, log: Log) -> None:
        """Find the sessions that served agents in this workspace before."""
        for name in reversed(await log.sessions()):
            # It cannot be resumed, so its agent begins anew.
            with suppress(SessionErased):
                for first in await log.read(name, limit=1):
                    body = first.body
                    if isinstance(body, SessionStarted) and body.agent and body.workspace == self.workspace:
                        self._sessions[body.agent] = name

    async def open_agent(self, agent: str) -> tuple[ToolServer, Callable[[], Awaitable[None]]]:
        """Return what serves an agent, and what gives its session back; raise a ForegateError where it cannot be."""
        from foregate.agent.serving.tool_server import RequestPerson, ToolServer

        _, policy = choose_policy(self._setting, Path(self.workspace))
        voice = RequestPerson() if policy.serving.approvals == "caller" else None
        known = self._sessions.get(agent, "")
        opened = await open_session(replace(self._setting, person=voice, resume=known, agent=agent))
        self._sessions[agent] = opened.name
        server = ToolServer(opened.session)

        async def close_agent() -> None:
            await server.close()
            await opened.close(end=False)

        try:
            await server.begin()
        except BaseException:
            await opened.close(end=False)
            raise
        return server, close_agent


def list_served_tools(setting: SessionOptions) -> tuple[list[ToolSpec], Policy]:
    """Return the tools that are served and the policy in force; raise UsageError, WorkspaceError or PolicyError."""
    from foregate.agent.serving.tool_server import narrow_policy
    from foregate.agent.workspace.local import LocalWorkspace

    with closing(LocalWorkspace(setting.workspace)) as workspace:
        _, policy = choose_policy(setting, workspace.root)
        return list(local_tools(setting, workspace, policy, Home(Home.path()).memory).specs()), narrow_policy(policy)


async def serve_mcp(setting: SessionOptions) -> None:
    """Serve one client on standard input and output until it is gone; the session's name goes to standard error.

    To be told to end is an interrupt: what runs is stopped, and the session is complete.
    """
    from foregate.agent.serving.tool_server import RequestPerson, ToolServer

    try:
        from foregate.agent.serving.mcp_server import McpServer
    except ImportError:
        raise UsageError("this needs the extra `mcp`; install it with `pip install 'foregate[mcp]'`") from None
    specs, policy = list_served_tools(setting)
    opened = await open_session(replace(setting, person=RequestPerson()))
    server = ToolServer(opened.session)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    try:
        await server.begin()
        print(f"foregate: session {opened.name}", file=sys.stderr, flush=True)  # noqa: T201
        await McpServer(server, specs, policy, describe_need).run()
    finally:
        await server.close(end=True)
        await opened.close()


def describe_need(need: Need) -> str:
    """Return what is asked in a few lines, with characters that hide something made visible."""
    lines = []
    for call in get_list(need.request, "calls"):
        sent, reasons = get_text(call, "arguments"), as_texts(get_list(call, "why"), "why")
        lines.append(make_visible(f"{get_text(call, 'tool')} {get_text(call, 'target')}".strip()))
        lines.append(make_visible(f"  with {sent[:_SHOWN]}"))
        if len(sent) > _SHOWN:
            lines.append(f"  and {len(sent) - _SHOWN} characters more")
        for value in map(as_object, get_list(call, "values")):
            what = f"{get_text(value, 'path', '')}: {get_text(value, 'text', '')}"
            lines.append(make_visible(f"  value {what[:_SHOWN]}"))
            lines.append(make_visible(f"  who said it: {explain_source(value)}"))
        lines.append(make_visible(f"  it asks because {'; '.join(reasons)}"))
    return "\n".join(["Foregate asks before it runs this:", *lines])


async def serve_websocket(
    setting: SessionOptions, host: str, port: int, token: str, tls: ssl.SSLContext | None, ready: Callable[[str], None]
) -> None:
    """Serve until the process is told to end. `ready` is called with the address once agents can connect."""
    try:
        from foregate.agent.serving.websocket_server import WebSocketServer
    except ImportError:
        raise UsageError("this needs the extra `ws`; install it with `pip install 'foregate[ws]'`") from None
    specs, policy = list_served_tools(setting)
    agents = AgentSessions(replace(setting, secrets={**setting.secrets, TOKEN: token}))
    with closing(Home.open(setting.environ).open_log()) as log:
        try:
            await agents.find_sessions(log)
        except LogError as error:
            raise LogError(f"{error}; without the log nobody can tell what was run before") from None
    server = WebSocketServer(agents.open_agent, specs, token, policy.serving)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    listening = await server.listen(host, port, tls)
    try:
        bound = listening.sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        ready(f"{'wss' if tls else 'ws'}://{name}:{bound}")
        await stop.wait()
    finally:
        listening.close()
        await server.close()
        await listening.wait_closed()
