"""A sandbox reaches the hosts it is given, by their names and by TLS to those names, and nothing else of the world."""

from __future__ import annotations

import shutil

import pytest

from foregate.agent.sandbox import egress
from foregate.agent.sandbox.plan import GivenAccess
from tests.agent.sandbox.network_world import Ran, World, give, give_hosts, run_served
from tests.agent.sandbox.place import PATH, Place

PYTHON = shutil.which("python3", path=PATH)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
GIVEN = give_hosts("given.example")
ROUND = """
import os, socket, ssl, sys
def find(host='given.example'):
    return socket.getaddrinfo(host, 443, socket.AF_INET)[0][4][0]
def connect(address=None, port=443):
    return socket.create_connection((address or find(), port), 20)
def greet(name='given.example', plain=None, **more):
    context = ssl.create_default_context(cafile='ca.pem')
    context.check_hostname = name is not None
    return context.wrap_socket(plain or connect(), server_hostname=name, **more)
def request(connection, body=b''):
    connection.sendall(b'POST / HTTP/1.1\\r\\n' + body + b'\\r\\n\\r\\n')
    answer = b''
    while data := connection.recv(4096):
        answer += data
    return answer[-5:].decode()
try:
    print(eval(sys.argv[1]))
except OSError as error:
    print(type(error).__name__)
"""


def do(place: Place, world: World, expression: str, access: GivenAccess = GIVEN) -> Ran:
    """Evaluate an expression of the script above in a sandbox."""
    ran = run_served(place, access, PYTHON or "", "-c", ROUND, expression, reach=world.reach)
    assert ran.code == 0, ran.err
    return ran


def test_a_host_that_is_given_is_reached_and_what_is_sent_is_counted(place: Place, world: World) -> None:
    ran = do(place, world, "request(greet(), bytes(5000))")
    assert (ran.out, ran.traffic.wanted, ran.traffic.notes) == ("hello\n", (), ())
    assert len(world.received) > 5000
    assert 5000 < ran.traffic.sent < 8000


@pytest.mark.skipif(shutil.which("curl", path=PATH) is None, reason="curl is not installed")
def test_a_program_needs_no_proxy_to_be_told_of(place: Place, world: World) -> None:
    words = ["curl", "-sS", "--cacert", "ca.pem"]
    assert run_served(place, GIVEN, *words, "https://given.example/", reach=world.reach).out == "hello"
    other = run_served(place, GIVEN, *words, "https://other.example/", reach=world.reach)
    assert (other.code, other.out, other.traffic.wanted) == (6, "", ("other.example",))
    assert world.asked.count("other.example") == 0


@pytest.mark.skipif(shutil.which("git", path=PATH) is None, reason="git is not installed")
def test_git_asks_for_the_host_it_would_fetch_from(place: Place, world: World) -> None:
    ran = run_served(place, give(), "git", "ls-remote", "https://given.example/a.git", reach=world.reach)
    assert ran.code != 0
    assert ran.traffic.wanted == ("given.example",)


@pytest.mark.parametrize(
    ("expression", "note"),
    [
        ("request(greet('other.example'))", "it names the server `other.example`"),
        ("request(greet(None))", "it has no server name"),
        ("request(connect())", "it is not TLS"),
        ("connect().sendall(b'SSH-2.0-x') or request(connect())", "it is not TLS"),
    ],
)
def test_an_address_that_stands_for_a_host_serves_nothing_but_tls_to_that_name(
    place: Place, world: World, expression: str, note: str
) -> None:
    ran = do(place, world, expression)
    assert "hello" not in ran.out
    assert note in " ".join(ran.traffic.notes)
    assert (world.connections, ran.traffic.sent) == (0, 0)


@pytest.mark.parametrize(
    "expression",
    [
        "connect('192.0.2.1')",
        "connect('2001:db8::1')",
        "connect('::ffff:192.0.2.1')",
        "connect('::1', {tls})",
        "connect('127.0.0.1', {tls})",
        "connect('127.1.0.1', {tls})",
        "connect('0.0.0.0', {tls})",
        "connect('169.254.169.254', 80)",
        "connect(find(), 80)",
        "connect('127.0.0.1', 53)",
        "connect('other.example')",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 443))",
        "socket.socket(socket.AF_UNIX)",
    ],
)
def test_no_other_way_leads_out(place: Place, world: World, expression: str) -> None:
    ran = do(place, world, expression.format(tls=world.ports[443]))
    assert ran.out.strip() in ("OSError", "ConnectionRefusedError", "gaierror", "PermissionError")
    assert (world.connections, ran.traffic.sent) == (0, 0)


