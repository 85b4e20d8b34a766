"""One connection to a server: opened, asked for its tools, called, closed; kept by a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp import ClientSession, MCPError, types
from mcp.client.session import IncomingMessage
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from pydantic import TypeAdapter, ValidationError

from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.agent.tools.mcp.server_place import ServerPlace
from foregate.agent.tools.mcp.server_process import ServerProcess
from foregate.agent.tools.mcp.traffic import Traffic
from foregate.policy.policy import Mcp
from foregate.schemas.errors import ForegateError
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__
from foregate.schemas.visible import visible

for _name in ("client", "mcp", "httpx2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())  # what a server says is not for our standard error

_LOST = (CONNECTION_CLOSED, REQUEST_TIMEOUT, PARSE_ERROR)
_LOST_ON_THE_WAY = (*_LOST, INTERNAL_ERROR, INVALID_REQUEST)
"""Errors after which nobody knows whether a call took effect; over HTTP also those that something between may give."""
_PAGES = 100
_MOST = 300
_Answer = types.CallToolResult | types.InputRequiredResult
_ANSWER: TypeAdapter[_Answer] = TypeAdapter(_Answer)


class Unavailable(ForegateError):
    """A server that cannot be asked; the message is the second half of a sentence. `sent`: a call may have arrived."""

    def __init__(self, why: str, *, sent: bool = False) -> None:
        super().__init__(why)
        self.sent = sent


class Refused(ForegateError):
    """A server's own error in answer to a call."""


class Wire(JSONRPCDispatcher[TransportContext]):
    """Keeps a listing of tools as the server sent it, and hands on only what the SDK can read."""

    listed: list[Json]
    cursor: str = ""

    async def send_raw_request(self, method: str, params: Any, opts: Any = None, **more: Any) -> dict[str, Any]:
        """Send a request and return its result; see JSONRPCDispatcher."""
        raw = await super().send_raw_request(method, params, opts, **more)
        if method == "tools/list":
            tools, cursor = raw.get("tools"), raw.get("nextCursor")
            self.listed = tools if isinstance(tools, list) else []
            self.cursor = cursor if isinstance(cursor, str) else ""
            raw = {**raw, "tools": [tool for tool in self.listed if readable(tool)]}
        return raw


class Connection:
    """A server that is spoken with. `on_change` is called when it says that its tools have changed."""

    def __init__(
        self,
        server: ServerConfiguration,
        policy: Mcp,
        environ: Mapping[str, str],
        root: Path,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._server, self._policy, self._on_change = server, policy, on_change
        self._traffic = Traffic(policy.max_traffic)
        self._other: ServerProcess | ServerPlace = (
            ServerPlace(server, policy, environ, self._traffic)
            if server.url
            else ServerProcess(server, policy, environ, root, self._traffic)
        )
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._listing = asyncio.Lock()
        self._session: ClientSession | None = None
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._broke: BaseException | None = None
        self._forgotten = False

    @property
    def alive(self) -> bool:
        """Whether a request can be sent."""
        ended = self._task is None or self._task.done() or self._other.ended or self._forgotten
        return self._ready.is_set() and not ended

    async def open(self) -> None:
        """Start or reach the server and greet it within its time; raise Unavailable where that fails."""
        seconds = self._server.start_timeout or self._policy.start_timeout
        self._task = asyncio.create_task(self._live())
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait([self._task, ready], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            if not self._ready.is_set():
                late = not self._task.done()
                await self.close()
        if not self._ready.is_set():
            raise Unavailable(self._told(f"it did not answer within {seconds} seconds" if late else self._why()))

    async def close(self) -> None:
        """Let go of the server; its process and everything it started in its group are gone afterwards."""
        self._stop.set()
        if self._task is not None:
            if not self._ready.is_set():
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    async def tools(self) -> list[Json]:
        """Return what the server lists as its tools now, as it says it, up to somewhat more than the policy reads."""
        session, wire = self._open()
        found: list[Json] = []
        async with self._listing:
            cursor = ""
            for _ in range(_PAGES):
                params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
                try:
                    with suppress(ValidationError):
                        wire.listed, wire.cursor = [], ""
                        await session.list_tools(params=params)
                except Exception as error:
                    self._forgotten = bool(self._server.url)  # one that was started anew knows nothing of this session
                    why = self._other.ended or f"it cannot list its tools ({said(error)})"
                    raise Unavailable(self._told(why)) from None
                found += wire.listed
                if not wire.cursor or wire.cursor == cursor or len(found) > self._policy.max_tools:
                    break
                cursor = wire.cursor
        return found

    async def call(self, tool: str, arguments: Mapping[str, Json]) -> types.CallToolResult:
        """Call a tool and return its answer; cancelling tells the server.

        Raises Unavailable where no answer came, Refused for an error of the server's.
        """
        session, _ = self._open()
        self._traffic.renew()
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))
        try:
            answer = await session.send_request(request, _ANSWER)
        except MCPError as error:
            code = error.error.code
            if code in (_LOST_ON_THE_WAY if self._server.url else _LOST):
                raise Unavailable(self._told(self._why(error)), sent=True) from None
            raise Refused(said(error)) from None
        except ValidationError:
            raise Unavailable("its answer breaks the protocol", sent=True) from None
        if isinstance(answer, types.InputRequiredResult):
            raise Refused("it asks for input of a kind Foregate does not give")
        return answer

    def _open(self) -> tuple[ClientSession, Wire]:
        if not self.alive or self._session is None or self._wire is None:
            raise Unavailable(self._told(self._why()))
        return self._session, self._wire

    async def _live(self) -> None:
        try:
            async with self._other.streams() as (read, write):
                self._wire = Wire(read, write)
                info = types.Implementation(name="foregate", version=__version__)
                async with ClientSession(
                    dispatcher=self._wire, client_info=info, message_handler=self._heard
                ) as self._session:
                    await greet(self._session)
                    self._ready.set()
                    await self._stop.wait()
        except BaseException as error:
            self._broke = error
            if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._session = None

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    def _why(self, error: BaseException | None = None) -> str:
        """Return why the server cannot be asked, as the second half of a sentence."""
        return self._other.ended or said(leaf(self._broke) or error) or "the connection is closed"

    def _told(self, why: str) -> str:
        """Return a reason with what the server itself had to say on its standard error, or where it should not have."""
        more = []
        if isinstance(self._other, ServerProcess) and (text := self._other.stderr.text()[0].strip()):
            more.append(f"it wrote: {visible(' '.join(text.split())[-_MOST:])}")
        if self._other.stray:
            more.append(f"it printed `{visible(self._other.stray)}`, which is no message")
        return "; ".join([why, *more])


async def greet(session: ClientSession) -> None:
    """Agree on a version of the protocol: the handshake every server knows first, then the newer way."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, INVALID_REQUEST):
            raise
        await session.discover()


def readable(tool: Json) -> bool:
    """Whether the SDK can read a definition."""
    try:
        types.Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    return True


def leaf(error: BaseException | None) -> BaseException | None:
    """Return the first error of a group, and of the groups in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return None if isinstance(error, asyncio.CancelledError) else error


def said(error: BaseException | None) -> str:
    """Return an error in a few words that can be shown."""
    if error is None:
        return ""
    if isinstance(error, ValidationError):
        return "its answer breaks the protocol"
    text = error.error.message if isinstance(error, MCPError) else str(error)
    return visible(" ".join(text.split())[:_MOST]) or type(error).__name__
