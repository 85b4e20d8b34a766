"""Foregate as a server of the Model Context Protocol, spoken with by the official client over a real process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp
import pytest
from mcp import types
from mcp.client.stdio import StdioServerParameters, stdio_client

from foregate.agent.serving.mcp_server import McpServer
from foregate.agent.serving.tool_server import CallerModel, ToolServer
from foregate.assembly.home import Home
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.telemetry.log.memory_log import MemoryLog
from tests.forever import FOREVER
from tests.processes import FOREGATE_WITHOUT_SANDBOXES

"""Seconds after which a message is not expected any more."""
MODES = ("legacy", "auto")
EDIT = {"path": "a.txt", "old": "teh", "new": "the"}
Answering = Callable[[Any, Any], Awaitable[types.ElicitResult]]


@pytest.fixture
def home(tmp_path: Path, folder: Path) -> Path:
    """The server's home, beside a workspace with a file."""
    (folder / "a.txt").write_text("teh cat\n")
    return tmp_path / "home"


def environ(home: Path) -> dict[str, str]:
    """Return what the server sees."""
    return {"PATH": os.environ["PATH"], "HOME": str(home.parent), "FOREGATE_HOME": str(home)}


@asynccontextmanager
async def client(
    home: Path, folder: Path, mode: str = "auto", answer: Answering | None = None, **more: Any
) -> AsyncIterator[mcp.Client]:
    """Start the server and connect to it with the official client."""
    server = StdioServerParameters(
        command=sys.executable,
        args=[*FOREGATE_WITHOUT_SANDBOXES, "tools", "serve", "--mcp", "--workspace", str(folder)],
        env=environ(home),
        cwd=str(folder),
    )
    async with mcp.Client(stdio_client(server), mode=mode, elicitation_callback=answer, **more) as connected:
        yield connected


def foregate(home: Path, *arguments: str) -> tuple[int, str]:
    """Run a command in the server's home."""
    done = subprocess.run(
        [sys.executable, "-Im", "foregate", *arguments],
        env=environ(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FOREVER,
    )
    return done.returncode, done.stdout


def saying(action: str, asked: list[str], **content: Any) -> Answering:
    """Return a person who answers so, and what they were shown."""

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action=action, content=content or None)  # type: ignore[arg-type]

    return answer


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_are_listed_with_their_schemas_and_honest_hints(home: Path, folder: Path, mode: str) -> None:
    async with client(home, folder, mode) as server:
        tools = {tool.name: tool for tool in (await server.list_tools()).tools}
    assert tools["read_file"].annotations is not None
    assert tools["read_file"].annotations.read_only_hint
    assert "path" in tools["read_file"].input_schema["properties"]
    for name in ("run_command", "delete_path", "git_push"):
        hints = tools[name].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert "delegate" not in tools


@pytest.mark.parametrize("mode", MODES)
async def test_an_edit_before_a_read_is_held_with_its_remedy_and_what_was_done_can_be_undone(
    home: Path, folder: Path, mode: str
) -> None:
    async with client(home, folder, mode) as server:
        held = await server.call_tool("edit_file", EDIT)
        assert held.is_error
        assert held.structured_content is not None
        assert held.structured_content["code"] == "missing_pre_execution_evidence"
        assert held.structured_content["remedy"] == {"tool": "read_file", "arguments": {"path": "a.txt"}}
        assert (folder / "a.txt").read_text() == "teh cat\n"
        done = await server.call_tool("edit_file", EDIT)
        assert not done.is_error
        assert done.structured_content is not None
        assert done.structured_content["ok"] is True
    assert (folder / "a.txt").read_text() == "the cat\n"
    assert foregate(home, "audit", "verify", "last")[0] == 0
    assert foregate(home, "undo", "last")[0] == 0
    assert (folder / "a.txt").read_text() == "teh cat\n"


