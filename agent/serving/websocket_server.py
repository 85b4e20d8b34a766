"""The runtime's side of the WebSocket: who may speak, what they say, and what becomes of it."""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

from msgspec import Struct
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response as HttpResponse

from foregate.agent.serving.tool_server import CallerConsent, ToolServer, build_refusal
from foregate.agent.tools.remote_connection import EndedTransport
from foregate.agent.tools.remote_protocol import (
    VERSION,
    Attach,
    Attached,
    Cancel,
    FromAgent,
    Look,
    Recall,
    Request,
    RequestRefused,
    Seen,
    Welcome,
    WireFrame,
    encode_frame,
    parse_frame,
)
from foregate.policy.section import Serving
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, InvalidJson, UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec
from foregate.schemas.version import __version__
from foregate.telemetry.diagnostics import get_diagnostics

# "desk-7", "ann:mail.1".
NAME = compile_late(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,159}")
"""What agents and requests may be called."""
_POLICY_VIOLATION, _GOING_AWAY = 1008, 1001
_GOODBYE = 2
"""Seconds the other side has to take a goodbye."""
_REASON = 100
"""Characters of a closing reason, which the protocol bounds; the sentence before it holds all."""


class Seat(Struct):
    """One agent that is served: its server, and the connection it speaks through now."""

    server: ToolServer
    leave: Callable[[], Awaitable[None]]
    connection: ServerConnection | None = None
    away: asyncio.Task[None] | None = None


Enter = Callable[[str], Awaitable[tuple[ToolServer, Callable[[], Awaitable[None]]]]]
"""Opens the session that serves an agent; returns its server and what gives the session back."""


