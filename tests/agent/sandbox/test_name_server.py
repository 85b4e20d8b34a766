"""In every sandbox a name server says at once that a host is not there, and keeps which one was wanted."""

from __future__ import annotations

import shutil

import dns.message
import pytest

from tests.agent.sandbox.network_world import World, give, give_hosts, run_served
from tests.agent.sandbox.place import PATH, Place

PYTHON = shutil.which("python3", path=PATH)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
ASK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(240)
s.connect(('127.0.0.1', 53))
for line in sys.argv[1:]:
    s.send(bytes.fromhex(line))
print(s.recv(4096).hex())
"""


def look_up(place: Place, world: World, *hosts: str) -> tuple[str, tuple[str, ...]]:
    """Look hosts up where nothing is given; return what is printed, and the hosts that were wanted."""
    lines = "import socket, sys\nfor host in sys.argv[1:]:\n try: print(socket.getaddrinfo(host, 443))\n"
    lines += " except OSError as error: print(error)"
    assert PYTHON is not None
    ran = run_served(place, give(), PYTHON, "-c", lines, *hosts, reach=world.reach)
    assert ran.code == 0, ran.err
    return ran.out, ran.traffic.wanted


def ask(place: Place, world: World, kind: str, name: str = "given.example", *before: bytes) -> dns.message.Message:
    """Return what the name server answers to a question of one kind, after other bytes were sent to it."""
    query = dns.message.make_query(name, kind).to_wire()
    words = [PYTHON or "", "-c", ASK, *(data.hex() for data in (*before, query))]
    ran = run_served(place, give_hosts("given.example"), *words, reach=world.reach)
    assert ran.code == 0, ran.err
    return dns.message.from_wire(bytes.fromhex(ran.out))


def test_a_host_that_is_wanted_is_not_found_and_is_remembered(place: Place, world: World) -> None:
    out, wanted = look_up(place, world, "packages.example", "Files.Example", "packages.example")
    assert out.count("Name or service not known") == 3
    assert wanted == ("packages.example", "files.example")
    assert world.asked == []


def test_what_is_written_into_names_reaches_nobody_and_fills_no_memory(place: Place, world: World) -> None:
    out, wanted = look_up(place, world, *(f"part{number}.evil.example" for number in range(40)))
    assert out.count("Name or service not known") == 40
    assert wanted == tuple(f"part{number}.evil.example" for number in range(16))
    assert world.asked == []


def test_a_name_that_is_no_host_is_not_remembered(place: Place, world: World) -> None:
    assert look_up(place, world, "a b", "x;y.example", "localhost")[1] == ()


def test_a_host_that_is_given_has_an_address_of_loopback_and_nothing_else(place: Place, world: World) -> None:
    (answer,) = ask(place, world, "A").answer
    assert answer.to_text() == "given.example. 0 IN A 127.1.0.1"
    for kind in ("AAAA", "HTTPS", "TXT", "MX"):
        found = ask(place, world, kind)
        assert (found.rcode(), found.answer) == (0, [])


@pytest.mark.parametrize("kind", ["TXT", "HTTPS", "PTR", "NS", "ANY", "A"])
def test_of_a_host_that_is_not_given_there_is_no_record_of_any_kind(place: Place, world: World, kind: str) -> None:
    found = ask(place, world, kind, "other.example")
    assert (found.rcode(), found.answer) == (3, [])
    assert world.asked == []


def test_a_host_with_a_private_address_is_not_there_and_the_reason_is_kept(place: Place, world: World) -> None:
    world.is_refused = lambda address: address == "10.0.0.1"
    world.addresses["given.example"] = ["192.0.2.1", "10.0.0.1"]
    ran = run_served(place, give_hosts("given.example"), "getent", "ahostsv4", "given.example", reach=world.reach)
    assert (ran.code, ran.out) == (2, "")
    assert ran.traffic.notes == ("the host `given.example` has an address that is not public; nothing was sent",)


def test_what_is_no_question_is_not_answered_and_stops_nothing(place: Place, world: World) -> None:
    reply = dns.message.make_response(dns.message.make_query("given.example", "A")).to_wire()
    bad = (b"", b"\0", b"\xff" * 512, bytes(12), reply)
    (answer,) = ask(place, world, "A", "given.example", *bad).answer
    assert "127.1.0.1" in answer.to_text()
