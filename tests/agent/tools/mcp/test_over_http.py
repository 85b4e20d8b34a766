"""Servers at a URL: the real SDK's server over streamable HTTP, and answers no server should give."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foregate.agent.models.scripted import calls, says
from foregate.schemas.event_body import OutcomeUnknown, ToolFinished
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from tests.agent.tools.mcp.conftest import Bench
from tests.events import bodies
from tests.forever import FOREVER
from tests.policies import policy_with

SERVER = Path(__file__).with_name("http_server.py")


@pytest.fixture(params=["stream", "json"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A server that answers with streams of events, or with plain JSON."""
    command = [sys.executable, str(SERVER), request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def at(bench: Bench, port: int, **impatient: object) -> None:
    """Configure the server at a port of the loopback as `web`, and with what is given as `impatient`."""
    url, headers = f"http://127.0.0.1:{port}/mcp", {"Authorization": "Bearer ${TOKEN}"}
    server = {"type": "http", "url": url, "headers": headers, "start_timeout": FOREVER}
    bench.serve({"web": server, **({"impatient": server | impatient} if impatient else {})})


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right token in the environment, and a proxy that is not to be used."""
    monkeypatch.setenv("TOKEN", "right")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")


async def test_a_server_at_a_url_is_called_with_its_headers_and_a_lost_answer_is_unknown(
    bench: Bench, port: int
) -> None:
    at(bench, port, call_timeout=1)
    steps = [calls(("web.add", {"a": 2, "b": 3})), calls(("impatient.wait", {})), calls(("web.leave", {})), says("x")]
    events, _ = await bench.play(*steps, replies=["yes"] * 5)
    assert bodies(events, ToolFinished)[0].content == "5"
    assert [body.tool for body in bodies(events, OutcomeUnknown)] == ["impatient.wait", "web.leave"]
    events, _ = await bench.play(says("x"))
    assert bench.notes[0].startswith("MCP server `web` is not available: All connection attempts failed")


def started_again(port: int) -> subprocess.Popen[str]:
    """Return a server at a port where one has just ended, listening."""
    command, environment = [sys.executable, str(SERVER), "json"], {**os.environ, "PORT": str(port)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def test_a_server_that_was_started_anew_between_two_calls_is_greeted_again_and_called(
    bench: Bench, port: int
) -> None:
    at(bench, port)
    began: list[subprocess.Popen[str]] = []

    def again(_: ModelRequest) -> ModelResponse:
        began.append(started_again(port))
        return calls(("web.add", {"a": 2, "b": 3}))

    events, _ = await bench.play(calls(("web.leave", {})), again, says("x"), replies=["yes"] * 3)
    with began[0] as process:
        process.kill()
    (told,) = bodies(events, ToolFinished)
    assert (told.ok, told.content) == (True, "5")


async def test_a_server_that_was_gone_before_the_call_got_nothing(bench: Bench, port: int) -> None:
    at(bench, port)
    steps = [calls(("web.leave", {})), calls(("web.add", {"a": 2, "b": 3})), says("x")]
    events, _ = await bench.play(*steps, replies=["yes"] * 3, keys={"mcp.restarts": 1})
    assert "nothing was sent" in bodies(events, ToolFinished)[0].content
    assert [body.tool for body in bodies(events, OutcomeUnknown)] == ["web.leave"]


async def test_a_wrong_token_and_an_unset_one_are_said(
    bench: Bench, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(bench, port)
    monkeypatch.setenv("TOKEN", "wrong")
    await bench.play(says("x"))
    assert "is not available: Server returned an error response" in bench.notes[0]
    monkeypatch.delenv("TOKEN")
    await bench.play(says("x"))
    assert "the environment variable `TOKEN` is not set" in bench.notes[0]


@asynccontextmanager
async def answering(kind: str) -> AsyncIterator[tuple[int, list[str]]]:
    """Serve an answer no server should give; yield the port and what was asked for."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.splitlines()[0])
        size = next((int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-l")), 0)
        body = await reader.readexactly(size)
        try:
            if kind == "elsewhere":
                writer.write(b"HTTP/1.1 307 x\r\nLocation: http://localhost:9/mcp\r\nContent-Length: 0\r\n\r\n")
            elif kind == "endless":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                while not writer.is_closing():
                    writer.write(b" " * 65536)
                    await writer.drain()
            elif kind == "events":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
                while not writer.is_closing():
                    writer.write(b"x" * 65536)
                    await writer.drain()
            elif kind == "packed":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n")
            else:
                number = json.loads(body)["id"]
                text = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"protocolVersion": 7}}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n" % len(text) + text)
            await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], asked


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("elsewhere", "not followed"),
        ("endless", "200000 bytes"),
        ("events", ""),
        ("packed", "a coding it was not asked for"),
        ("nonsense", "breaks the protocol"),
    ],
)
async def test_an_answer_no_server_should_give_makes_it_unavailable(bench: Bench, kind: str, words: str) -> None:
    async with answering(kind) as (port, asked):
        at(bench, port)
        bounds = {"mcp.max_traffic": 200_000, "mcp.max_message": 100_000, "mcp.stop_timeout": 1}
        servers = await bench.listed(policy_with(bounds), TOKEN="x")
        await servers.close()
        assert words in servers.failed["web"]
        assert asked[0] == "POST /mcp HTTP/1.1"
