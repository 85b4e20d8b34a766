"""Where a console listens: one address of this machine, and the names by which a browser may ask for it."""

from __future__ import annotations

import errno
import ipaddress
import socket

from msgspec import Struct

from foregate.schemas.errors import UsageError

PORT = 4747
"""Where a console listens unless it is told otherwise, so that links into it keep."""
LOOPBACK = "127.0.0.1"


class Address(Struct, frozen=True):
    """A host, by number or by name, and the port that is listened on there."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a browser opens it, without an end."""
        return f"http://{_bracket(self.host)}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """What a Host header may say. Any other name is somebody else's that leads here."""
        names = {self.host, *(("localhost",) if is_loopback(self.host) else ())}
        return frozenset(f"{_bracket(name)}:{self.port}".lower() for name in names)

    @property
    def origins(self) -> frozenset[str]:
        """What an Origin header may say."""
        return frozenset(f"http://{host}" for host in self.hosts)


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes one that is free.

    Raises UsageError, one sentence, for an address in use, one that is not this machine's, and one that means all.
    """
    named = host.removeprefix("[").removesuffix("]")
    if not 0 <= port < 65536:
        raise UsageError(f"there is no port {port}; name one from 0 to 65535")
    try:
        found = socket.getaddrinfo(named, port, type=socket.SOCK_STREAM)[0]
        if ipaddress.ip_address(str(found[4][0]).partition("%")[0]).is_unspecified:
            sentence = "means every address of this machine; name the one by which the console is opened"
            raise UsageError(f"`{named[:80]}` {sentence}")
        return socket.create_server(found[4][:2], family=found[0], backlog=128)
    except socket.gaierror:
        raise UsageError(f"`{named[:80]}` is no address of this machine; leave --host out for this machine") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} is in use, perhaps by another console"
            raise UsageError(f"{why}; name another with --port, or 0 for any that is free") from None
        why = error.strerror or str(error)
        raise UsageError(f"cannot listen at {named[:80]}, port {port} ({why}); name another") from None
