"""No endpoint is asked that nobody named: real commands, real servers, and every connection of the process counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate import Agent, OpenAIModel
from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.transport import build_client
from foregate.schemas.errors import ModelError, UsageError
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.views.terminal.exit_codes import USAGE
from tests.agent.models.openai.scripted_server import KEY, message
from tests.agent.planning.test_worked_examples import wants, wire_plan, wire_task
from tests.cli.conftest import Cli, Piped
from tests.cli.conftest import Endpoint as Start
from tests.connections import watch_connections

PLAN = wire_plan("Read it", wire_task(1, "Look for it.", action="search_text", target="a.txt"))
COMMANDS = (
    ("run", "hello"),
    ("run", "--model", "big", "hello"),
    ("chat",),
    ("plan", "read a.txt"),
    ("execute", "plan.json", "--yes"),
    ("resume", "last"),
)


@pytest.fixture
def connected() -> Iterator[set[tuple[str, int]]]:
    with watch_connections() as seen:
        yield seen


def name_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **urls: str) -> None:
    """Let plan-mode roles have endpoints of their own, and the environment name none."""
    models = {role: {"provider": "openai", "base_url": url} for role, url in urls.items()}
    (file := tmp_path / "config.yaml").write_text(json.dumps({"models": models}))
    monkeypatch.setenv("FOREGATE_CONFIG", str(file))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize("named", [{"OPENAI_API_KEY": KEY}, {"FOREGATE_MODEL": "big"}], ids=["a key", "a model"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_key_or_a_model_alone_is_one_sentence_and_no_connection(
    command: tuple[str, ...],
    named: dict[str, str],
    cli: Cli,
    piped: Piped,
    connected: set[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("plan.json").write_text(json.dumps({"goal": "g", "tasks": [{"id": 1, "action": "search_text"}]}))
    assert cli("run", "--model", "rehearsal", "read a.txt")[0] == 0
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    piped("hello\n")
    code, out, err = cli(*command)
    assert (code, out.strip(), len(err.splitlines())) == (USAGE, "", 1)
    assert "no endpoint; set OPENAI_BASE_URL (OpenAI's own is https://api.openai.com/v1)" in err
    assert "--model rehearsal" in err
    assert KEY not in err
    assert connected == set()


@pytest.mark.parametrize("key", [KEY, ""])
def test_a_plan_asks_the_models_of_the_configuration_and_nobody_else(
    key: str,
    cli: Cli,
    endpoint: Start,
    connected: set[tuple[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner, worker = endpoint(PLAN, keyless=not key), endpoint(keyless=not key)
    name_models(monkeypatch, tmp_path, planning=planner.url, execution=worker.url)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    code, out, err = cli("plan", "read a.txt")
    assert (code, "rehearsal" in out + err) == (0, False), err
    assert len(planner.requests) == 1
    assert connected == {("127.0.0.1", planner.port), ("127.0.0.1", worker.port)}


def test_all_of_a_planned_task_stays_at_the_models_of_the_configuration(
    cli: Cli, endpoint: Start, connected: set[tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = message(json.dumps({"answer": "It says teh cat.", "plan": None}))
    planner, worker = endpoint(PLAN, answer), endpoint(wants("search_text", {"path": "a.txt", "pattern": "teh"}))
    name_models(monkeypatch, tmp_path, planning=planner.url, execution=worker.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert cli("plan", "read a.txt")[0] == 0
    code, out, err = cli("execute", "last", "--yes")
    assert (code, "It says teh cat." in out) == (0, True), err
    assert connected == {("127.0.0.1", planner.port), ("127.0.0.1", worker.port)}


@pytest.mark.parametrize("role", ["planning", "execution"])
def test_the_one_model_the_configuration_has_an_address_for_is_also_the_sessions(
    role: str,
    cli: Cli,
    endpoint: Start,
    connected: set[tuple[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = endpoint(message("hello yourself"))
    name_models(monkeypatch, tmp_path, **{role: server.url})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, out, err = cli("run", "hello")
    assert (code, out, "rehearsal" in err) == (0, "hello yourself\n", False)
    _, out, _ = cli("doctor")
    assert f"\nmodel: {server.url}\n" in out
    assert connected == {("127.0.0.1", server.port)}


def test_the_address_of_the_environment_is_the_sessions_and_an_address_alone_is_enough(
    cli: Cli, endpoint: Start, connected: set[tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = endpoint(message("hello yourself"), keyless=True)
    name_models(monkeypatch, tmp_path, execution="http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    code, out, _ = cli("run", "hello")
    assert (code, out) == (0, "hello yourself\n")
    assert connected == {("127.0.0.1", server.port)}


def test_the_doctor_says_what_a_key_alone_lacks_and_asks_nobody(
    cli: Cli, connected: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, out, _ = cli("doctor", "--json")
    (model,) = [one for one in json.loads(out) if one["name"] == "model"]
    assert (code, model["state"], model["why"]) == (0, "none", "OPENAI_API_KEY is set, but no endpoint")
    assert model["cure"].startswith("set OPENAI_BASE_URL")
    assert connected == set()


def test_a_program_with_a_key_alone_is_told_before_anything_is_asked(
    home: Path, folder: Path, connected: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(UsageError, match="set OPENAI_BASE_URL"):
        Agent(workspace=folder, log=MemoryLog()).run_sync("hello")
    with pytest.raises(UsageError, match="name its `base_url`"):
        OpenAIModel("m", api_key=KEY)
    assert connected == set()


async def test_a_client_sends_nothing_to_another_server_than_its_own(connected: set[tuple[str, int]]) -> None:
    client = build_client(Endpoint.of("http://127.0.0.1:9/v1", KEY), timeout=5, connect_timeout=5, proxy=None)
    with pytest.raises(ModelError, match=r"would have left for other\.example"):
        await client.get("http://other.example/v1/models", cast_to=object)
    await client.close()
    await asyncio.sleep(0)
    assert connected == set()
