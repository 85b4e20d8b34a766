"""Serves what a sandbox is given of the network, from a thread of its own: names, and connections to what they name."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from foregate.agent.sandbox.network_addresses import (
    MOST_BYTES,
    BadHello,
    Reach,
    Streams,
    find_addresses,
    read_server_name,
)
from foregate.agent.sandbox.plan import GivenAccess
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.host import normalise_host

if TYPE_CHECKING:
    import dns.message


Look = Callable[[str], Awaitable[str]]
"""Returns the address that stands for a host inside the sandbox, "" where it has none."""
_MOST_LOOKING = 64
_PATIENCE = 10
"""Seconds a client has to greet, and an address to be connected to."""
_MOST_HOSTS = 1000
_MOST_KEPT = 16


class NameServer(asyncio.DatagramProtocol):
    """Answers at once that there is no such host, but for those that `is_given`, which are looked for.

    `want` hears of each other host whose address was asked for. Nothing that is asked here is passed on.
    """

    def __init__(self, is_given: Callable[[str], bool], look: Look, want: Callable[[str], None]) -> None:
        self._is_given, self._look, self._want = is_given, look, want
        self._looking: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers are sent."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def close(self) -> None:
        """Answer no more."""
        self._transport.close()

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        """Answer a question; what is none stays without an answer."""
        import dns.exception
        import dns.message
        import dns.rdatatype as kinds

        try:
            query = dns.message.from_wire(data, question_only=True)
            (asked,) = query.question
            answer = dns.message.make_response(query, recursion_available=True)
        except (dns.exception.DNSException, ValueError):
            return
        host = normalise_host(asked.name.to_text(omit_final_dot=True))
        if not self._is_given(host):
            if host and asked.rdtype in (kinds.A, kinds.AAAA):
                self._want(host)
            self._send(answer, address, found=False)
        elif len(self._looking) < _MOST_LOOKING:
            work = self._answer(answer, host, address, is_address=asked.rdtype == kinds.A)
            task = asyncio.get_running_loop().create_task(work)
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _answer(self, answer: dns.message.Message, host: str, address: tuple[str, int], is_address: bool) -> None:
        import dns.rrset

        found = await self._look(host)
        if found and is_address:
            answer.answer.append(dns.rrset.from_text(answer.question[0].name, 0, "IN", "A", found))
        self._send(answer, address, found=bool(found))

    def _send(self, answer: dns.message.Message, address: tuple[str, int], *, found: bool) -> None:
        import dns.rcode

        answer.set_rcode(dns.rcode.NOERROR if found else dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), address)


class Traffic(Struct, frozen=True):
    """A sandbox's use of the network: hosts it wanted and was not given, bytes sent to hosts, and failures in words.

    Of hosts and sentences the first 16 are kept, each once.
    """

    wanted: tuple[str, ...] = ()
    sent: int = 0
    notes: tuple[str, ...] = ()


NO_TRAFFIC = Traffic()


class Egress:
    """What of the network a sandbox is given: each connection inside is joined to one that is made out here.

    A host is a name that the sandbox's name server was asked for. Inside, it stands for an address of 127.1.0.0/16, so
    that who connects has said where to, and every program finds its way without being told of a proxy.
    """

    def __init__(self, access: GivenAccess, reach: Reach) -> None:
        self._access, self._reach = access, reach
        self._standing: dict[str, str] = {}
        self._hosts: dict[str, tuple[str, Sequence[str]]] = {}
        self._wanted: dict[str, None] = {}
        self._notes: dict[str, None] = {}
        self._sent = self._connections = 0

    @property
    def traffic(self) -> Traffic:
        """What it did so far."""
        return Traffic(tuple(self._wanted), self._sent, tuple(self._notes))

    async def serve(self, listeners: Sequence[socket.socket], stop: int) -> None:
        """Serve sockets in the order of `open_listeners` until `stop` can be read; then close all there is."""
        names, *streams = listeners
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(stop, stopped.set)
        given = self._access
        ways = [self._serve_host] * len(given["remote_ports"])
        ways += [partial(self._serve_machine, partial(_open_port, port)) for port in given["ports"]]
        ways += [partial(self._serve_machine, partial(_open_socket, path)) for path in given["sockets"]]
        answering = NameServer(self._is_given, self._look, partial(_keep, self._wanted))
        await loop.create_datagram_endpoint(lambda: answering, sock=names)
        servers = [
            await asyncio.start_server(partial(self._accept, way), sock=listener, limit=MOST_BYTES)
            for listener, way in zip(streams, ways, strict=True)
        ]
        await stopped.wait()
        # Which is told of each connection that is cancelled now.
        loop.set_exception_handler(lambda *_: None)
        answering.close()
        for server in servers:
            server.close()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        # In which transports close.
        await asyncio.sleep(0)

    def _is_given(self, host: str) -> bool:
        network = self._access["network"]
        return host in self._access["hosts"] if network == "hosts" else bool(host) and network == "open"

    async def _look(self, host: str) -> str:
        """Return the address that stands for a host inside, "" where it is not to be reached."""
        if host not in self._standing:
            try:
                port = self._access["remote_ports"][0]
                found = await find_addresses(host, port, self._reach.resolve, self._reach.is_refused)
            except WorkspaceError as error:
                _keep(self._notes, str(error))
                return ""
            place = len(self._hosts)
            # Another question about the same host may have been answered while this one waited.
            if host not in self._standing and place < _MOST_HOSTS:
                # 250 in a row, so that no address ends in 0 or 255.
                self._standing[host] = f"127.1.{place // 250}.{place % 250 + 1}"
                self._hosts[self._standing[host]] = (host, found)
        return self._standing.get(host, "")

    async def _accept(
        self, serve: Callable[[Streams], Awaitable[None]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._connections += 1
        try:
            async with _closing((reader, writer)):
                most = self._access["connections"]
                if self._connections > most:
                    raise WorkspaceError(f"no more than {most} connections are given at the same time")
                await serve((reader, writer))
        except WorkspaceError as error:
            _keep(self._notes, str(error))
        except OSError:
            # One side broke; whoever was there has seen it.
            pass
        finally:
            self._connections -= 1

    async def _serve_host(self, inside: Streams) -> None:
        """Join a connection to the host whose address it was made to."""
        address, port = inside[1].get_extra_info("sockname")
        if address not in self._hosts:
            return
        host, addresses = self._hosts[address]
        greeting = b"" if self._access["network"] == "open" else await _read_greeting(inside[0], host)
        async with _closing(await self._connect(host, addresses, port)) as outside:
            self._count(len(greeting))
            outside[1].write(greeting)
            await relay(inside, outside, self._count)

    async def _connect(self, host: str, addresses: Sequence[str], port: int) -> Streams:
        for address in addresses:
            # Which a timeout is as well.
            with suppress(OSError):
                async with asyncio.timeout(_PATIENCE):
                    return await self._reach.open_connection(address, port)
        raise WorkspaceError(f"the host `{host}` could not be connected to at port {port}")

    async def _serve_machine(self, connect: Callable[[], Awaitable[Streams]], inside: Streams) -> None:
        async with _closing(await connect()) as outside:
            await relay(inside, outside)

    def _count(self, sent: int) -> None:
        most = self._access["sent_bytes"]
        if self._sent + sent > most:
            raise WorkspaceError(f"no more than {most} bytes may be sent to hosts (`commands.sandbox.sent`)")
        self._sent += sent


@contextmanager
def serve_sandbox(
    listeners: Sequence[socket.socket], access: GivenAccess, reach: Reach | None = None
) -> Iterator[Egress]:
    """Serve the sockets a sandbox has handed out while the body runs; then they are closed, and the thread has ended.

    Nothing but a sleeping thread is there until somebody inside wants something.
    """
    egress = Egress(access, reach or Reach())
    stop, tell = os.pipe()
    thread = threading.Thread(target=_run, args=(egress, listeners, stop), name="foregate-egress", daemon=True)
    try:
        if listeners:
            thread.start()
        yield egress
    finally:
        if thread.ident is not None:
            os.write(tell, b"x")
            thread.join()
        for descriptor in (stop, tell):
            os.close(descriptor)
        for listener in listeners:
            listener.close()


def _run(egress: Egress, listeners: Sequence[socket.socket], stop: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(stop, selectors.EVENT_READ)
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ)
        ready = {key.fileobj for key, _ in selector.select()}
    if stop not in ready:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(egress.serve(listeners, stop))
        finally:
            loop.close()


@asynccontextmanager
async def _closing(streams: Streams) -> AsyncIterator[Streams]:
    """Close a connection in the end: after the last byte where the body went well, else at once."""
    writer = streams[1]
    try:
        yield streams
        writer.close()
        await writer.wait_closed()
    finally:
        writer.transport.abort()


async def _read_greeting(reader: asyncio.StreamReader, host: str) -> bytes:
    """Return the first bytes of a connection once they say that it is one of TLS to this host."""
    try:
        async with asyncio.timeout(_PATIENCE):
            data = b""
            while (name := read_server_name(data)) is None:
                if not (more := await reader.read(MOST_BYTES)):
                    raise BadHello("it ended too early")
                data += more
        if name != host:
            raise BadHello(f"it names the server `{name}`")
    except (BadHello, TimeoutError) as error:
        why = str(error) or "it did not come"
        raise WorkspaceError(
            f"a connection to `{host}` was ended, which must begin with its TLS greeting: {why}"
        ) from None
    return data


async def _open_port(port: int) -> Streams:
    for address in ("127.0.0.1", "::1"):
        with suppress(OSError):
            return await asyncio.open_connection(address, port)
    raise WorkspaceError(f"nothing listens at port {port} of this machine")


async def _open_socket(path: str) -> Streams:
    try:
        return await asyncio.open_unix_connection(path)
    except OSError as error:
        raise WorkspaceError(f"the socket `{path}` could not be connected to: {error.strerror}") from None


def _keep(kept: dict[str, None], entry: str) -> None:
    if len(kept) < _MOST_KEPT:
        kept[entry] = None


_CHUNK = 65536


async def relay(inside: Streams, outside: Streams, count: Callable[[int], None] | None = None) -> None:
    """Pass bytes in both directions; return when both sides have said their end, and raise OSError where one breaks.

    `count` is told how many bytes are about to be sent outside; what it raises ends both.
    """
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(inside[0], outside[1], count))
            both.create_task(_copy(outside[0], inside[1], None))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, count: Callable[[int], None] | None) -> None:
    while data := await source.read(_CHUNK):
        if count is not None:
            count(len(data))
        sink.write(data)
        await sink.drain()
    sink.write_eof()
