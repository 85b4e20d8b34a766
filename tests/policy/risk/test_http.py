"""What a request would do, which host it names, and which addresses are never reached."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.policy import Policy
from foregate.policy.risk.http import complete_url, effect_of_method, is_allowed_host, is_host_match, read_host
from foregate.policy.source.load import default_policy
from foregate.schemas.host import is_private
from foregate.schemas.tool_spec import Effect


def allowing(*hosts: str) -> Policy:
    policy = default_policy()
    return policy.model_copy(update={"http": policy.http.model_copy(update={"hosts": hosts})})


@pytest.mark.parametrize("method", ["GET", "HEAD", "get", "Head"])
def test_get_and_head_observe(method: str) -> None:
    assert effect_of_method(method) is Effect.OBSERVATION


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "", "GETX", "G\u0415T", " GET"]
)
def test_every_other_method_sends(method: str) -> None:
    assert effect_of_method(method) is Effect.SEND


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/a?b#c", "example.org"),
        ("HTTP://EXAMPLE.ORG.:80", "example.org"),
        ("http://a.org#@b.org", "a.org"),
        ("http://a.org?@b.org", "a.org"),
        ("http://[2606:4700::1111]:443/", "2606:4700::1111"),
        ("http://xn--fa-hia.de/", "xn--fa-hia.de"),
        ("http://8.8.8.8/", "8.8.8.8"),
    ],
)
def test_a_url_names_its_host(url: str, host: str) -> None:
    assert read_host(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "http://a.org\\@b.org/",
        "http://user@a.org/",
        "http://a.org@b.org/",
        "http://a\t.org/",
        "http://a.org /",
        " http://a.org/",
        "http://fa\u00df.de/",
        "http://a\u3002org/",
        "http://a%2eorg/",
        "http://a.org:99999/",
        "http://a.org:x/",
        "http://a..org/",
        "http://-a.org/",
        "http:///x",
        "http:a.org",
        "//a.org",
        "a.org",
        "ftp://a.org/",
        "file:///etc/passwd",
        "http://[::1",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "",
    ],
)
def test_a_url_that_two_readers_could_read_differently_names_no_host(url: str) -> None:
    assert read_host(url) == ""


def test_only_listed_hosts_are_allowed_by_whole_labels() -> None:
    policy = allowing("example.org", "*.internal.example")
    assert is_allowed_host("EXAMPLE.org.", policy)
    assert is_allowed_host("a.b.internal.example", policy)
    for host in ("www.example.org", "example.org.evil.net", "xexample.org", "internal.example", "example", "", "a b"):
        assert not is_allowed_host(host, policy)
    assert not is_allowed_host("example.org", default_policy())


def test_a_star_means_every_name_but_only_when_it_stands_alone() -> None:
    assert is_host_match("*", "a.org")
    assert not is_host_match("*", "")
    assert not is_host_match("a.*", "a.org")
    assert not is_host_match("*.0.0.1", "127.0.0.1")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.1",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.8",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b::8.8.8.8",
        "2001:db8::1",
        "192.88.99.1",
        "3fff::1",
        "2002:c058:6301::1",
        "100:0:0:1::1",
        "5f00::1",
        "4000::1",
        "not an address",
        "0x7f000001",
        "",
    ],
)
def test_what_is_not_a_public_address_is_private(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001::1"])
def test_public_addresses_are_not(address: str) -> None:
    assert not is_private(address)


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_never_freer_than_itself(inner: IPv4Address) -> None:
    carriers = (
        IPv6Address(f"::ffff:{inner}"),
        IPv6Address(f"64:ff9b::{inner}"),
        IPv6Address((0x2002 << 112) | (int(inner) << 80) | 1),
    )
    assert all(is_private(carrier) for carrier in carriers if is_private(inner))


@given(st.text(max_size=60))
def test_any_text_as_a_url_or_host_is_answered(text: str) -> None:
    assert isinstance(read_host(text), str)
    assert isinstance(read_host(f"http://{text}"), str)
    assert is_host_match(text, text) in (True, False)
    assert is_private(text) in (True, False)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("www.example.org", "https://www.example.org"),
        ("Example.ORG:8443/a?b=c", "https://Example.ORG:8443/a?b=c"),
        ("http://www.example.org", "http://www.example.org"),
        *((name, name) for name in ("localhost", "/etc/passwd", "file:/etc/passwd", "10.0.0.1", "//example.org")),
        *(
            (name, name)
            for name in ("a.example@b.example/", "exam\u0440le.org", "a.example\\b", "javascript:1", "a b.c")
        ),
    ],
)
def test_a_bare_host_name_is_taken_for_its_https_url_and_nothing_else_is(name: str, url: str) -> None:
    assert complete_url(name) == url