class EndingServer(ServerConnection):
    """A connection that raises ConnectionClosed, and nothing else, when it is used after its end."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.transport = EndedTransport()


class WebSocketServer:
    """Serves tools to agents that know the token. What one agent does is in one session of the log."""

    def __init__(self, enter: Enter, specs: Sequence[ToolSpec], token: str, policy: Serving) -> None:
        self._enter, self._policy = enter, policy
        self._token = sha256(f"Bearer {token}".encode()).digest()
        tools = tuple(strict_json.dump(spec) for spec in specs)
        self._welcome = Welcome(VERSION, __version__, policy.max_message, tools)
        self._seats: dict[str, Seat] = {}
        self._connections: set[ServerConnection] = set()
        self._entering = asyncio.Lock()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Server:
        """Return the listening server; raise UsageError where the address cannot be had."""
        quiet = logging.getLogger("foregate.websocket")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        try:
            return await serve(
                self._handle,
                host,
                port,
                ssl=tls,
                origins=[None],
                process_request=self._check_token,
                create_connection=EndingServer,
                compression=None,
                server_header=None,
                close_timeout=_GOODBYE,
                max_size=self._policy.max_message,
                ping_interval=self._policy.ping,
                ping_timeout=self._policy.ping,
                logger=quiet,
            )
        except OSError as error:
            raise UsageError(f"`{host}:{port}` cannot be listened at ({error.strerror}); choose another port") from None

    async def close(self) -> None:
        """Stop what runs, give every session back and let go of every connection."""
        for seat in list(self._seats.values()):
            if seat.away is not None:
                seat.away.cancel()
            await seat.leave()
        self._seats.clear()
        await asyncio.gather(*(close_connection(one, _GOING_AWAY, "the runtime ends") for one in self._connections))

    def _check_token(self, connection: ServerConnection, request: HttpRequest) -> HttpResponse | None:
        """Let in who knows the token; whoever does not learns nothing but that."""
        given = " ".join(request.headers.get_all("Authorization"))
        if hmac.compare_digest(sha256(given.encode("utf-8", "surrogateescape")).digest(), self._token):
            return None
        return connection.respond(401, "the token is missing or wrong; set FOREGATE_RUNTIME_TOKEN to the runtime's\n")

    async def _handle(self, connection: ServerConnection) -> None:
        talk = ServedConnection(connection, self._policy)
        self._connections.add(connection)
        try:
            await talk.send(self._welcome)
            async for message in connection:
                frame = parse_frame(message, self._policy.max_message, FromAgent)
                if talk.seat is None:
                    talk.seat = await self._take_seat(frame, connection)
                    await talk.send(Attached(talk.seat.server.session.name))
                else:
                    await talk.handle_message(frame, talk.seat)
        except ConnectionClosed:
            pass
        except InvalidJson as error:
            await talk.end_with_reason(f"a message was refused: {error}")
        except ForegateError as error:
            await talk.end_with_reason(str(error))
        finally:
            self._connections.discard(connection)
            if talk.seat is not None:
                self._schedule_release(talk.seat, connection)

    async def _take_seat(self, frame: object, connection: ServerConnection) -> Seat:
        """Return the seat of the agent that says who it is, and that speaks through this connection from now on."""
        if not isinstance(frame, Attach) or not NAME.fullmatch(frame.agent):
            raise InvalidJson("the first message says who calls: `attach` with `agent`, a short name")
        async with self._entering:
            seat = self._seats.get(frame.agent)
            if seat is None:
                if len(self._seats) >= self._policy.max_agents:
                    raise UsageError(f"the runtime serves {len(self._seats)} agents already; try again later")
                server, leave = await self._enter(frame.agent)
                seat = self._seats[frame.agent] = Seat(server, leave)
            if seat.away is not None:
                seat.away.cancel()
                seat.away = None
        earlier, seat.connection = seat.connection, connection
        if earlier is not None:
            await close_connection(earlier, _GOING_AWAY, "the agent speaks through a newer connection")
        return seat

    def _schedule_release(self, seat: Seat, connection: ServerConnection) -> None:
        """Give the session of an agent that has gone back after a while, so that others can read and undo."""
        if seat.connection is connection:
            seat.connection = None
            seat.away = asyncio.ensure_future(self._release_seat(seat))

    async def _release_seat(self, seat: Seat) -> None:
        await asyncio.sleep(self._policy.away)
        await seat.server.wait_until_idle()
        async with self._entering:
            name = next((name for name, one in self._seats.items() if one is seat), None)
            if name is not None and seat.connection is None:
                del self._seats[name]
                await seat.leave()


async def close_connection(connection: ServerConnection, code: int, why: str) -> None:
    """End a connection with a goodbye, without one where the other side does not read: a close waits behind all that
    was said before."""
    try:
        async with asyncio.timeout(_GOODBYE):
            await connection.close(code, why)
    except TimeoutError:
        connection.transport.abort()


class ServedConnection:
    """One connection: what comes in is answered as it is ready, and no more waits than the policy lets wait."""

    def __init__(self, connection: ServerConnection, policy: Serving) -> None:
        self._connection, self._policy = connection, policy
        self._answering: set[asyncio.Task[None]] = set()
        self.seat: Seat | None = None

    async def handle_message(self, frame: object, seat: Seat) -> None:
        """Take up one message; raise InvalidJson for one that says nothing sensible.

        While too much waits no further message is read before the other side has read why.
        """
        match frame:
            case Request() | Look() | Cancel() | Recall() if not NAME.fullmatch(frame.id):
                raise InvalidJson("the `id` of a request is a short name of letters, digits and `._:-`")
            case Cancel():
                seat.server.cancel(frame.id)
            case Request() | Look() | Recall() if len(self._answering) >= self._policy.max_waiting:
                why = f"{self._policy.max_waiting} requests wait already; wait for their answers"
                await self.send(build_refusal(frame.id, "too_many_waiting", why))
            case Request() | Look() | Recall():
                task = asyncio.ensure_future(self._answer(frame, seat.server))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case _:
                raise InvalidJson("the agent has said who it is already")

    async def _answer(self, frame: Request | Look | Recall, server: ToolServer) -> None:
        try:
            match frame:
                case Request():
                    await self.send(await self._run(frame, server))
                case Recall():
                    await self.send(await server.recall(frame.id, frame.digest))
                case Look():
                    asked = enumerate(frame.calls[: self._policy.max_waiting])
                    calls = [ToolCall.parse(one.tool, one.arguments, id=str(place)) for place, one in asked]
                    surveys = tuple(strict_json.dump(survey) for survey in server.survey_calls(calls))
                    await self.send(Seen(frame.id, surveys))
        except ConnectionClosed:
            # What was done is in the log, and is answered when the agent asks again.
            pass
        except ForegateError as error:
            await self.end_with_reason(str(error))
        except Exception as error:
            get_diagnostics().exception("serving_failed", request=frame.id)
            await self.end_with_reason(f"the runtime failed at this request ({type(error).__name__})")

    async def _run(self, frame: Request, server: ToolServer) -> WireFrame:
        """Return the outcome of a request: one that does not fit its digest, or came too late, does not run."""
        call = ToolCall.parse(frame.tool, frame.arguments, wire_id=frame.id)
        if call.digest != frame.digest:
            why = "the digest is not that of the call; the request was altered"
            return build_refusal(frame.id, "wrong_digest", why)
        if frame.deadline <= 0 and not server.has_request(frame.id):
            return build_refusal(frame.id, "deadline_passed", "its deadline had passed when it came")
        seconds = min(frame.deadline / 1000, self._policy.max_deadline)
        return await server.answer(call, seconds, CallerConsent() if frame.approved else None)

    async def send(self, frame: WireFrame) -> None:
        """Send a message; waits while the other side does not read."""
        await self._connection.send(encode_frame(frame))

    async def end_with_reason(self, why: str) -> None:
        """Say in one sentence why the connection ends, and end it."""
        try:
            await self.send(RequestRefused(why[:2000]))
        except ConnectionClosed:
            return
        reason = why[:_REASON].encode()[:120].decode("utf-8", "ignore")
        await close_connection(self._connection, _POLICY_VIOLATION, reason)
