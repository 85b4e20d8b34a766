"""What an editor asks for, answered: each method of the protocol, and no more than it needs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from acp import PROTOCOL_VERSION, RequestError
from acp.interfaces import Client
from acp.schema import (
    AcpMcpServer,
    AgentCapabilities,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SetSessionModeResponse,
    SseMcpServer,
)
from msgspec.structs import replace

from foregate.agent.tools.mcp.server_configuration import ServerConfiguration, read_server
from foregate.assembly.choices import choose_policy
from foregate.assembly.home import Home
from foregate.assembly.open import read_beginning
from foregate.assembly.setting import SessionOptions
from foregate.cli.acp.editor_session import AT_WORK, FAILED, Block, EditorSession
from foregate.cli.acp.transport import INVALID_PARAMS
from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.version import __version__
from foregate.schemas.visible import make_visible
from foregate.telemetry.diagnostics import get_diagnostics

if TYPE_CHECKING:
    from acp import Agent


class EditorAgent:
    """The agent of one editor, with a session for each of the editor's; `after` has something done behind an answer."""

    def __init__(self, setting: SessionOptions, after: Callable[[Callable[[], None]], None]) -> None:
        self._setting, self._after = setting, after
        self._sessions: dict[str, EditorSession] = {}
        self._is_over = False
        self._client: Client | None = None

    def on_connect(self, conn: Client) -> None:
        """Take the editor, to which updates and questions go."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Say what is spoken here. Nothing of the editor's own, its files or terminals, is used."""
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True, image=False, audio=False),
                mcp_capabilities=McpCapabilities(http=True, sse=False),
            ),
            agent_info=Implementation(name="foregate", title="Foregate", version=__version__),
            auth_methods=[],
        )

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[EditorServer] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        """Open a session whose workspace is the folder."""
        async with explain_errors():
            setting = replace(self._setting, workspace=read_folder(cwd, additional_directories))
            session = await self._open(setting, read_editor_servers(mcp_servers or ()))
        return NewSessionResponse(session_id=session.opened.name, modes=session.modes)

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[EditorServer] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        """Resume a session of the log: its history is sent first, and what waits is asked again."""
        async with explain_errors():
            folder = read_folder(cwd, additional_directories)
            session = self._sessions.get(session_id)
            if session is None:
                await check_recorded(self._setting, session_id, folder)
                setting = replace(self._setting, workspace=folder, resume=session_id)
                session = await self._open(setting, read_editor_servers(mcp_servers or ()))
            elif session.is_at_work:
                raise UsageError(AT_WORK)
            await session.replay()
        return LoadSessionResponse(modes=session.modes)

    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> PromptResponse:
        """Take a message through to an answer, a pause or an end."""
        async with explain_errors():
            return PromptResponse(stop_reason=await self._find(session_id).prompt(prompt))

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        """Choose how the session works."""
        async with explain_errors():
            await self._find(session_id).set_mode(mode_id)
        return SetSessionModeResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what a session does; an unknown session does nothing."""
        if (session := self._sessions.get(session_id)) is not None:
            await session.cancel()

    async def close(self) -> None:
        """Leave every session so that it can be resumed."""
        self._is_over = True
        sessions, self._sessions = self._sessions, {}
        for name, session in sessions.items():
            try:
                await session.close()
            except ForegateError as error:
                get_diagnostics().warning("session_not_closed", session=name, why=str(error))

    def _find(self, name: str) -> EditorSession:
        if (session := self._sessions.get(name)) is None:
            raise UsageError(f"there is no session `{make_visible(name)[:64]}` here; begin or load one first")
        return session

    async def _open(self, setting: SessionOptions, servers: list[ServerConfiguration]) -> EditorSession:
        if self._client is None or self._is_over:
            raise UsageError("this connection has ended; start `foregate acp` again")
        session = EditorSession(replace(setting, servers=servers), self._client, self._after)
        await session.open()
        self._sessions[setting.resume or session.opened.name] = session
        return session


@asynccontextmanager
async def explain_errors() -> AsyncIterator[None]:
    """Answer a request that cannot be done with one sentence; what is the asker's to change is told apart."""
    try:
        yield
    except UsageError as error:
        raise RequestError(INVALID_PARAMS, str(error)) from None
    except ForegateError as error:
        raise RequestError(FAILED, str(error)) from None


def read_folder(cwd: str, more: list[str] | None) -> Path:
    """Return the folder of a session; raise UsageError for one that cannot be it."""
    folder, shown = Path(cwd), make_visible(cwd)[:200]
    if more:
        raise UsageError("a session works in one folder here; leave `additionalDirectories` out")
    if "\0" in cwd or not folder.is_absolute():
        raise UsageError(f"`cwd` must be an absolute path, which `{shown}` is not")
    if not folder.is_dir():
        raise UsageError(f"there is no folder `{shown}`; open one that is there")
    return folder


async def check_recorded(setting: SessionOptions, name: str, folder: Path) -> None:
    """Raise UsageError for a session that the log does not hold, or one of another folder; nothing is opened yet."""
    with closing(Home.open(setting.environ).open_log()) as log:
        if "." in name or name not in await log.sessions():
            raise UsageError(f"there is no session `{make_visible(name)[:64]}` in the log; begin a new one")
        root = (await read_beginning(log, name)).workspace
    if Path(root) != folder.resolve():
        raise UsageError(f"session `{name}` works in `{make_visible(root)}`; load it with that folder")


EditorServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
# " " and "/" in "my files/docs": the name becomes part of tools' names, which take neither.
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


async def serve_editor(setting: SessionOptions) -> None:
    """Serve an editor on standard input and output; raises UsageError where the extra is not installed.

    A shutdown request is handled like the end of the input: sessions are left so that they can be resumed.
    """
    try:
        from acp import run_agent
    except ImportError:
        raise UsageError("editors need the extra `acp`; install it with `pip install 'foregate[acp]'`") from None
    from foregate.cli.acp.transport import EditorTransport

    _, policy = choose_policy(setting, Path(setting.workspace))
    agent = EditorAgent(setting, lambda hook: transport.after_response.append(hook))
    transport = EditorTransport(policy.serving.max_message, agent.close)
    loop, serving = asyncio.get_running_loop(), asyncio.current_task()
    assert serving is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, serving.cancel)
    with suppress(asyncio.CancelledError):
        # A method it lacks is answered as unknown.
        await run_agent(cast("Agent", agent), transport)
