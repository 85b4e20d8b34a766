"""http_request over real HTTP on loopback, which only a test may reach."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from foregate.agent.tools.http import http_request, parse_address
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.host import is_private
from foregate.schemas.tool_call import EvidenceKind, Origin, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect
from tests.agent.running import run_alone
from tests.forever import FOREVER
from tests.policies import policy_with


class Handler(BaseHTTPRequestHandler):
    """Records what it was asked and answers by path."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        if self.path == "/hang":
            self.server.release.wait(FOREVER)  # type: ignore[attr-defined]
            return
        if self.path == "/drop":
            self.connection.close()
            return
        status = {"/away": 302, "/gone": 404}.get(self.path, 200)
        content = b"x" * 5000 if self.path == "/big" else "héllo".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(content)))
        if status == 302:
            self.send_header("Location", "http://169.254.169.254/")
        if self.path == "/zip":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

    def log_message(self, *details: Any) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ValueError, OSError):
            self.close_connection = True


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.asked, serving.release = [], threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield serving
    serving.release.set()  # type: ignore[attr-defined]
    serving.shutdown()
    thread.join()
    serving.server_close()


def tool_for(policy: Policy, *addresses: str, public: bool = False) -> Tool:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return http_request(policy, resolve=resolve, is_refused=is_private if public else lambda address: False)


async def call(tool: Tool, **arguments: Any) -> ToolResult:
    return await run_alone(Toolbox([tool]), ToolCall.of("http_request", arguments))


@pytest.fixture
def listed() -> Policy:
    return policy_with({"http.hosts": ["api.test", "*.wide.test"], "http.timeout": FOREVER, "http.max_bytes": 1000})


async def test_an_answer_comes_whole_as_words_of_somebody_else(server: ThreadingHTTPServer, listed: Policy) -> None:
    url = f"http://API.test:{server.server_port}/a?b=c#fragment"
    result = await call(tool_for(listed, "127.0.0.1"), url=url, headers={"X-One": "1"})
    assert (result.ok, result.origin) == (True, Origin.EXTERNAL)
    assert result.content == "HTTP 200 OK\ncontent-type: text/plain\n\nhéllo"
    record = result.evidence[0]
    assert (record.kind, record.resource.id) == (EvidenceKind.API_RESPONSE, url.replace("API", "api").partition("#")[0])
    assert record.hash == strict_json.sha256("héllo".encode())
    method, path, headers, _ = server.asked[0]  # type: ignore[attr-defined]
    assert (method, path, headers["X-One"]) == ("GET", "/a?b=c", "1")
    assert headers["Host"] == f"api.test:{server.server_port}"


async def test_a_host_that_is_not_listed_is_never_looked_up(listed: Policy) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    tool = http_request(listed, resolve=resolve)
    for host in ("other.test", "api.test.evil.com", "evilapi.test", "wide.test", "x.wide.test.evil.com"):
        assert "is not among" in (await call(tool, url=f"http://{host}/")).content


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "fe80::1%eth0",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "0.0.0.0",
        "224.0.0.1",
        "192.0.2.1",
        "not an address",
    ],
)
async def test_an_address_that_is_not_public_is_never_connected_to(
    server: ThreadingHTTPServer, listed: Policy, address: str
) -> None:
    for addresses in ((address,), ("93.184.216.34", address)):
        tool = tool_for(listed, *addresses, public=True)
        assert "not public" in (await call(tool, url=f"http://api.test:{server.server_port}/")).content
    assert server.asked == []  # type: ignore[attr-defined]


async def test_the_tool_as_it_ships_refuses_loopback(server: ThreadingHTTPServer) -> None:
    policy = policy_with({"http.hosts": ["localhost", "127.0.0.1"]})
    for host in ("localhost", "127.0.0.1"):
        assert "not public" in (await call(http_request(policy), url=f"http://{host}:{server.server_port}/")).content
    assert server.asked == []  # type: ignore[attr-defined]


async def test_a_redirect_is_shown_and_not_followed(server: ThreadingHTTPServer, listed: Policy) -> None:
    result = await call(tool_for(listed, "127.0.0.1"), url=f"http://api.test:{server.server_port}/away")
    assert "HTTP 302" in result.content
    assert "location: http://169.254.169.254/" in result.content
    assert len(server.asked) == 1  # type: ignore[attr-defined]


