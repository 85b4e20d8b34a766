"""How a host is reached: its addresses looked up once, every one of them public, and a connection to one of those."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from foregate.schemas.errors import WorkspaceError
from foregate.schemas.host import is_private

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host and port; raises OSError when there are none."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


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
