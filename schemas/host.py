"""Names and addresses of hosts: how they are compared, and which addresses are not public."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from foregate.schemas.late_pattern import compile_late

# "example.org", "my_host.example.org".
_HOST = compile_late(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_NUMBER = compile_late(r"(^|\.)(\d+|0x[0-9a-f]*)$")
"""A last label that is a number: some resolvers read the whole as an address (`0x7f.1`)."""
_TRANSLATED = tuple(ip_network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48"))
_NOT_PUBLIC = tuple(ip_network(net) for net in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"))
"""Protocol assignments, relays of 6to4, a cloud's host agent and examples, which look public to this Python."""


def normalise_host(host: str) -> str:
    """Return a host name as it is compared: lower case, no final dot, addresses in their one form; "" for none."""
    host = host.lower().removesuffix(".").removeprefix("[").removesuffix("]")
    try:
        return str(ip_address(host))
    except ValueError:
        return host if len(host) <= 253 and _HOST.fullmatch(host) and not _NUMBER.search(host) else ""


def is_private(address: str | IPv4Address | IPv6Address) -> bool:
    """Whether an address must not be reached: anything but a public unicast address, and what is no address at all.

    Addresses that carry another one (v4-mapped, 6to4, Teredo, NAT64) are judged by both.
    """
    try:
        ip = ip_address(address.partition("%")[0]) if isinstance(address, str) else address
    except ValueError:
        return True
    if not ip.is_global or ip.is_multicast or ip.is_reserved or any(ip in net for net in _NOT_PUBLIC):
        return True
    return isinstance(ip, IPv6Address) and (
        ip.is_site_local or any(is_private(inner) for inner in _find_inner_addresses(ip))
    )


def _find_inner_addresses(ip: IPv6Address) -> list[IPv4Address]:
    found = [inner for inner in (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())) if inner is not None]
    # "::192.0.2.1", the old form of an IPv4 address.
    if int(ip) >> 32 == 0 or any(ip in net for net in _TRANSLATED):
        found.append(IPv4Address(int(ip) & 0xFFFFFFFF))
    return found


def is_address(host: str) -> bool:
    """Whether a host is written as an address, not as a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
