"""What serves a sandbox ends with the call, however that ends: no thread, no socket and no connection is left."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from foregate.agent.sandbox.egress import serve_sandbox
from tests.agent.sandbox.network_world import World, give, give_hosts, run_served, start_served
from tests.agent.sandbox.place import PATH, Place

PYTHON = shutil.which("python3", path=PATH)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
HOLD = """
import socket, sys
held = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(3)]
held[0].sendall(b'begun')
print(held[0].recv(5).decode(), flush=True)
socket.getaddrinfo('given.example', 443)
print('found', flush=True)
held[0].recv(1)
"""


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _fail_after(work: Callable[[], None]) -> None:
    work()
    raise KeyError


def list_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "egress" in thread.name]


@pytest.mark.parametrize("how", ["killed", "left"])
def test_nothing_is_left_of_what_was_served_when_a_call_is_ended_in_the_middle(
    place: Place, world: World, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = count_descriptors()
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        access = give_hosts("given.example", ports=[port])
        process, listeners = start_served(place, access, PYTHON or "", "-c", HOLD, str(port))
        with process, serve_sandbox(listeners, access, world.reach):
            connection = service.accept()[0]
            connection.sendall(connection.recv(5))
            assert process.stdout is not None
            assert process.stdout.readline() + process.stdout.readline() == b"begun\nfound\n"
            assert list_threads() == ["foregate-egress"]
            if how == "killed":
                process.kill()
                process.wait()
        with connection:
            assert connection.recv(1) == b""
    assert list_threads() == []
    assert caplog.records == []
    assert all(listener.fileno() == -1 for listener in listeners)
    assert count_descriptors() == before


def test_nothing_is_left_where_nobody_wanted_anything(place: Place) -> None:
    before = count_descriptors()
    assert run_served(place, give(), "true").code == 0
    assert list_threads() == []
    assert count_descriptors() == before


def test_an_error_in_the_middle_leaves_nothing_either(place: Place) -> None:
    before = count_descriptors()
    process, listeners = start_served(place, give(), "sleep", "1000")
    with pytest.raises(KeyError), process, serve_sandbox(listeners, give()):
        _fail_after(process.kill)
    assert list_threads() == []
    assert count_descriptors() == before


def test_a_sandbox_that_cannot_start_its_program_has_handed_out_nothing_that_stays(place: Place) -> None:
    before = count_descriptors()
    ran = run_served(place, give(ports=[5]), "/nowhere/program")
    assert "cannot be started in the sandbox" in ran.err
    assert count_descriptors() == before


def test_no_program_inside_holds_a_socket_of_the_openings(place: Place) -> None:
    """Who held the name server's could answer others in its place, and the line leads to Foregate."""
    script = "import os; print(sorted(os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')[:3]))"
    ran = run_served(place, give(ports=[5432]), PYTHON or "", "-c", script)
    assert ran.code == 0, ran.err
    assert "socket" not in ran.out
    ran = run_served(place, give(ports=[5432]), "sh", "-c", "ls -l /proc/1/fd /proc/*/fd | grep socket")
    assert ran.out == ""


@pytest.mark.parametrize("port", [53, 443])
def test_no_program_inside_can_take_the_place_of_an_opening(place: Place, world: World, port: int) -> None:
    kind = "SOCK_DGRAM" if port == 53 else "SOCK_STREAM"
    script = (
        f"import socket\ns = socket.socket(socket.AF_INET, socket.{kind})\n"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        f"try: s.bind(('127.0.0.1', {port}))\nexcept OSError as error: print(error.strerror)"
    )
    ran = run_served(place, give_hosts("given.example"), PYTHON or "", "-c", script, reach=world.reach)
    assert ran.out in ("Permission denied\n", "Address already in use\n")


def test_the_resolver_of_the_machine_is_not_changed(place: Place) -> None:
    before = Path("/etc/resolv.conf").read_text()
    assert run_served(place, give(), "cat", "/etc/resolv.conf").out == "nameserver 127.0.0.1\nsearch .\n"
    assert Path("/etc/resolv.conf").read_text() == before