async def test_what_may_not_be_is_refused_with_the_reason(home: Path, folder: Path) -> None:
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("write_file", {"path": ".git/config", "content": "x"}, "denied_by_rule"),
        ("read_file", {"path": "../home/events.db"}, "denied_by_rule"),
        ("read_file", {"path": 5}, "invalid_arguments"),
        ("no_tool", {}, "unknown_tool"),
        ("run_command", {"argv": ["touch", "made"]}, "approval_required"),
    ]
    async with client(home, folder) as server:
        for tool, arguments, code in calls:
            said = await server.call_tool(tool, arguments)
            assert said.is_error, tool
            assert said.structured_content is not None
            assert said.structured_content["code"] == code
            assert isinstance(said.content[0], types.TextContent)
            assert said.content[0].text.startswith(f"not run ({code}): ")
    assert not (folder / "made").exists()


@pytest.mark.parametrize("mode", MODES)
async def test_what_asks_is_asked_through_the_client(home: Path, folder: Path, mode: str) -> None:
    asked: list[str] = []
    answers: dict[str, types.ElicitResult] = {
        "approved": types.ElicitResult(action="accept", content={"approve": True}),
        "disapproved": types.ElicitResult(action="accept", content={"approve": False}),
        "declined": types.ElicitResult(action="decline"),
        "cancelled": types.ElicitResult(action="cancel"),
    }

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return list(answers.values())[len(asked) - 1]

    async with client(home, folder, mode, answer) as server:
        for number, name in enumerate(answers, start=1):
            said = await server.call_tool("run_command", {"argv": ["touch", name]})
            assert said.is_error is (name != "approved")
            assert (await server.call_tool("read_file", {"path": "a.txt"})).is_error is False
            assert len(asked) == number
            assert f"touch {name}" in asked[-1]
            assert (folder / name).exists() is (name == "approved")


async def test_a_call_that_is_cancelled_ends_and_the_next_one_runs(home: Path, folder: Path) -> None:
    (folder / "go.sh").write_text("echo x > started\nread x < gate\n")
    for name in ("started", "gate"):
        os.mkfifo(folder / name)
    started = os.open(folder / "started", os.O_RDONLY | os.O_NONBLOCK)
    asked: list[str] = []
    async with client(home, folder, "auto", saying("accept", asked, approve=True)) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.call_tool, "run_command", {"argv": ["sh", "go.sh"]})
            await anyio.wait_readable(started)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            assert not (await server.call_tool("read_file", {"path": "a.txt"})).is_error
    os.close(started)
    log = Home(home).open_log()
    (name,) = await log.sessions()
    kinds = [event.kind for event in await log.read(name)]
    log.close()
    assert kinds.count("outcome_unknown") == 1
    assert kinds[-1] == "session_ended"


async def test_progress_is_told(home: Path, folder: Path) -> None:
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with client(home, folder) as server:
        await server.call_tool("read_file", {"path": "a.txt"}, progress_callback=hear)
    assert told[0] == 0
    assert 1 in told


