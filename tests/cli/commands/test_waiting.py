"""An endpoint that is dead or silent: what is said of it, where, and where not."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foregate.agent.models.openai.model import OpenAIModel
from tests.agent.models.openai.scripted_server import KEY, message
from tests.cli.conftest import Cli, Endpoint

COMMAND = [sys.executable, "-Im", "foregate"]


async def wait_no_longer(_: float) -> None:
    """Wait as little as there is between two attempts."""


@contextmanager
def silent_endpoint() -> Iterator[str]:
    """Yield the address of an endpoint that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@contextmanager
def dead_endpoint() -> Iterator[str]:
    """Yield an address at which nobody listens, held so that nobody will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def begin(home: Path, url: str, *arguments: str) -> subprocess.Popen[str]:
    environ = os.environ | {"OPENAI_BASE_URL": url, "FOREGATE_HOME": str(home)}
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_lines(process: subprocess.Popen[str], *words: str) -> list[str]:
    """Return the next line of standard error with each of the words, whatever else comes and whichever comes first."""
    assert process.stderr is not None
    found: dict[str, str] = {}
    while len(found) < len(words):
        line = next(process.stderr)
        found |= {said: line for said in words if said in line and said not in found}
    return [found[said] for said in words]


UNREACHABLE = "cannot be reached: nothing listens there; trying again"


@pytest.mark.parametrize("endpoint_of", [silent_endpoint, dead_endpoint])
@pytest.mark.parametrize("model", [("--model", "m"), ()], ids=["named", "not named"])
@pytest.mark.parametrize("command", ["run", "chat"])
def test_who_waits_for_a_dead_or_silent_endpoint_is_told_on_standard_error(
    home: Path, endpoint_of: object, model: tuple[str, ...], command: str
) -> None:
    """What is wrong with a dead one is said with the first attempt, and then how long it is tried again."""
    assert callable(endpoint_of)
    with endpoint_of() as url:
        process = begin(home, url, command, *model, *(["hello"] if command == "run" else []))
        assert process.stdin is not None
        if command == "chat":
            process.stdin.write("hello\n")
            process.stdin.flush()
        line, *refused = read_lines(process, "waiting for", *([UNREACHABLE] if endpoint_of is dead_endpoint else []))
        assert all(said.startswith(url) for said in refused)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    assert line.startswith(f"waiting for the model{' `m`' if model else ''} at {url}: no answer for 2 s")
    assert "waiting for" not in out


@pytest.mark.parametrize("model", [("--model", "m"), ()], ids=["named", "not named"])
def test_what_is_wrong_with_a_dead_endpoint_is_said_with_the_first_attempt_at_a_plan(
    home: Path, model: tuple[str, ...]
) -> None:
    with dead_endpoint() as url:
        process = begin(home, url, "plan", *model, "hello")
        (line,) = read_lines(process, UNREACHABLE)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert line.startswith(url)


def test_a_session_that_is_not_there_is_named_before_any_model_is_waited_for(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dead_endpoint() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        code, _, err = cli("resume", "nobody")
    assert (code, "there is no session `nobody`" in err, "cannot be reached" in err) == (2, True, False)


@pytest.mark.parametrize("model", [("--model", "m"), ()], ids=["named", "not named"])
def test_a_plan_no_model_answers_for_fails_and_asks_the_person_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, model: tuple[str, ...]
) -> None:
    monkeypatch.setitem(OpenAIModel.__init__.__kwdefaults__ or {}, "sleep", wait_no_longer)
    with dead_endpoint() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        code, out, err = cli("plan", *model, "read a.txt", "--json")
    assert (code, "nothing listens there (6 attempts)" in out + err) == (5, True)
    if model:
        about = json.loads(out)
        assert (about["status"], about["question"], about["tries"]) == ("failed", "", 1)


@pytest.mark.parametrize(("form", "told"), [((), True), (("--json",), False), (("--events",), False)])
def test_nothing_is_said_of_waiting_where_a_script_reads(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...], told: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("foregate.views.terminal.waiting.PATIENCE", 0.001)
    server = endpoint(message("hello yourself"))
    code, out, err = cli("run", *form, "hello")
    assert (code, "waiting for the model" in out) == (0, False)
    assert (f"waiting for the model at {server.url}" in " ".join(err.split())) == told


def test_nothing_is_said_where_the_model_answers_soon(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("foregate.views.terminal.waiting.PATIENCE", 600.0)
    endpoint(message("hello yourself"))
    code, out, err = cli("run", "hello")
    assert (code, out, "waiting" in err) == (0, "hello yourself\n", False)
