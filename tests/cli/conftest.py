"""Fixtures: the command line in this process, with a home of its own, and an endpoint on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from foregate.cli.app import main
from tests.agent.models.openai.scripted_server import ScriptedServer, Step

Cli = Callable[..., tuple[int, str, str]]
Piped = Callable[[str], None]
Endpoint = Callable[..., ScriptedServer]


def parse_lines(out: str) -> list[Any]:
    """Return the values of lines of JSON, as lists print them."""
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def home(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, no endpoint, and the workspace as current folder."""
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "FOREGATE_MODEL",
        "FOREGATE_POLICY",
        "FOREGATE_CONFIG",
        "FOREGATE_MCP",
    ):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "home"
    monkeypatch.setenv("FOREGATE_HOME", str(path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    (folder / "a.txt").write_text("teh cat\n")
    return path


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process; gives exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def piped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Piped]:
    """Makes a text the standard input of the commands that follow."""
    with ExitStack() as opened:

        def pipe(text: str) -> None:
            file = tmp_path / "stdin"
            file.write_text(text)
            monkeypatch.setattr("sys.stdin", opened.enter_context(file.open()))

        yield pipe


@pytest.fixture
def endpoint(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Starts the endpoint of the environment, which answers as a script says; it runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers: list[ScriptedServer] = []

    def start(*steps: Step, **given: Any) -> ScriptedServer:
        server = ScriptedServer(*steps, **given)
        servers.append(asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result())
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return server

    yield start
    for server in servers:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
