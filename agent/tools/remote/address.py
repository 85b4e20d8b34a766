"""Where a runtime is: a WebSocket address, and whether what is said on the way can be overheard."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from foregate.schemas.errors import UsageError


@dataclass(frozen=True, slots=True)
class RuntimeAddress:
    """A checked address; `url` is how it is shown and recorded."""

    url: str
    secure: bool


def parse_address(text: str, *, insecure: bool = False) -> RuntimeAddress:
    """Return the address of a runtime.

    Raises UsageError for what is none, for one that holds a secret, and without TLS for another machine unless
    `insecure` says that this is meant.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("ws", "wss") or not host or any(c.isspace() or not c.isprintable() for c in text):
        raise UsageError(f"`{text[:80]}` is no runtime; write ws://127.0.0.1:PORT or wss://HOST:PORT")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError("a runtime's address holds no token, user or query; put the token in FOREGATE_RUNTIME_TOKEN")
    if parts.scheme == "ws" and not is_loopback(host) and not insecure:
        raise UsageError(
            f"`{host[:80]}` is another machine, and ws:// lets everybody on the way read and change what is said; "
            "use wss://, or say --insecure-runtime"
        )
    name = f"[{host}]" if ":" in host else host
    return RuntimeAddress(
        f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path or '/'}", parts.scheme == "wss"
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