def test_an_address_nobody_asked_for_stands_for_no_host(place: Place, world: World) -> None:
    ran = do(place, world, "find() and request(connect('127.1.0.2'))")
    assert "hello" not in ran.out
    assert world.connections == 0


def test_a_host_is_looked_up_once_and_connected_to_at_an_address_found_then(place: Place, world: World) -> None:
    ran = do(place, world, "find() and request(greet()) + request(greet()) + find()")
    assert ran.out == "hellohello127.1.0.1\n"
    world.addresses["given.example"] = ["192.0.2.9", "192.0.2.1"]
    assert do(place, world, "request(greet())").out == "hello\n"
    world.addresses["given.example"] = ["192.0.2.9"]
    ran = do(place, world, "request(greet())")
    assert ran.traffic.notes == ("the host `given.example` could not be connected to at port 443",)


def test_no_more_is_sent_than_the_bound(place: Place, world: World) -> None:
    access = give_hosts("given.example", sent_bytes=100_000)
    ran = do(place, world, "request(greet(), bytes(400_000))", access)
    assert "hello" not in ran.out
    assert len(world.received) <= 100_000
    assert ran.traffic.sent <= 100_000
    assert ran.traffic.notes == ("no more than 100000 bytes may be sent to hosts (`commands.sandbox.sent`)",)


def test_the_bound_is_one_for_all_connections(place: Place, world: World) -> None:
    access = give_hosts("given.example", sent_bytes=100_000)
    ran = do(place, world, "[request(greet(), bytes(40_000)) for _ in range(3)]", access)
    assert len(world.received) <= 100_000
    assert len(ran.traffic.notes) == 1


def test_no_more_connections_are_held_than_the_bound(place: Place, world: World) -> None:
    access = give_hosts("given.example", connections=1)
    ran = do(place, world, "(one := greet()) and connect().recv(1), request(one)", access)
    assert ran.out in ("(b'', 'hello')\n", "ConnectionResetError\n")
    assert ran.traffic.notes == ("no more than 1 connections are given at the same time",)


def test_a_client_that_says_nothing_is_not_waited_for(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egress, "_PATIENCE", 0.01)
    ran = do(place, world, "connect().recv(1)")
    assert ran.out in ("b''\n", "ConnectionResetError\n")
    assert "it did not come" in " ".join(ran.traffic.notes)


OPEN = give(network="open", remote_ports=[80, 443])


def test_where_the_network_is_open_any_name_is_reached_at_the_listed_ports_and_no_name_must_be_said(
    place: Place, world: World
) -> None:
    for expression in (
        "request(greet('other.example', connect(find('other.example'))))",
        "request(connect(find(), 80))",
    ):
        ran = do(place, world, expression, OPEN)
        assert (ran.out, ran.traffic.wanted) == ("hello\n", ())
        assert ran.traffic.sent > 20


@pytest.mark.parametrize(
    "expression",
    [
        "connect(find(), 22)",
        "connect('192.0.2.1', 80)",
        "connect('127.0.0.1', {tls})",
        "connect('::1', {tls})",
        "connect('private.example', 80)",
    ],
)
def test_where_the_network_is_open_neither_this_machine_nor_private_hosts_are_reached(
    place: Place, world: World, expression: str
) -> None:
    world.is_refused = lambda address: address != "192.0.2.1"
    world.addresses["private.example"] = ["10.0.0.1"]
    ran = do(place, world, expression.format(tls=world.ports[443]), OPEN)
    assert ran.out.strip() in ("OSError", "ConnectionRefusedError", "gaierror")
    assert (world.connections, ran.traffic.sent) == (0, 0)


def test_where_the_network_is_open_what_is_sent_is_bounded_as_well(place: Place, world: World) -> None:
    ran = do(place, world, "request(connect(find(), 80), bytes(400_000))", {**OPEN, "sent_bytes": 100_000})
    assert "hello" not in ran.out
    assert len(world.received) <= 100_000