async def test_proxies_of_the_environment_are_ignored(
    server: ThreadingHTTPServer, listed: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await call(tool_for(listed, "127.0.0.1"), url=f"http://api.test:{server.server_port}/")).ok


async def test_a_large_answer_is_cut_and_a_packed_one_not_unpacked(server: ThreadingHTTPServer, listed: Policy) -> None:
    base = f"http://api.test:{server.server_port}"
    big = await call(tool_for(listed, "127.0.0.1"), url=f"{base}/big")
    assert (big.dropped, big.evidence[0].hash) == (4000, "")
    assert "5 bytes" not in big.content
    packed = await call(tool_for(listed, "127.0.0.1"), url=f"{base}/zip")
    assert "6 bytes in the coding gzip, not decoded" in packed.content


async def test_only_a_look_that_gets_no_answer_is_a_plain_failure(server: ThreadingHTTPServer, listed: Policy) -> None:
    base, tool = f"http://api.test:{server.server_port}", tool_for(listed, "127.0.0.1")
    impatient = tool_for(policy_with({"http.timeout": 1}, listed), "127.0.0.1")
    for path, tried in (("/hang", impatient), ("/drop", tool)):
        assert [(r.ok, r.unknown) for r in [await call(tried, url=base + path)]] == [(False, False)]
        assert [(r.ok, r.unknown) for r in [await call(tried, url=base + path, method="POST", body="x")]] == [
            (False, True)
        ]
    closed = await call(tool, url="http://api.test:1/", method="POST")
    assert (closed.error, closed.unknown) == ("unreachable", False)
    assert (await call(tool, url=f"{base}/gone")).error == "http_status"


@pytest.mark.parametrize(
    "headers",
    [
        {"A\r\nB": "x"},
        {"A": "x\r\nB: y"},
        {"A": "x\n"},
        {"A b": "x"},
        {"Host": "evil"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"proxy-authorization": "x"},
        {"A": "\x00"},
        {"": "x"},
        {"é": "x"},
    ],
)
async def test_a_header_that_could_smuggle_is_refused(
    server: ThreadingHTTPServer, listed: Policy, headers: dict[str, str]
) -> None:
    result = await call(tool_for(listed, "127.0.0.1"), url=f"http://api.test:{server.server_port}/", headers=headers)
    assert not result.ok
    assert server.asked == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://api.test/",
        "file:///etc/passwd",
        "http://u:p@api.test/",
        "http://api.test\\@evil/",
        "http://api.te st/",
        "http:///x",
        "http://api.test:99999/",
        "http://api.test\r\nX: y/",
        "http://0x7f.1/",
        "http://2130706433/",
        "//api.test/",
    ],
)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(WorkspaceError):
        parse_address(url)


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTP://API.Test:80", "http://api.test/"),
        ("https://api.test:443/a%2Fb?q=ü".replace("ü", "%C3%BC"), "https://api.test/a%2Fb?q=%C3%BC"),
        ("http://api.test.:8080/#x", "http://api.test:8080/"),
        ("http://[::FFFF:7F00:1]/", "http://[::ffff:7f00:1]/"),
    ],
)
def test_one_url_has_one_canonical_form(url: str, canonical: str) -> None:
    assert parse_address(url).url == canonical
    assert parse_address(canonical).url == canonical


def test_only_get_and_head_are_looks(listed: Policy) -> None:
    box = Toolbox([tool_for(listed)])
    effects = {m: box.classify(ToolCall.of("http_request", {"url": "x", "method": m})) for m in ("GET", "HEAD", "POST")}
    assert effects == {"GET": Effect.OBSERVATION, "HEAD": Effect.OBSERVATION, "POST": Effect.SEND}


async def test_a_call_may_take_less_and_wait_less_than_the_policy_allows(
    server: ThreadingHTTPServer, listed: Policy
) -> None:
    tool = tool_for(policy_with({"http.timeout": 600}, listed), "127.0.0.1")
    url = f"http://api.test:{server.server_port}"
    for wanted, got in ((10, 10), (4000, 1000)):
        assert (await call(tool, url=f"{url}/big", max_bytes=wanted)).content.count("x" * 5) == got // 5
    hung = await call(tool, url=f"{url}/hang", timeout_ms=50)
    assert (hung.error, hung.content) == ("timeout", "no whole answer from `api.test` within 0.05 seconds")
