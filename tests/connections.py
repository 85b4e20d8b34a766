"""Every connection that this process opens, seen by the interpreter itself, and none beyond this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_watchers: list[set[tuple[str, int]]] = []


def _note_connection(event: str, given: tuple[Any, ...]) -> None:
    if not _watchers or event not in ("socket.connect", "socket.getaddrinfo"):
        return
    place = given[1] if event == "socket.connect" else (given[0], given[1])
    if not isinstance(place, tuple):
        return  # a path of this machine
    host, port = str(place[0]), int(place[1] or 0)
    for seen in _watchers:
        seen.add((host, port))
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise ConnectionRefusedError(f"a test wanted to reach {host}")


sys.addaudithook(_note_connection)  # it cannot be taken away, so it does nothing where nobody watches


@contextmanager
def watch_connections() -> Iterator[set[tuple[str, int]]]:
    """Yield the hosts and ports that are connected to, or whose names are looked up, in the block."""
    seen: set[tuple[str, int]] = set()
    _watchers.append(seen)
    try:
        yield seen
    finally:
        _watchers.remove(seen)
