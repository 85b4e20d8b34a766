"""The agent's side of the WebSocket: one connection, made again when it breaks, and every request answered once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from foregate.agent.tools import remote_protocol
from foregate.policy.section import Runtime
from foregate.schemas.errors import InvalidJson, RuntimeLost, UsageError

_GOODBYE = 2
"""Seconds the other side has to take a goodbye."""
_LONGEST_WAIT = 1
"""Seconds between two tries to make a connection again, unless the policy's shortest wait is longer."""
_STRAY = 100
"""Answers to nothing that was asked before a runtime is no longer listened to."""
_SHOWN = 300
"""Characters of a runtime's own words that an error shows."""
Answer = remote_protocol.Response | remote_protocol.Seen
Question = remote_protocol.Request | remote_protocol.Look | remote_protocol.Recall


class ConnectionLost(Exception):
    """The connection broke, or could not be made; the message says why."""


class EndedTransport(asyncio.Transport):
    """What stands in for the transport of a connection that is over.

    Python's own raises AttributeError for `abort` once it has written what was left at its close, and websockets
    aborts where somebody sends to, or closes, what the other side has ended.
    """

    def abort(self) -> None:
        """Do nothing: it is over."""

    def is_closing(self) -> bool:
        return True


class EndingClient(ClientConnection):
    """A connection that raises ConnectionClosed, and nothing else, when it is used after its end."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.transport = EndedTransport()


class DirectConnect(connect):
    """A connection that goes where it was told to: a redirect would take the token elsewhere."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Return the redirect as the error it is here."""
        return exc


