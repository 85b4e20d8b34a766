"""One connection to a server: opened, asked for its tools, called, closed; kept by a task of its own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mcp import ClientSession, MCPError, types
from mcp.client.session import IncomingMessage
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from pydantic import TypeAdapter, ValidationError

from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.agent.tools.mcp.transport import ServerProcess, Transport
from foregate.policy.policy import Mcp
from foregate.schemas.errors import ForegateError
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__
from foregate.schemas.visible import make_visible

for _name in ("client", "mcp", "httpx2"):
    # What a server says is not for our standard error.
    logging.getLogger(_name).addHandler(logging.NullHandler())

_LOST = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.PARSE_ERROR)
_LOST_ON_THE_WAY = (*_LOST, types.INTERNAL_ERROR, types.INVALID_REQUEST)
"""Errors that leave unknown whether a call took effect; over HTTP also those that something between may give."""
_PAGES = 100
_MOST = 300
_Answer = types.CallToolResult | types.InputRequiredResult
_ANSWER: TypeAdapter[_Answer] = TypeAdapter(_Answer)


class ServerUnavailable(ForegateError):
    """A server that cannot be asked; the message is the second half of a sentence. `sent`: a call may have arrived."""

    def __init__(self, why: str, *, sent: bool = False) -> None:
        super().__init__(why)
        self.sent = sent


class ServerRefusal(ForegateError):
    """A server's own error in answer to a call."""


class ListingDispatcher(JSONRPCDispatcher[TransportContext]):
    """Keeps a listing of tools as the server sent it, and hands on only what the SDK can read."""

    listed: list[Json]
    cursor: str = ""

    async def send_raw_request(self, method: str, params: Any, opts: Any = None, **more: Any) -> dict[str, Any]:
        raw = await super().send_raw_request(method, params, opts, **more)
        if method == "tools/list":
            tools, cursor = raw.get("tools"), raw.get("nextCursor")
            self.listed = tools if isinstance(tools, list) else []
            self.cursor = cursor if isinstance(cursor, str) else ""
            raw = {**raw, "tools": [tool for tool in self.listed if is_readable(tool)]}
        return raw


class McpConnection:
    """A server that is spoken with. `on_change` is called when it says that its tools have changed."""

    def __init__(
        self, server: ServerConfiguration, policy: Mcp, other: Transport, on_change: Callable[[], None]
    ) -> None:
        self._server, self._policy, self._other, self._on_change = server, policy, other, on_change
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._listing = asyncio.Lock()
        self._session: ClientSession | None = None
        self._wire: ListingDispatcher | None = None
        self._task: asyncio.Task[None] | None = None
        self._broke: BaseException | None = None
        self._forgotten = False

    @property
    def is_alive(self) -> bool:
        """Whether a request can be sent."""
        running = self._task is not None and not self._task.done()
        return running and self._ready.is_set() and not self._other.ended and not self._forgotten

    async def open(self) -> None:
        """Start or reach the server and greet it within its time; raise ServerUnavailable where that fails."""
        seconds = self._server.start_timeout or self._policy.start_timeout
        self._task = asyncio.create_task(self._keep_open())
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait([self._task, ready], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.close()
            raise
        finally:
            ready.cancel()
        if not self._ready.is_set():
            late = "" if self._task.done() else f"it did not answer within {seconds} seconds"
            await self.close()
            raise ServerUnavailable(self._add_server_words(late or self._describe_failure()))

    async def close(self) -> None:
        """Let go of the server; its process and everything it started in its group are gone afterwards."""
        self._stop.set()
        if self._task is not None:
            if not self._ready.is_set():
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    async def list_tools(self) -> list[Json]:
        """Return what the server lists as its tools now, as it says it, up to somewhat more than the policy reads."""
        session, wire = self._open()
        found: list[Json] = []
        # Some servers give the same page for each cursor.
        seen = set[str]()
        async with self._listing:
            cursor = ""
            for _ in range(_PAGES):
                params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
                try:
                    with suppress(ValidationError):
                        wire.listed, wire.cursor = [], ""
                        await session.list_tools(params=params)
                except Exception as error:
                    # One that was started anew knows nothing of this session.
                    self._forgotten = bool(self._server.url)
                    why = self._other.ended or f"it cannot list its tools ({describe_error(error)})"
                    raise ServerUnavailable(self._add_server_words(why)) from None
                page = [(json.dumps(tool, sort_keys=True), tool) for tool in wire.listed]
                fresh = [tool for key, tool in page if key not in seen]
                seen |= {key for key, _ in page}
                found += fresh
                is_last = not wire.cursor or wire.cursor == cursor or not fresh
                if is_last or len(found) > self._policy.max_tools:
                    break
                cursor = wire.cursor
        return found

    async def call_tool(self, tool: str, arguments: Mapping[str, Json]) -> types.CallToolResult:
        """Return a tool's answer; raise ServerUnavailable where none came, ServerRefusal for the server's own error."""
        session, _ = self._open()
        self._other.traffic.renew()
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))
        try:
            answer = await session.send_request(request, _ANSWER)
        except MCPError as error:
            code = error.error.code
            if code in (_LOST_ON_THE_WAY if self._server.url else _LOST):
                raise ServerUnavailable(self._add_server_words(self._describe_failure(error)), sent=True) from None
            raise ServerRefusal(describe_error(error)) from None
        except ValidationError:
            raise ServerUnavailable("its answer breaks the protocol", sent=True) from None
        if isinstance(answer, types.InputRequiredResult):
            raise ServerRefusal("it asks for input of a kind Foregate does not give")
        return answer

    def _open(self) -> tuple[ClientSession, ListingDispatcher]:
        if not self.is_alive or self._session is None or self._wire is None:
            raise ServerUnavailable(self._add_server_words(self._describe_failure()))
        return self._session, self._wire

    async def _keep_open(self) -> None:
        try:
            async with self._other.open_streams() as (read, write):
                self._wire = ListingDispatcher(read, write)
                info = types.Implementation(name="foregate", version=__version__)
                async with ClientSession(
                    dispatcher=self._wire, client_info=info, message_handler=self._handle_message
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

    async def _handle_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    def _describe_failure(self, error: BaseException | None = None) -> str:
        """Return why the server cannot be asked, as the second half of a sentence."""
        return self._other.ended or describe_error(find_first_error(self._broke) or error) or "the connection is closed"

    def _add_server_words(self, why: str) -> str:
        """Return a reason with what the server itself had to say on its standard error, or where it should not have."""
        more = []
        if isinstance(self._other, ServerProcess) and (text := self._other.stderr.text()[0].strip()):
            more.append(f"it wrote: {make_visible(' '.join(text.split())[-_MOST:])}")
        if self._other.stray:
            more.append(f"it printed `{make_visible(self._other.stray)}`, which is no message")
        return "; ".join([why, *more])


async def greet(session: ClientSession) -> None:
    """Agree on a version of the protocol: the handshake every server knows first, then the newer way."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION, types.INVALID_REQUEST):
            raise
        await session.discover()


def is_readable(tool: Json) -> bool:
    try:
        types.Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    return True


def find_first_error(error: BaseException | None) -> BaseException | None:
    """Return the first error of a group, and of the groups in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return None if isinstance(error, asyncio.CancelledError) else error


def describe_error(error: BaseException | None) -> str:
    if error is None:
        return ""
    if isinstance(error, ValidationError):
        return "its answer breaks the protocol"
    text = error.error.message if isinstance(error, MCPError) else str(error)
    return make_visible(" ".join(text.split())[:_MOST]) or type(error).__name__