def test_standard_output_carries_the_protocol_only(home: Path, folder: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        [sys.executable, *FOREGATE_WITHOUT_SANDBOXES, "tools", "serve", "--mcp", "--workspace", str(folder)],
        input=json.dumps(hello) + "\nno json at all\n",
        env=environ(home),
        capture_output=True,
        text=True,
        timeout=FOREVER,
    )
    assert done.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in done.stdout.splitlines())
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {1, None}
    assert "session " in done.stderr


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@contextmanager
def by_hand(home: Path, folder: Path, started: Sequence[str] = (), **policy: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start the server, by the words `started` where they are given, and greet it line by line."""
    (home.parent / "p.yaml").write_text(json.dumps(policy))
    command = [sys.executable, *FOREGATE_WITHOUT_SANDBOXES, "tools", "serve", "--mcp", "--workspace", str(folder)]
    with subprocess.Popen(
        [*started, *command, "--policy", str(home.parent / "p.yaml")],
        env=environ(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        watchdog = threading.Timer(FOREVER, server.kill)  # a message that never comes fails the test
        watchdog.start()
        tell(server, id=0, method="initialize", params=HELLO)
        assert heard(server)["id"] == 0
        tell(server, method="notifications/initialized")
        try:
            yield server
        finally:
            watchdog.cancel()
            server.kill()


def tell(server: subprocess.Popen[bytes], **message: Any) -> None:
    """Send a message."""
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def heard(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the next message."""
    assert server.stdout is not None
    said: dict[str, Any] = json.loads(server.stdout.readline())
    return said


def test_a_line_that_is_no_strict_json_is_answered_and_the_next_is_served(home: Path, folder: Path) -> None:
    lines: list[tuple[bytes, Any, str]] = [
        (b"no json at all", None, "not valid JSON"),
        (b"\xff\xfe", None, "not valid JSON"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\\ud800"}}', 7, "lone surrogate"),
        (b'{"jsonrpc":"2.0","id":"x","method":"ping","params":{"a":1,"a":2}}', "x", "twice"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}', 7, "NaN"),
        (b"[" * 5000, None, "deeper"),
        (b"x" * 300_000, None, "larger than 100000 bytes"),
    ]
    with by_hand(home, folder, serving={"max_message": 100_000}) as server:
        assert server.stdin is not None
        for following, (line, number, why) in enumerate(lines, start=100):
            server.stdin.write(line + b"\n\n")
            refused = (tell(server, id=following, method="ping"), heard(server))[1]
            assert (refused["id"], refused["error"]["code"]) == (number, -32700), line[:80]
            assert why in refused["error"]["message"]
            assert heard(server)["id"] == following


@pytest.mark.parametrize("started", [[], ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]], ids=["alone", "behind &"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_end_it_stops_what_runs_and_completes_its_session_while_its_client_still_listens(
    home: Path, folder: Path, number: int, started: list[str]
) -> None:
    """Also where a shell started it with `&`, which leaves interrupts ignored."""
    with by_hand(home, folder, started, commands={"read_only": {"sleep": {"options": []}}}) as server:
        seconds = str(100_000 + os.getpid())
        call = {"name": "run_command", "arguments": {"argv": ["sleep", seconds]}, "_meta": {"progressToken": 1}}
        tell(server, id=1, method="tools/call", params=call)
        while heard(server).get("params", {}).get("progress") != 1:
            pass
        server.send_signal(number)
        assert server.wait(FOREVER) == 130
    assert not any(f"sleep\0{seconds}".encode() in command_of(entry) for entry in Path("/proc").iterdir())
    assert foregate(home, "audit", "verify", "last")[1].startswith("verified: ")


def command_of(entry: Path) -> bytes:
    """Return the words of a process, nothing for what is none any more."""
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


async def test_a_client_hears_that_a_call_runs_however_long_it_takes_to_hear_that_it_is_judged(folder: Path) -> None:
    class SlowClient:
        """The client's side of a call, which takes its time over everything it is told."""

        client_capabilities = None

        async def report_progress(self, progress: int, *_: Any) -> None:
            for _ in range(1000):
                await asyncio.sleep(0)
            told.append(progress)

    told: list[int] = []
    (folder / "a.txt").write_text("teh cat\n")
    setting = SessionOptions(workspace=folder, model=CallerModel(), log=MemoryLog(), environ={})
    opened = await open_session(setting)
    session, server = opened.session, ToolServer(opened.session)
    await server.begin()
    serving = McpServer(server, list(session.tools.specs()), session.policy, str)
    params = types.CallToolRequestParams(name="read_file", arguments={"path": "a.txt"})
    await serving._call_tool(SimpleNamespace(session=SlowClient()), params)  # type: ignore[arg-type]
    await opened.close()
    assert told == [0, 1, 2]


def test_one_way_of_serving_is_chosen(home: Path, folder: Path) -> None:
    for wrong in ([], ["--mcp", "--ws", "127.0.0.1:0"]):
        code, said = foregate(home, "tools", "serve", *wrong)
        assert (code, said.count("\n")) == (2, 1)
        assert "either --ws" in said