class RuntimeConnection:
    """Speaks with one runtime. `open` says hello; `agent` set, requests can be made.

    A broken connection is made again, and what was asked is asked again under its id, so that the runtime answers with
    its outcome. A runtime that stays away raises RuntimeLost.
    """

    def __init__(self, url: str, token: str, policy: Runtime) -> None:
        self.url, self._token, self.policy = url, token, policy
        self.agent = ""
        self.welcome: remote_protocol.Welcome | None = None
        self._connection: ClientConnection | None = None
        self._attached = False
        self._reader: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[Answer]] = {}

    async def open(self) -> remote_protocol.Welcome:
        """Connect for the first time and return what the runtime says of itself; raise UsageError where it cannot."""
        try:
            async with self._connecting:
                await self._connect()
        except ConnectionLost as gone:
            raise UsageError(f"the runtime at {self.url} cannot be used: {gone}") from None
        assert self.welcome is not None
        return self.welcome

    async def ask(
        self, question: Callable[[], Question], *, patience: float | None = None, within: float | None = None
    ) -> Answer:
        """Return the answer to a question, which is made anew for each try; raise RuntimeLost without one.

        A broken connection is tried again for `patience` seconds, the policy's without; each try has `within` seconds.
        """

        async def attempt() -> Answer:
            try:
                async with asyncio.timeout(within):
                    return await self._ask_once(question())
            except TimeoutError:
                raise ConnectionLost("it does not answer") from None

        patience = self.policy.patience if patience is None else patience
        backoff = self.policy.backoff / 1000
        retrying = AsyncRetrying(
            stop=stop_after_delay(patience),
            wait=wait_exponential(multiplier=backoff, max=max(backoff, _LONGEST_WAIT)),
            retry=retry_if_exception_type(ConnectionLost),
            reraise=True,
        )
        try:
            try:
                # It may work for long before the connection breaks: patience counts from then.
                return await attempt()
            except ConnectionLost:
                if not patience:
                    raise
            answer: Answer = await retrying(attempt)
        except ConnectionLost as gone:
            raise RuntimeLost(f"the runtime at {self.url} is lost: {gone}") from None
        return answer

    async def cancel(self, id: str) -> None:  # noqa: A002
        """Tell the runtime to stop a request, as far as it can be told."""
        if self._connection is not None and self._attached:
            with suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(self.policy.timeout):
                    await self._connection.send(remote_protocol.encode_frame(remote_protocol.Cancel(id)))

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
        if self._connection is not None:
            await self._connection.close()
        self._connection = None

    async def _ask_once(self, question: Question) -> Answer:
        text = remote_protocol.encode_frame(question)
        async with self._connecting:
            connection = await self._get_connection()
        assert self.welcome is not None
        if len(text.encode()) > self.welcome.max_message:
            most = self.welcome.max_message
            raise UsageError(f"the call is larger than the {most} bytes the runtime takes; send less")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = answer
        try:
            await connection.send(text)
            return await answer
        except ConnectionClosed as closed:
            raise ConnectionLost(describe_end(closed)) from None
        finally:
            if self._waiting.get(question.id) is answer:
                del self._waiting[question.id]
            if answer.done() and not answer.cancelled():
                # Asked for, so that nobody warns of it.
                answer.exception()

    async def _get_connection(self) -> ClientConnection:
        """Return a connection through which the runtime knows who asks."""
        if self._connection is None:
            await self._connect()
        connection = self._connection
        assert connection is not None
        if not self._attached:
            try:
                await connection.send(remote_protocol.encode_frame(remote_protocol.Attach(self.agent)))
                said = await self._read_next(connection)
            except (ConnectionLost, ConnectionClosed) as error:
                self._connection = None
                raise ConnectionLost(str(error) if isinstance(error, ConnectionLost) else describe_end(error)) from None
            if not isinstance(said, remote_protocol.Attached):
                raise ConnectionLost("it did not take us in")
            self._attached = True
            self._reader = asyncio.ensure_future(self._read(connection))
        return connection

    async def _connect(self) -> None:
        quiet = logging.getLogger("foregate.websocket")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        try:
            self._connection = await DirectConnect(
                self.url,
                additional_headers={"Authorization": f"Bearer {self._token}"},
                user_agent_header=None,
                create_connection=EndingClient,
                compression=None,
                proxy=None,
                open_timeout=self.policy.timeout,
                close_timeout=_GOODBYE,
                max_size=self.policy.max_message,
                ping_interval=self.policy.ping,
                ping_timeout=self.policy.ping,
                logger=quiet,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            why = "it refused the token" if status == 401 else f"it answered with HTTP {status}"
            raise ConnectionLost(why) from None
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            raise ConnectionLost(f"{error or type(error).__name__}"[:_SHOWN]) from None
        self._attached = False
        try:
            self._greet(await self._read_next(self._connection))
        except ConnectionLost:
            connection, self._connection = self._connection, None
            await connection.close()
            raise

    def _greet(self, said: object) -> None:
        """Check what a runtime says first; one that offers other tools than before is another one."""
        if not isinstance(said, remote_protocol.Welcome) or said.v != remote_protocol.VERSION:
            raise ConnectionLost("it speaks another version of this protocol; update the older side")
        if self.welcome is not None and said.tools != self.welcome.tools:
            raise ConnectionLost("it offers other tools than before; open a new session")
        self.welcome = said

    async def _read_next(self, connection: ClientConnection) -> object:
        """Return the next message of the handshake; raise ConnectionLost with the runtime's reason, or ours."""
        try:
            async with asyncio.timeout(self.policy.timeout):
                said = remote_protocol.parse_frame(
                    await connection.recv(), self.policy.max_message, remote_protocol.FromRuntime
                )
        except TimeoutError:
            raise ConnectionLost("it did not answer in time") from None
        except ConnectionClosed as closed:
            raise ConnectionLost(describe_end(closed)) from None
        except InvalidJson as error:
            raise ConnectionLost(f"it sent what no runtime sends: {error}"[:_SHOWN]) from None
        if isinstance(said, remote_protocol.RequestRefused):
            raise ConnectionLost(said.message[:_SHOWN])
        return said

    async def _read(self, connection: ClientConnection) -> None:
        """Hand each answer to whoever waits for it, until the connection ends."""
        why, stray = "the connection was closed", 0
        try:
            async for message in connection:
                said = remote_protocol.parse_frame(message, self.policy.max_message, remote_protocol.FromRuntime)
                waiting = self._waiting.get(said.id) if isinstance(said, Answer) else None
                if isinstance(said, remote_protocol.RequestRefused):
                    why = said.message[:_SHOWN]
                elif waiting is not None and not waiting.done():
                    waiting.set_result(said)
                elif isinstance(said, Answer):
                    stray += 1
                else:
                    raise InvalidJson("it greets in the middle of a talk")
                if stray > _STRAY:
                    raise InvalidJson("it answers what nobody asked")
        except ConnectionClosed as closed:
            why = describe_end(closed)
        except (InvalidJson, msgspec.DecodeError) as error:
            why = f"it sent what no runtime sends: {error}"[:_SHOWN]
            # Nothing more is read from one that breaks the rules, not even its goodbye.
            connection.transport.abort()
        finally:
            self._connection, self._attached = None, False
            for left in self._waiting.values():
                if not left.done():
                    left.set_exception(ConnectionLost(why))
            await connection.close()


def describe_end(closed: ConnectionClosed) -> str:
    frame = closed.rcvd or closed.sent
    if frame is None:
        return "the connection broke"
    return f"the connection was closed ({frame.code}{f' {frame.reason}' if frame.reason else ''})"[:_SHOWN]
