"""`foregate acp` answers every line once, says nothing beside the protocol, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acp.schema import HttpMcpServer, SseMcpServer

from foregate.cli.app import main
from tests.agent.models.openai.scripted_server import ScriptedServer
from tests.cli.acp.editor import SERVE, Desk, Editor, begin, build_stdio, press, prompt, says
from tests.cli.conftest import Cli, Endpoint
from tests.forever import FOREVER
from tests.processes import wait_until_gone

INITIALIZE = {"protocolVersion": 1}
BAD: list[tuple[str, Any, int, str]] = [
    ("{", None, -32700, "JSON"),
    ('{"id": 1, "id": 2, "method": "initialize"}', 2, -32700, "twice"),
    ("[]", None, -32600, "one object"),
    ('{"jsonrpc": "2.0", "id": 7}', 7, -32600, "neither a request nor an answer"),
    ('{"jsonrpc": "2.0", "id": true, "method": "initialize"}', None, -32600, "`id`"),
    ('{"jsonrpc": "2.0", "id": 8, "method": 5}', 8, -32600, "`method`"),
    ('{"jsonrpc": "2.0", "id": 9, "method": "session/new", "params": []}', 9, -32600, "`params`"),
    ('{"jsonrpc": "2.0", "id": 10, "method": "session/new", "params": {"mcpServers": []}}', 10, -32602, "`cwd`"),
    ('{"jsonrpc": "2.0", "id": 11, "method": "session/new"}', 11, -32602, "`cwd`"),
    ('{"jsonrpc": "2.0", "id": "a", "method": "session/fly", "params": {}}', "a", -32601, "`session/fly`"),
    ('{"jsonrpc": "2.0", "id": 12, "method": "authenticate", "params": {"methodId": "x"}}', 12, -32601, "method"),
]
"""Lines that cannot be acted on, with the id, the code and a word of the one answer each gets."""
PROMPTS: list[tuple[dict[str, Any], str]] = [
    ({"sessionId": "nobody", "prompt": [{"type": "text", "text": "hi"}]}, "there is no session `nobody` here"),
    ({"prompt": []}, "the message is empty"),
    ({"prompt": [{"type": "text", "text": "  "}]}, "the message is empty"),
    ({"prompt": [{"type": "image", "data": "", "mimeType": "image/png"}]}, "image cannot be read here"),
    (
        {"prompt": [{"type": "resource", "resource": {"uri": "file:///x", "blob": "AA=="}}]},
        "`file:///x` is no text",
    ),
    ({"prompt": [{"type": "resource", "resource": {"uri": "u:x", "text": "x" * 300_000}}]}, "`u:x` is larger than"),
]
FOLDERS = [("a/b", "must be an absolute path"), ("/nowhere/at/all", "there is no folder"), ("/a\0b", "absolute path")]


class Raw:
    """A program that writes lines and reads them, in the place of a client that would not write such lines."""

    def __init__(self, desk: Desk, *options: str) -> None:
        self.process = subprocess.Popen(
            [*SERVE, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=desk.folder,
            env=desk.environ,
            text=True,
        )
        self.number = 100

    def say(self, line: str) -> Any:
        """Write a line and return the next answer; updates in between are passed over."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> Any:
        """Return the next answer."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "method" not in (message := json.loads(line)):
                return message
        raise AssertionError("it ended without an answer")

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return its answer, which is about it."""
        self.number += 1
        answer = self.say(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}))
        assert answer["id"] == self.number
        return answer

    def end(self) -> tuple[int, str]:
        """End the input; return the exit code and what is said after the last answer."""
        out, _ = self.process.communicate(timeout=FOREVER)
        return self.process.returncode, out


