"""The name in a TLS greeting is read strictly: where it is read, the library of TLS reads the same."""

from __future__ import annotations

import ssl
import struct
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.sandbox.network_addresses import MOST_BYTES, BadHello, read_server_name

NAME = "given.example"


@cache
def greet(name: str | None = NAME, newest: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED) -> bytes:
    """Return what the library of TLS sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    context.maximum_version = newest
    context.set_alpn_protocols(["h2", "http/1.1"])
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    return sent.read()


def read_by_library(data: bytes) -> list[str | None]:
    """Return the names that the library of TLS finds in a greeting, none where it refuses it."""
    found: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _connection, name, _context: found.append(name)
    arrived = ssl.MemoryBIO()
    arrived.write(data)
    with pytest.raises(ssl.SSLError):
        context.wrap_bio(arrived, ssl.MemoryBIO(), server_side=True).do_handshake()
    return found


def change_extensions(more: bytes = b"", name: bytes | None = None) -> bytes:
    """Return a greeting with further extensions, and the one for the server name replaced."""
    known = struct.pack("!HHHBH", 0, len(NAME) + 5, len(NAME) + 3, 0, len(NAME)) + NAME.encode()
    data = greet()
    assert known in data
    body = data[9:].replace(known, known if name is None else name) + more
    at = 34 + 1 + body[34]
    at += 2 + int.from_bytes(body[at : at + 2])
    at += 1 + body[at]
    body = body[:at] + struct.pack("!H", len(body) - at - 2) + body[at + 2 :]
    return data[:3] + struct.pack("!HB", len(body) + 4, 1) + len(body).to_bytes(3) + body


def build_name(*names: bytes, kind: int = 0) -> bytes:
    """Return an extension of server names."""
    inner = b"".join(struct.pack("!BH", kind, len(name)) + name for name in names)
    return struct.pack("!HHH", 0, len(inner) + 2, len(inner)) + inner


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_name_is_read_once_the_greeting_is_whole(newest: ssl.TLSVersion) -> None:
    data = greet(newest=newest)
    assert [read_server_name(data[:end]) for end in range(len(data))] == [None] * len(data)
    assert read_server_name(data) == NAME
    assert read_server_name(data + b"\x17\x03\x03\x00\x01x") == NAME


@given(st.integers(1, 300))
def test_the_name_is_read_however_the_greeting_lies_in_records(size: int) -> None:
    whole = greet()[5:]
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    data = b"".join(b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece for piece in pieces)
    assert read_server_name(data) == NAME
    assert read_server_name(data[:-1]) is None


@given(data=st.data())
def test_where_a_changed_greeting_has_a_name_the_library_reads_no_other(data: st.DataObject) -> None:
    changed = bytearray(greet())
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_server_name(bytes(changed))
    except BadHello:
        return
    if found is not None:
        assert {name.lower() for name in read_by_library(bytes(changed)) if name} <= {found}


@given(st.binary(max_size=200))
def test_bytes_that_are_no_greeting_are_refused_or_waited_for(data: bytes) -> None:
    with suppress(BadHello):
        assert read_server_name(data) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "not TLS"),
        (b"\x80\x2e\x01\x03\x01", "not TLS"),
        (b"\x17\x03\x03\x00\x01x", "not TLS"),
        (b"\x16\x03\x01\x00\x00", "impossible length"),
        (b"\x16\x03\x01\xff\xff", "impossible length"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "not begin with a greeting"),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x00x", "follows after its end"),
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", "cut off inside"),
        (b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(MOST_BYTES - 4), "too long"),
        (greet(None), "no server name"),
        (change_extensions(struct.pack("!HH", 0xFE0D, 2) + b"xx"), "encrypted"),
        (change_extensions(build_name(b"other.example")), "something twice"),
        (change_extensions(name=build_name(NAME.encode(), b"other.example")), "name is none"),
        (change_extensions(name=build_name(NAME.encode(), kind=1)), "name is none"),
        (change_extensions(name=build_name(b"")), "name is none"),
        (change_extensions(name=build_name(b"given.example\0.other.example")), "name is none"),
        (change_extensions(name=build_name(b"given.ex\xc3\xa4mple")), "name is none"),
    ],
)
def test_a_greeting_that_could_hide_a_name_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadHello, match=why):
        read_server_name(data)


def test_a_greeting_changed_by_this_test_is_still_one() -> None:
    assert read_server_name(change_extensions(struct.pack("!HH", 0xFAFA, 1) + b"x")) == NAME
    assert read_server_name(change_extensions(name=build_name(b"Other.Example"))) == "other.example"
