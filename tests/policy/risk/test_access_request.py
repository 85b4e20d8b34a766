"""Access is read strictly: what it names is one thing, written in one way, and nothing that opens the whole machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.access import parse_access
from foregate.schemas.errors import AccessError
from foregate.schemas.sandbox import Access

GOOD = (
    "network",
    "network:packages.example",
    "network:xn--bcher-kva.example",
    "port:1",
    "port:65535",
    "socket:/run/docker.sock",
    "socket:/run/user/1000/white space",
    "device:/dev/kvm",
    "device:/dev/dri/renderD128",
    "folder:/home/u/.cache/pip",
)
BAD = {
    "": "names no access",
    "net:packages.example": "names no access",
    "Network": "names no access",
    "network ": "names no access",
    "network:": "is no host name",
    "network:*": "is no host name",
    "network:*.example.org": "is no host name",
    "network:https://packages.example": "is no host name",
    "network:packages.example:443": "is no host name",
    "network:packages.example/simple": "is no host name",
    "network:user@packages.example": "is no host name",
    "network:bücher.example": "its xn-- form",
    "network:packages.example\nport:1": "is no host name",
    "network:0x7f.1": "is no host name",
    "network:8.8.8.8": "is an address",
    "network:[2606:4700::1]": "is an address",
    "network:127.0.0.1": "is an address",
    "network:localhost": "`port:NUMBER`",
    "network:a.localhost": "`port:NUMBER`",
    "network:printer.local": "`port:NUMBER`",
    "network:metadata.google.internal": "`port:NUMBER`",
    "network:intranet": "`port:NUMBER`",
    "port:": "is no port",
    "port:0": "is no port",
    "port:08080": "is no port",
    "port:65536": "is no port",
    "port:-1": "is no port",
    "port:1-65535": "is no port",
    "port:٣": "is no port",
    "socket:run/docker.sock": "is no whole path",
    "socket:": "is no whole path",
    "socket:@abstract": "is no whole path",
    "socket:/run/\0x": "is no whole path",
    "folder:~/.cache": "is no whole path",
    "folder:/home/u/": "is no whole path",
    "folder:/home/u/../v": "is no whole path",
    "folder://home": "is no whole path",
    "folder:/home/\u202eu": "is no whole path",
    "folder:/" + "a" * 5000: "is no whole path",
    "folder:/": "whole machine",
    "socket:/": "whole machine",
    **{
        f"device:/dev/{name}": "is no device"
        for name in ("sda", "mem", "kmsg", "tty", "tty1", "ptmx", "pts/0", "console", "input/event0", "uinput", "sg0")
    },
    **{f"device:/dev/{name}": "is no device" for name in ("nvme0n1", "fuse", "net/tun", "mapper/control", "watchdog")},
    "device:/etc/passwd": "is no device",
    "device:/dev/../etc/passwd": "is no whole path",
}


@pytest.mark.parametrize("text", GOOD)
def test_access_is_written_back_as_it_was_read(text: str) -> None:
    assert str(parse_access(text)) == text


@pytest.mark.parametrize(("text", "words"), BAD.items())
def test_what_cannot_be_given_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(AccessError) as refused:
        parse_access(text)
    said = str(refused.value)
    assert words in said
    assert said.isprintable()
    assert len(said) < 400


@pytest.mark.parametrize(
    ("text", "host"),
    [("network:Packages.Example", "packages.example"), ("network:packages.example.", "packages.example")],
)
def test_hosts_are_compared_in_one_spelling(text: str, host: str) -> None:
    assert parse_access(text) == Access("network", host)


@given(st.one_of(st.text(), st.builds("{}:{}".format, st.sampled_from(["network", "port", "folder"]), st.text())))
def test_any_text_is_read_in_one_way_or_refused(text: str) -> None:
    try:
        read = parse_access(text)
    except AccessError:
        return
    assert parse_access(str(read)) == read
