"""Where a request goes: the canonical form of a URL, and the one address it is sent to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from foregate.policy.risk.http import is_private, read_host
from foregate.schemas.errors import WorkspaceError

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host and port; raises OSError when there are none."""

_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8192


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """A URL in parts. `host` is lower-case ASCII without brackets, `port` explicit, `path` holds the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The canonical URL: default port left out, no user, no fragment."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse_address(url: str) -> HttpAddress:
    """Return the parts of an http or https URL; raise WorkspaceError for anything that could be read in two ways."""
    host = read_host(url) if len(url) <= _MAX_URL else ""
    if not host:
        raise WorkspaceError(f"`{url[:80]}` is no plain http or https URL; give one like https://example.org/path")
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    path = quote((parts.path or "/") + query, safe="/%?[]@!$&'()*+,;=:~-._")
    return HttpAddress(parts.scheme, host, parts.port or _PORTS[parts.scheme], path)


def is_public(address: str) -> bool:
    """Whether an address may be connected to."""
    return not is_private(address)


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Return what the system's resolver says."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def pin_address(address: HttpAddress, resolve: Resolve, acceptable: Callable[[str], bool]) -> str:
    """Look a host up once and return the address to connect to; raise WorkspaceError unless all of them will do."""
    try:
        addresses = await resolve(address.host, address.port)
    except OSError as error:
        raise WorkspaceError(f"the host `{address.host}` was not found ({error.strerror or error})") from None
    if not addresses:
        raise WorkspaceError(f"the host `{address.host}` was not found")
    if not all(acceptable(found) for found in addresses):
        raise WorkspaceError(f"the host `{address.host}` has an address that is not public; nothing was sent")
    return addresses[0]
