"""What Foregate itself was given is masked by value: in the log, for the model, for people and in exports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foregate import Agent, tool
from foregate.agent.dialects.dialect_model import ModelWrapper
from foregate.agent.models.openai.model import OpenAIModel
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls, says
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.assembly.open import SessionOptions, open_session
from foregate.assembly.own_secrets import find_own_secrets
from foregate.policy.policy import Policy
from foregate.schemas.event import ModelResponded
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.message import ModelRequest
from foregate.telemetry.export.export import Export, ExportOptions, SessionFamily
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.policies import policy_with

SECRET = "correct.horse!battery"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, without an endpoint."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "FOREGATE_MODEL", "FOREGATE_RUNTIME_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "home"


def found(policy: Policy, environ: dict[str, str], **more: Any) -> dict[str, str]:
    return {secret.value: secret.name for secret in find_own_secrets(environ, policy.sensitive, **more)}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OPENAI_API_KEY": "local-key-1"}, {"local-key-1": "OPENAI_API_KEY"}),
        ({"FOREGATE_RUNTIME_TOKEN": "t" * 20}, {"t" * 20: "FOREGATE_RUNTIME_TOKEN"}),
        ({"DB_PASSWORD": f" {SECRET}\n"}, {SECRET: "DB_PASSWORD"}),
        (
            {"REPLICAS": "redis://a:first-pw@x, redis://b:second-pw@y"},
            {"first-pw": "REPLICAS", "second-pw": "REPLICAS"},
        ),
        ({"aws_secret_access_key": SECRET}, {SECRET: "aws_secret_access_key"}),
        (
            {"DATABASE_URL": "postgres://me:p%21ssword9@db/x"},
            {"p%21ssword9": "DATABASE_URL", "p!ssword9": "DATABASE_URL"},
        ),
        (
            {"OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=production,api-key=otel%20key%201"},
            {"otel%20key%201": "api-key", "otel key 1": "api-key"},
        ),
        ({"EDITOR": "/usr/bin/vi", "LANG": "C.UTF-8", "GREETING": SECRET}, {}),
        ({"SHORT_KEY": "1234567", "SOME_TOKEN": "Changeme", "OPENAI_API_KEY": "not-needed"}, {}),
        ({"SSL_CLIENT_KEY": "/etc/passwd"}, {}),
        ({"SSL_CLIENT_KEY": "/nothing/lies/there"}, {"/nothing/lies/there": "SSL_CLIENT_KEY"}),
    ],
)
def test_secrets_are_taken_from_the_environment_by_name(
    policy: Policy, environ: dict[str, str], expected: dict[str, str]
) -> None:
    assert found(policy, environ) == expected


def test_the_key_of_the_endpoint_is_secret_whatever_the_policy_lists() -> None:
    bare = policy_with({"sensitive.names": [], "sensitive.patterns": []})
    assert found(bare, {"OPENAI_API_KEY": "local-key-1", "DB_PASSWORD": SECRET}) == {"local-key-1": "OPENAI_API_KEY"}
    model = ModelWrapper(OpenAIModel("m", base_url="http://127.0.0.1:9/v1", api_key="another-key"))
    assert found(bare, {}, models=[model]) == {"another-key": "OPENAI_API_KEY"}
    assert found(bare, {}, models=[OpenAIModel("m", base_url="http://127.0.0.1:9/v1")]) == {}


def test_the_token_of_a_file_is_secret_and_a_file_that_cannot_be_used_no_error(policy: Policy, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-in-a-file\n")
    file.chmod(0o600)
    assert found(policy, {"FOREGATE_RUNTIME_TOKEN_FILE": str(file)}) == {"a-token-in-a-file": "FOREGATE_RUNTIME_TOKEN"}
    assert found(policy, {"FOREGATE_RUNTIME_TOKEN_FILE": str(tmp_path / "gone")}) == {}


def test_what_mcp_servers_are_given_is_secret_by_name_also_behind_a_scheme(policy: Policy) -> None:
    servers = [
        ServerConfiguration("a", command="/x", env={"LEVEL": "production", "API_TOKEN": "${MINE}"}),
        ServerConfiguration(
            "b", url="https://x", headers={"Authorization": "Bearer abcdefgh", "X-Api-Key": "87654321"}
        ),
        ServerConfiguration("c", command="/x", env={"KEY_TOKEN": "${NOWHERE}"}),
    ]
    assert found(policy, {"MINE": "token-of-a"}, servers=servers) == {
        "token-of-a": "API_TOKEN",
        "Bearer abcdefgh": "Authorization",
        "abcdefgh": "Authorization",
        "87654321": "X-Api-Key",
    }


def told(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


@pytest.fixture
def options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    (folder / "a.txt").write_text(f"password: {SECRET}\n")
    return {"workspace": folder, "log": MemoryLog(), "blobs": MemoryBlobs()}


async def test_neither_the_log_nor_the_model_gets_a_secret_a_tool_showed(options: dict[str, Any]) -> None:
    """The next request of the same turn holds the mark already."""
    seen: list[str] = []

    def answer(request: ModelRequest) -> Any:
        seen.append(told(request))
        return says("done")

    model = ScriptedModel([calls(("read_file", {"path": "a.txt"})), answer])
    async with Agent(model=model, **options) as agent:
        await agent.run("read a.txt")
        events = await options["log"].read(agent.session)
    assert "password: [masked DB_PASSWORD]" in seen[0]
    assert SECRET not in seen[0]
    assert SECRET not in msgspec.json.encode([event.body for event in events]).decode()


async def test_a_value_of_a_secret_file_is_masked_wherever_it_turns_up_also_one_that_came_meanwhile(
    options: dict[str, Any], folder: Path
) -> None:
    (folder / ".env").write_text("DB_PASSWORD=another.value9\n")
    (folder / "copy.txt").write_text("it is another.value9\nand later.value7\n")
    seen: list[str] = []

    def read_again(request: ModelRequest) -> Any:
        seen.append(told(request))
        (folder / ".env").write_text("DB_PASSWORD=another.value9\nAPI_TOKEN=later.value7\n")
        return calls(("read_file", {"path": "copy.txt"}))

    model = ScriptedModel([calls(("read_file", {"path": "copy.txt"})), read_again, says("ok")])
    async with Agent(model=model, **options) as agent:
        await agent.run("read copy.txt")
        bodies = [event.body for event in await options["log"].read(agent.session)]
    shown = [body.content for body in bodies if isinstance(body, ToolFinished)]
    assert "it is [masked DB_PASSWORD]\\nand later.value7" in seen[0]
    assert shown[1] == "it is [masked DB_PASSWORD]\nand [masked API_TOKEN]\n"


async def test_no_half_of_a_secret_is_left_where_a_result_is_cut(options: dict[str, Any]) -> None:
    policy = policy_with({"files.max_output": 1000, "files.max_read": 1000, "http.max_bytes": 1000})

    @tool(read_only=True)
    def show() -> str:
        """Show a long text."""
        return "x" * 490 + SECRET + "y" * 600

    model = ScriptedModel([calls(("show", {})), says("ok")])
    async with Agent(model=model, policy=policy, tools=[show], **options) as agent:
        await agent.run("show it")
        events = await options["log"].read(agent.session)
    (finished,) = [event.body for event in events if isinstance(event.body, ToolFinished)]
    assert finished.dropped
    assert SECRET[:5] not in finished.content


async def test_a_command_that_prints_it_encoded_shows_nothing(options: dict[str, Any], folder: Path) -> None:
    (folder / "a.txt").write_text(SECRET)
    model = ScriptedModel(
        [
            calls(("run_command", {"argv": ["base64", "a.txt"]}), text="I will run base64 on a.txt now, as you asked."),
            says("ok"),
        ]
    )
    policy = policy_with({"plan.mode": "off", "critique.mode": "off"})
    async with Agent(model=model, policy=policy, person=ScriptedPerson(["yes"]), **options) as agent:
        await agent.run("run base64 a.txt")
        events = await options["log"].read(agent.session)
    bodies = [event.body for event in events]
    (finished,) = [body for body in bodies if isinstance(body, ToolFinished) and body.tool == "run_command"]
    assert "[masked DB_PASSWORD]" in finished.content


async def test_what_was_judged_is_what_runs_and_what_is_recorded(options: dict[str, Any], folder: Path) -> None:
    """A masked argument would be another call."""
    arguments = {"path": "b.txt", "content": f"{SECRET}\n"}
    model = ScriptedModel([calls(("write_file", arguments), text=f"I will write {SECRET} there."), says("ok")])
    async with Agent(model=model, **options) as agent:
        await agent.run(f"write {SECRET} into b.txt")
        events = await options["log"].read(agent.session)
    assert (folder / "b.txt").read_text() == f"{SECRET}\n"
    bodies = [event.body for event in events]
    (response,) = [body for body in bodies if isinstance(body, ModelResponded) and body.calls]
    assert json.loads(response.calls[0].arguments) == arguments


async def test_a_helper_masks_what_its_parent_masks(options: dict[str, Any]) -> None:
    model = ScriptedModel(
        [
            calls(("delegate", {"task": "read a.txt"}), text="I will have it read."),
            calls(("read_file", {"path": "a.txt"})),
            says("read"),
            says("done"),
        ]
    )
    async with Agent(model=model, **options) as agent:
        await agent.run("have a.txt read")
    bodies = [event.body for name in await options["log"].sessions() for event in await options["log"].read(name)]
    assert any("[masked DB_PASSWORD]" in body.content for body in bodies if isinstance(body, ToolFinished))
    assert SECRET not in msgspec.json.encode(bodies).decode()


async def test_a_note_about_the_opening_holds_no_secret(folder: Path, tmp_path: Path) -> None:
    """A server that fails repeats what it was given."""
    script = "import os, sys; print('no such token:', os.environ['THE_TOKEN'], file=sys.stderr); sys.exit(1)"
    file = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": ["-c", script], "env": {"THE_TOKEN": SECRET}}
    file.write_text(json.dumps({"mcpServers": {"a": server}}))
    opened = await open_session(SessionOptions(workspace=folder, model=ScriptedModel([]), mcp=file, log=MemoryLog()))
    notes = "\n".join(opened.notes)
    await opened.close()
    assert "`a`" in notes
    assert SECRET not in notes


async def test_an_export_masks_everywhere(options: dict[str, Any], policy: Policy, tmp_path: Path) -> None:
    log, blobs = SqliteLog(tmp_path / "log.db"), MemoryBlobs()
    model = ScriptedModel([says(f"it is {SECRET}")])
    async with Agent(model=model, **{**options, "log": log, "blobs": blobs}) as agent:
        await agent.run(f"what is {SECRET}?")
    secrets = find_own_secrets({"DB_PASSWORD": SECRET}, policy.sensitive)
    export = Export(log, blobs, ExportOptions(patterns=(*secrets, *policy.sensitive.patterns)))
    lines = "".join(json.dumps(line) for line in export.export_family(SessionFamily(await log.sessions(), [])))
    log.close()
    assert SECRET not in lines
    assert "[masked DB_PASSWORD]" in lines


@pytest.fixture
def serving(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A runtime over `folder` that was given no token, with its home in `there`."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-Im", "foregate", "tools", "serve", "--ws", "127.0.0.1:0", "--workspace", str(folder)],
        env=environ | {"FOREGATE_HOME": str(tmp_path / "there")},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


async def test_the_token_a_runtime_made_for_itself_is_masked_by_it(
    serving: subprocess.Popen[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert serving.stdout is not None
    address = serving.stdout.readline().split()[1]
    token = serving.stdout.readline().strip().partition("=")[2]
    (folder / "a.txt").write_text(f"it is {token}\n")
    monkeypatch.setenv("FOREGATE_RUNTIME_TOKEN", token)
    model = ScriptedModel([calls(("read_file", {"path": "a.txt"}), text="I will read it now."), says("ok")])
    policy = policy_with({"plan.mode": "off", "critique.mode": "off", "runtime.declarations": "believe"})
    async with Agent(model=model, runtime=address, policy=policy, log=MemoryLog()) as agent:
        await agent.run("read a.txt")
    recorded = b"".join(file.read_bytes() for file in (tmp_path / "there").rglob("*") if file.is_file())
    assert b"it is [masked FOREGATE_RUNTIME_TOKEN]" in recorded
    assert token.encode() not in recorded
