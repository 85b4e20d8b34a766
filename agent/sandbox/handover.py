"""Requests between the processes that start programs: a body of JSON, and the descriptors that come with it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

_HEAD = struct.Struct("!I")
_MOST_DESCRIPTORS = 64


def send_request(line: socket.socket, body: bytes, descriptors: Sequence[int]) -> None:
    """Send a request; whoever receives it has descriptors of its own. Raises OSError where nobody does any more."""
    socket.send_fds(line, [_HEAD.pack(len(body))], descriptors)
    line.sendall(body)


def receive_request(line: socket.socket) -> tuple[bytes, list[int]] | None:
    """Wait for a request and return it; None when there will be none any more."""
    head, descriptors, _, _ = socket.recv_fds(line, _HEAD.size, _MOST_DESCRIPTORS)
    if len(head) < _HEAD.size:
        return None
    for descriptor in descriptors:
        # What comes over a socket is handed on to every program that is started, unless one says otherwise.
        os.set_inheritable(descriptor, False)
    size, body = _HEAD.unpack(head)[0], bytearray()
    while len(body) < size and (more := line.recv(size - len(body))):
        body += more
    return (bytes(body), descriptors) if len(body) == size else None
