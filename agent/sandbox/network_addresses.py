"""How a host is reached: the name in a client's first message of TLS, and its addresses, looked up once, all public."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from foregate.schemas.errors import WorkspaceError
from foregate.schemas.host import is_private, normalise_host

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host and port; raises OSError when there are none."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MOST_BYTES = 16384
_RECORD, _HELLO, _SERVER_NAME, _ENCRYPTED_HELLO, _HOST = 22, 1, 0, 0xFE0D, 0


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses that this machine knows for a host, each once."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def find_addresses(host: str, port: int, resolve: Resolve, is_refused: Callable[[str], bool]) -> Sequence[str]:
    """Return the addresses of a host; raise WorkspaceError where it has none, or one of them is refused."""
    try:
        addresses = await resolve(host, port)
    except OSError as error:
        raise WorkspaceError(f"the host `{host}` was not found ({error.strerror or error})") from None
    if not addresses:
        raise WorkspaceError(f"the host `{host}` was not found")
    if any(map(is_refused, addresses)):
        raise WorkspaceError(f"the host `{host}` has an address that is not public; nothing was sent")
    return addresses


class Reach(Struct, frozen=True):
    """How hosts are looked up, which addresses are refused, and how one is connected to.

    `open_connection` takes an address and a port, and raises OSError.
    """

    resolve: Resolve = system_resolve
    is_refused: Callable[[str], bool] = is_private
    open_connection: Callable[[str, int], Awaitable[Streams]] = asyncio.open_connection


class BadHello(ValueError):
    """What a client sent is no greeting of TLS with one plain server name; the message says why."""


class _Cut(Exception):
    """The message ends before it is whole."""


class _HelloReader:
    """Reads numbers and counted parts from bytes; `error` is raised where they end too early."""

    def __init__(self, data: bytes, error: Exception) -> None:
        self._data, self._error = data, error

    def __len__(self) -> int:
        return len(self._data)

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count > len(self._data):
            raise self._error
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def number(self, size: int) -> int:
        """Return the next number, which has so many bytes."""
        return int.from_bytes(self.take(size))

    def part(self, size: int) -> _HelloReader:
        """Return the next part, before which its length stands in so many bytes; the part must hold what is read."""
        return _HelloReader(self.take(self.number(size)), BadHello("it is cut off inside"))


def read_server_name(data: bytes) -> str | None:
    """Return the server name in the bytes a client has sent so far, None where the greeting is not whole yet.

    It may lie in several records. Raises BadHello for anything else than TLS, for a greeting that is too long, has no
    server name or more than one, and for one that is encrypted: what name that holds nobody here can see.
    """
    try:
        message = _join_records(_HelloReader(data, _Cut()))
    except _Cut:
        if len(data) > MOST_BYTES:
            raise BadHello("it is too long") from None
        return None
    # Version, random.
    message.take(2 + 32)
    message.part(1)
    message.part(2)
    # Session, ciphers, compressions.
    message.part(1)
    extensions = message.part(2)
    if len(message):
        raise BadHello("something follows after its end")
    found: dict[int, _HelloReader] = {}
    while len(extensions):
        kind = extensions.number(2)
        if kind in found:
            raise BadHello("it says something twice")
        found[kind] = extensions.part(2)
    if _ENCRYPTED_HELLO in found:
        raise BadHello("its server name is encrypted")
    if _SERVER_NAME not in found:
        raise BadHello("it has no server name")
    return _read_name(found[_SERVER_NAME])


def _join_records(records: _HelloReader) -> _HelloReader:
    """Return the body of the greeting, which may lie in several records."""
    joined = bytearray()
    while len(joined) < 4 or len(joined) < 4 + int.from_bytes(joined[1:4]):
        if records.number(1) != _RECORD or records.number(1) != 3:
            raise BadHello("it is not TLS")
        records.take(1)
        size = records.number(2)
        if not 0 < size <= MOST_BYTES:
            raise BadHello("a record has an impossible length")
        joined += records.take(size)
        if joined[0] != _HELLO:
            raise BadHello("it does not begin with a greeting")
    if len(joined) > 4 + int.from_bytes(joined[1:4]):
        raise BadHello("something follows after its end")
    return _HelloReader(bytes(joined[4:]), BadHello("it is cut off inside"))


def _read_name(extension: _HelloReader) -> str:
    names = extension.part(2)
    kind, name = names.number(1), names.part(2)
    host = normalise_host(name.take(len(name)).decode("ascii", "replace"))
    if kind != _HOST or len(names) or len(extension) or not host:
        raise BadHello("its server name is none")
    return host
