"""Hosts of the world for programs in sandboxes: servers on loopback, and a way to them that reaches nothing else."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import trustme

from foregate.agent.sandbox.egress import Traffic, serve_sandbox
from foregate.agent.sandbox.network_addresses import Reach, Streams
from foregate.agent.sandbox.plan import GivenAccess, build_no_access
from tests.agent.sandbox.place import CANARY, LAUNCH, Place
from tests.forever import FOREVER

HOSTS = ("given.example", "other.example")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


@dataclass
class World:
    """A server of TLS and a plain one, what they were sent, and which names were looked up.

    `addresses` are what each host is said to have.
    """

    authority: bytes
    ports: dict[int, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    connections: int = 0
    addresses: dict[str, list[str]] = field(default_factory=lambda: {host: ["192.0.2.1"] for host in HOSTS})
    is_refused: Callable[[str], bool] = lambda _: False

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.addresses.get(host, [])

    async def open_connection(self, address: str, port: int) -> Streams:
        """Connect to the server that stands for this port of any host."""
        if address != "192.0.2.1" or port not in self.ports:
            raise ConnectionRefusedError
        return await asyncio.open_connection("127.0.0.1", self.ports[port])

    @property
    def reach(self) -> Reach:
        return Reach(self.resolve, self.is_refused, self.open_connection)

    def serve(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Answer each connection once, until the listener is closed."""
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                self.connections += 1
                with suppress(OSError), connection:
                    connection.settimeout(FOREVER)
                    self.answer(context.wrap_socket(connection, server_side=True) if context else connection)

    def answer(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                self.received += data
                if self.received.endswith((b"\r\n\r\n", b"end")):
                    connection.sendall(ANSWER)
                    return


@contextmanager
def open_world() -> Iterator[World]:
    """Yield a world whose servers run; they have ended afterwards."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*HOSTS).configure_cert(context)
    world = World(authority.cert_pem.bytes())
    listeners = {443: socket.create_server(("127.0.0.1", 0)), 80: socket.create_server(("127.0.0.1", 0))}
    world.ports = {port: listener.getsockname()[1] for port, listener in listeners.items()}
    threads = [
        threading.Thread(target=world.serve, args=(listener, context if port == 443 else None))
        for port, listener in listeners.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield world
    finally:
        for listener in listeners.values():
            listener.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for listener in listeners.values():
            listener.close()


def give(**changes: object) -> GivenAccess:
    """Return an access with bounds that are not met."""
    return {**build_no_access(), "sent_bytes": 1 << 20, "connections": 8, **changes}  # type: ignore[typeddict-item]


def give_hosts(*hosts: str, **changes: object) -> GivenAccess:
    """Return an access to hosts by HTTPS."""
    return give(network="hosts", hosts=list(hosts), remote_ports=[443], **changes)


@dataclass(frozen=True)
class Ran:
    """What came of a program in a sandbox."""

    code: int
    out: str
    err: str
    traffic: Traffic


def start_served(place: Place, access: GivenAccess, *argv: str) -> tuple[subprocess.Popen[bytes], list[socket.socket]]:
    """Start a program in a sandbox, and return it with the sockets that listen there."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-IS", str(LAUNCH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"CANARY": CANARY},
            pass_fds=[theirs.fileno()],
        )
        assert process.stdin is not None
        process.stdin.write(place.request(argv, line=theirs.fileno(), access=access))
        process.stdin.close()
        process.stdin = None  # so that `communicate` does not look for it
        theirs.close()
        descriptors = socket.recv_fds(ours, 16, 250)[1]
    return process, [socket.socket(fileno=descriptor) for descriptor in descriptors]


def run_served(place: Place, access: GivenAccess, *argv: str, reach: Reach | None = None) -> Ran:
    """Run a program in a sandbox with what it is given, as `run_program` does."""
    process, listeners = start_served(place, access, *argv)
    with process, serve_sandbox(listeners, access, reach) as egress:
        out, err = process.communicate(timeout=FOREVER)
    return Ran(process.returncode, out.decode(), err.decode(), egress.traffic)
