"""Whoever listens in the world: on ports and sockets that something might be sent to, and as the server of names."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

PORTS = (21, 22, 25, 53, 80, 443, 873, 2375, 3306, 4444, 5432, 6379, 8080, 9418, 9999)
AGENT, DOCKER, ABSTRACT = "/run/agent.sock", "/run/docker.sock", "\0foregate-canary"
ADDRESS = "192.0.2.7"
"""What every name means in this world."""


class Listeners:
    """Threads that note who comes; `take` returns the notes since it was last called."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._selector = selectors.DefaultSelector()
        for port in PORTS:
            self._listen(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", port), f"tcp {port}")
            self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", port), f"udp {port}")
        for path in (AGENT, DOCKER, ABSTRACT):
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, path, f"socket {path}".replace("\0", "@"))
            if path.startswith("/"):
                Path(path).chmod(0o777)
        Path("/etc/resolv.conf").unlink(missing_ok=True)
        Path("/etc/resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self) -> list[str]:
        """Return who came, and forget it."""
        self._notes, notes = [], self._notes
        return notes

    def _listen(self, family: int, kind: int, address: object, name: str) -> None:
        stream = socket.socket(family, kind)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(PermissionError):  # who is not root has no low ports
            stream.bind(address)
            if kind == socket.SOCK_STREAM:
                stream.listen(64)
            stream.setblocking(False)
            self._selector.register(stream, selectors.EVENT_READ, name)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                stream = key.fileobj
                assert isinstance(stream, socket.socket)
                with suppress(OSError):
                    if stream.type == socket.SOCK_STREAM:
                        stream.accept()[0].close()
                        self._notes.append(key.data)
                        continue
                    asked, sender = stream.recvfrom(4096)
                    self._notes.append(f"{key.data}: {read_name(asked)}" if key.data == "udp 53" else key.data)
                    if key.data == "udp 53":
                        stream.sendto(answer_name(asked), sender)


def read_name(asked: bytes) -> str:
    """Return the name a question is about."""
    names, at = [], 12
    while at < len(asked) and asked[at]:
        names.append(asked[at + 1 : at + 1 + asked[at]].decode("ascii", "replace"))
        at += 1 + asked[at]
    return ".".join(names)


def answer_name(asked: bytes) -> bytes:
    """Return the answer to a question about a name: the one address."""
    end = asked.index(0, 12) + 5
    head = asked[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
    return head + asked[12:end] + struct.pack(">HHHIH", 0xC00C, 1, 1, 1, 4) + socket.inet_aton(ADDRESS)