def test_every_line_gets_one_answer_and_what_is_wrong_costs_nothing_but_itself(desk: Desk) -> None:
    raw = Raw(desk)
    assert raw.ask("initialize", **INITIALIZE)["result"]["agentCapabilities"]["loadSession"] is True
    for line, number, code, word in BAD:
        answer = raw.say(line)
        assert (answer["id"], answer["error"]["code"]) == (number, code), line
        assert word in answer["error"]["message"]
        assert "\n" not in answer["error"]["message"]
    for folder, why in FOLDERS:
        assert why in raw.ask("session/new", cwd=folder, mcpServers=[])["error"]["message"]
    more = raw.ask("session/new", cwd=str(desk.folder), mcpServers=[], additionalDirectories=["/tmp"])
    assert "one folder" in more["error"]["message"]
    session = raw.ask("session/new", cwd=str(desk.folder), mcpServers=[])["result"]["sessionId"]
    for params, why in PROMPTS:
        answer = raw.ask("session/prompt", **{"sessionId": session, **params})
        assert answer["error"]["code"] == -32602
        assert why in answer["error"]["message"]
    for name in ("nobody", "last", session[:8], "../x"):
        answer = raw.ask("session/load", sessionId=name, cwd=str(desk.folder), mcpServers=[])
        assert f"there is no session `{name}` in the log" in answer["error"]["message"]
    elsewhere = raw.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[])
    assert "result" in elsewhere or "works in" in elsewhere["error"]["message"]
    text = [{"type": "text", "text": "Read a.txt"}]
    meta = {"sessionId": "nobody", "prompt": 5}
    answer = raw.ask("session/prompt", sessionId=session, prompt=text, _meta=meta)
    assert answer["result"] == {"stopReason": "end_turn"}
    assert raw.end() == (0, "")


def test_what_a_tool_prints_is_no_line_of_the_protocol(desk: Desk) -> None:
    tools = desk.home.parent / "tools.py"
    tools.write_text(
        "import os\nprint('loaded')\nimport foregate\n@foregate.tool(effect='observation')\n"
        "def look() -> str:\n    'Look.'\n    print('seen'); os.write(1, b'raw'); return 'x'\n"
    )
    raw = Raw(desk, "--tools", str(tools))
    raw.ask("initialize", **INITIALIZE)
    session = raw.ask("session/new", cwd=str(desk.folder), mcpServers=[])["result"]["sessionId"]
    text = [{"type": "text", "text": "Read a.txt"}]
    assert "result" in raw.ask("session/prompt", sessionId=session, prompt=text)
    assert raw.end() == (0, "")


def test_answers_come_once_each_however_many_requests_are_open_at_once(desk: Desk) -> None:
    raw = Raw(desk)
    assert raw.process.stdin is not None
    methods = ["initialize", "session/fly", "session/new", "session/set_mode", "session/load", "session/prompt"]
    for number in range(60):
        params = {"cwd": str(desk.folder), "mcpServers": []} if number % 6 == 2 else {"protocolVersion": 1}
        request = {"jsonrpc": "2.0", "id": number, "method": methods[number % 6], "params": params}
        raw.process.stdin.write(json.dumps(request) + "\n")
    raw.process.stdin.flush()
    assert sorted(raw.hear()["id"] for _ in range(60)) == list(range(60))
    assert raw.end() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_as_the_end_of_input_does(desk: Desk, number: int) -> None:
    desk.judge_by(approval={"mode": "each"})
    async with ScriptedServer(
        says("I correct it.", ("edit_file", '{"path":"a.txt","old":"teh","new":"the"}'))
    ) as server:
        desk.use(server.url)
        editor = Editor(holds=True)
        async with desk.start(editor) as (connection, process):
            prompting = asyncio.ensure_future(prompt(connection, await begin(desk, connection), "Correct a.txt"))
            await editor.asking.wait()
            process.send_signal(number)
            assert await process.wait() == 0
        assert (await asyncio.gather(prompting, return_exceptions=True))[0] == "end_turn"
    assert "awaiting_approval" in (await desk.foregate("audit", "list"))[1]


async def test_a_client_that_is_killed_leaves_no_process_behind_and_a_sound_log(desk: Desk, tmp_path: Path) -> None:
    desk.judge_by()
    seconds = f"99{os.getpid()}"
    wait = ("run_command", json.dumps({"argv": ["sleep", seconds]}))
    async with ScriptedServer(says("I wait.", wait)) as server:
        desk.use(server.url)
        script = tmp_path / "client.py"
        script.write_text(CLIENT)
        client = await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            json.dumps([*SERVE]),
            str(desk.folder),
            f"Run `sleep {seconds}`",
            stdout=asyncio.subprocess.PIPE,
            env=desk.environ,
        )
        assert client.stdout is not None
        agent = int(await client.stdout.readline())
        while b'"in_progress"' not in await client.stdout.readline():
            pass
        client.kill()
        await client.wait()
        await asyncio.to_thread(wait_until_gone, agent)
    assert not any(seconds.encode() in read_words(entry) for entry in Path("/proc").iterdir())
    assert (await desk.foregate("audit", "verify", "last"))[1].startswith("verified: ")
    assert "cancelled" in (await desk.foregate("audit", "list"))[1]


