"""The openings of a sandbox: sockets that listen inside and are handed to Foregate, which serves them from outside.

The sandbox keeps a network of its own, which leads nowhere. Whoever inside connects to one of these sockets speaks with
Foregate, and with nobody else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from pathlib import Path

from foregate.agent.sandbox.namespaces import NO_DEVICES, NO_SETUID, READ_ONLY, attach, clone_tree
from foregate.agent.sandbox.plan import GivenAccess
from foregate.agent.sandbox.system_calls import name_step

_RESOLVER = "/etc/resolv.conf"
_RESOLVER_TEXT = "nameserver 127.0.0.1\nsearch .\n"
_GET_FLAGS, _SET_FLAGS, _SET_ADDRESS, _UP = 0x8913, 0x8914, 0x8916, 1
_INTERFACE, _ADDRESS = struct.Struct("16sH22x"), struct.Struct("16sH2x4s16x")
_NAME_PORT, _WAITING = 53, 128


def open_listeners(access: GivenAccess) -> list[socket.socket]:
    """Return listening sockets: of the name server, of each port of the network, of each loopback port and Unix socket.

    The caller still has the powers of the first process, and the root folder of the plan. Raises StepFailed.
    """
    with name_step("openings", "what the sandbox is given of the network could not be opened"):
        names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        names.bind(("127.0.0.1", _NAME_PORT))
        listeners = [names]
        listeners += [_listen_at("0.0.0.0", port) for port in access["remote_ports"]]  # noqa: S104 - its own network
        listeners += [_listen_at("127.0.0.1", port) for port in access["ports"]]
        return listeners + [_listen_at_path(path) for path in access["sockets"]]


def bring_up_loopback() -> None:
    """Let programs inside reach each other by 127.0.0.1 and ::1. Raises StepFailed."""
    with (
        name_step("loopback", "the sandbox's own loopback network could not be turned on"),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket,
    ):
        flags = _INTERFACE.unpack(fcntl.ioctl(any_socket, _GET_FLAGS, _INTERFACE.pack(b"lo", 0)))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, _INTERFACE.pack(b"lo", flags | _UP))
        # With 127.0.0.1 alone a C library counts as without a network, and asks no name server for some programs.
        second = _ADDRESS.pack(b"lo:1", socket.AF_INET, socket.inet_aton("127.0.0.2"))
        fcntl.ioctl(any_socket, _SET_ADDRESS, second)


def hand_out(listeners: list[socket.socket], line: int) -> None:
    """Give the sockets to whoever is at the other end of the line, and let go of both. Raises StepFailed."""
    with name_step("openings", "the sandbox's sockets could not be handed out"), socket.socket(fileno=line) as told:
        socket.send_fds(told, [b"{}\n"], [listener.fileno() for listener in listeners])
    for listener in listeners:
        listener.close()


def _listen_at(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port of this machine may be one of those of the network as well: the more exact address gets the connection.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((address, port))
    listener.listen(_WAITING)
    return listener


def _listen_at_path(path: str) -> socket.socket:
    """Return a socket that listens at a path where a file was put for it; what lies above may be read-only."""
    made = "/tmp/.listener"  # noqa: S108 - the sandbox's own, and nothing runs in it yet
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(made)
    listener.listen(_WAITING)
    attach(clone_tree(made, READ_ONLY | NO_SETUID | NO_DEVICES), path)
    Path(made).unlink()
    return listener


def show_openings(access: GivenAccess, folder: str) -> None:
    """Say where the name server is, and put a file where each Unix socket will listen; `folder` takes what is made."""
    found = Path(os.path.realpath(_RESOLVER))
    # Without a file a C library asks 127.0.0.1 as well, only for more names than the program wanted.
    if _is_there(found):
        made = Path(folder, "resolver")
        made.write_text(_RESOLVER_TEXT)
        made.chmod(0o444)
        attach(clone_tree(str(made), READ_ONLY | NO_SETUID | NO_DEVICES), str(found))
    for path in access["sockets"]:
        _is_there(Path(path))


def _is_there(path: Path) -> bool:
    """Whether something is at the path, or an empty file could be made there."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not path.exists():
            path.touch(0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return False
    return True