CLIENT = """
import json, subprocess, sys
command, folder, wish = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(agent.pid, flush=True)
def ask(number, method, **params):
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\\n")
    agent.stdin.flush()
ask(1, "initialize", protocolVersion=1)
agent.stdout.readline()
ask(2, "session/new", cwd=folder, mcpServers=[])
name = json.loads(agent.stdout.readline())["result"]["sessionId"]
ask(3, "session/prompt", sessionId=name, prompt=[{"type": "text", "text": wish}])
for line in agent.stdout:
    print(line, end="", flush=True)
    message = json.loads(line)
    if message.get("method") == "session/request_permission":
        answer = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}) + "\\n")
        agent.stdin.flush()
"""
"""A client that is no library of ours: it prints the agent's process and every line it hears."""


def read_words(entry: Path) -> bytes:
    """Return the words of a process, nothing for what is none any more."""
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


async def test_servers_of_the_editor_are_reviewed_pinned_and_undeclared(desk: Desk) -> None:
    clock = ("time_get_current_time", '{"timezone": "UTC"}')
    script = [says("I look at the clock for you.", clock), says("There it is.")]
    desk.judge_by()
    async with ScriptedServer(*script, *script, *script) as server:
        desk.use(server.url)
        given = build_stdio("time", sys.executable, ["-I", "-m", "mcp_server_time"], {"ODD": "${HOME}"})
        refused = Editor(press("no"))
        async with desk.start(refused) as (connection, _):
            await prompt(connection, await begin(desk, connection, given), "What time is it in UTC?")
        assert [option.option_id for option in refused.asked[0][1]] == ["yes", "no"]
        assert "nobody has pinned them" in refused.words
        assert "a new session asks about them again" in refused.words
        assert "unknown_tool" in refused.find_calls("failed")[0].raw_output["code"]
        assert "get_current_time" not in str(server.requests[0]["tools"])
        editor = Editor(press("yes"))
        for _ in range(2):
            async with desk.start(editor) as (connection, _):
                assert await prompt(connection, await begin(desk, connection, given), "What time is it in UTC?")
        assert "get_current_time" in str(server.requests[-1]["tools"])
    review, *calls = [call.title for call, _ in editor.asked]
    assert review == "May the model be offered these tools of the MCP server `time`?"
    assert calls == ["time.get_current_time: it reaches beyond the workspace"] * 2  # as what nobody has declared does
    assert "nobody has pinned" not in editor.words
    assert "UTC" in str(editor.find_calls("completed")[-1].raw_output)


async def test_transports_that_are_not_spoken_are_one_clear_refusal_and_servers_at_urls_are_taken(desk: Desk) -> None:
    editor = Editor()
    async with desk.start(editor) as (connection, _):
        sse = SseMcpServer(type="sse", name="far", url="https://example.org/sse", headers=[])
        with pytest.raises(Exception, match="the MCP server `far`: `sse` is not spoken here, only stdio and http"):
            await begin(desk, connection, sse)
        gone = HttpMcpServer(type="http", name="My server!", url="http://127.0.0.1:9/mcp", headers=[])
        assert await prompt(connection, await begin(desk, connection, gone), "Read a.txt") == "end_turn"
    assert "MCP server `My-server` is not available" in editor.words


def test_without_the_extra_one_sentence_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "acp", None)
    code, out, err = cli("acp")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'foregate[acp]'" in err


def test_no_other_command_loads_the_protocol(cli: Cli, endpoint: Endpoint) -> None:
    code = "import sys; from foregate.cli.app import main; main(['--help']); assert 'acp' not in sys.modules"
    subprocess.run([sys.executable, "-Ic", code], check=True, capture_output=True)
    assert main(["help", "acp"]) == 0
