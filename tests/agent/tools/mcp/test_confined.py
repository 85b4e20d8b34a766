"""Servers that are confined: what they cannot do, also while they live on, and that they otherwise work as ever."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.sandbox.restrictions import has_landlock
from foregate.agent.tools.mcp import transport
from foregate.agent.tools.mcp.definition import Pins
from foregate.agent.tools.mcp.mcp_tools import McpTools
from foregate.agent.tools.mcp.server_configuration import read_servers
from foregate.agent.tools.mcp.transport import list_folders
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import MemoryWorkspace, Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import WorkspaceError
from tests.agent.tools.mcp.conftest import Bench

TRYING = Path(__file__).with_name("trying_server.py")
CANARY = "canary-of-the-parent"
HELD = {
    "write into the home outside": "os.listdir(root + '/home')",
    "see the configuration": "open(root + '/mcp.json').read()",
    "read a secret file": "open(ws + '/.env').read()",
    "read a secret file by its descriptor's path": "open('/proc/self/root' + ws + '/conf/key.pem').read()",
    "delete a secret file": "os.unlink(ws + '/.env')",
    "connect by TCP": "socket.create_connection(('127.0.0.1', tcp), 5)",
    "connect to a socket in the workspace": "socket.socket(socket.AF_UNIX).connect(ws + '/socket')",
    "see the environment of the process above": "assert canary in open('/proc/%d/environ' % os.getppid()).read()",
    "have the variables of the process above": "assert canary in str(dict(os.environ))",
    "see the process above": "open(f'/proc/{pid}/environ').read()",
    "write to a program": "open('/usr/bin/env', 'r+b')",
    "write beside its own program": "open(own + '/new', 'w')",
    "change git's settings": "open(ws + '/.git/config', 'a')",
    "change what an editor runs": "open(ws + '/.vscode/tasks.json', 'w')",
    "make a hook": "open(ws + '/.git/hooks/pre-commit', 'w')",
    "move git's folder away": "os.rename(ws + '/.git', ws + '/x')",
}
IN_WORKSPACE = {
    "make a file": "open(ws + '/new.txt', 'w').write('new')",
    "change a file": "open(ws + '/a.txt', 'a').write('more')",
    "make a folder": "os.mkdir(ws + '/folder')",
}
WANTED = {
    "read a file": "assert open(ws + '/a.txt').read().startswith('a') and False",
    "have its own variable": "assert os.environ['GIVEN'] != 'mine'",
    "write beside the workspace where that is scratch space": "open(ws + '/../new', 'w'); assert 0",
    "have scratch space": "open('/tmp/x', 'w').write('x'); open(os.environ['HOME'] + '/x', 'w').write('x'); assert 0",
}
"""Statements that end in AssertionError where they could do what they want."""


@pytest.fixture(autouse=True)
def full(bench: Bench) -> None:
    """These tests are about machines with sandboxes; without one nothing of this may run."""
    probe = find_tier(bench.space, default_policy())
    if probe["tier"] != "full":
        pytest.skip(f"no sandbox here: {probe['reason']}; {probe['cure']}")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listener on this machine's loopback network."""
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        opened.setblocking(False)
        yield opened


@pytest.fixture
def values(bench: Bench, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the statements speak of, in a workspace with a repository, secret files and a socket."""
    monkeypatch.setenv("FOREGATE_TEST_CANARY", CANARY)
    ws = bench.workspace
    for folder in ("conf", ".git/hooks", ".vscode"):
        (ws / folder).mkdir(parents=True)
    for name in ("a.txt", ".env", "conf/key.pem", ".git/config", ".vscode/tasks.json"):
        (ws / name).write_text(f"{name}\n")
    with closing(socket.socket(socket.AF_UNIX)) as waiting:
        waiting.bind(str(ws / "socket"))
        waiting.listen()
        yield {
            "ws": str(ws),
            "root": str(bench.root),
            "tcp": listener.getsockname()[1],
            "canary": CANARY,
            "pid": os.getpid(),
            "own": str(TRYING.parent),
        }


def trying(confine: str, *args: str, **env: str) -> dict[str, Any]:
    """Return the entry of the server that tries things, confined."""
    assert confine in ("read", "work")
    return {"command": sys.executable, "args": ["-I", str(TRYING), *args], "env": env, "confine": confine}


@asynccontextmanager
async def start_tool(bench: Bench, entry: Mapping[str, Any], name: str = "attempt") -> AsyncIterator[Tool]:
    """A tool of one server, which ends with it."""
    bench.serve({"one": entry})
    servers = await bench.listed()
    try:
        assert servers.failed == {}
        tools = servers.servers[0].approve(servers.servers[0].definitions)
        yield next(tool for tool in tools if tool.spec.name == f"one.{name}")
    finally:
        await servers.close()


async def attempt(tool: Tool, values: Mapping[str, Any], statements: Mapping[str, str]) -> dict[str, str]:
    """Return what came of each statement."""
    answer = await tool.run({"values": dict(values), "statements": dict(statements)})
    assert answer.ok, answer.content
    return dict(json.loads(answer.content))


def look_at(folder: Path) -> dict[str, str]:
    """Return every file of a folder with its content."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("confine", ["read", "work"])
async def test_what_is_outside_or_secret_or_protected_no_confined_server_reaches(
    bench: Bench, values: dict[str, Any], listener: socket.socket, confine: str
) -> None:
    before = look_at(bench.root)
    async with start_tool(bench, trying(confine, GIVEN="mine")) as tool:
        found = await attempt(tool, values, {**HELD, **WANTED})
    assert {name: result for name, result in found.items() if name in WANTED and result != "HELD"} == {}
    assert [name for name, result in found.items() if result == "DONE"] == []
    assert {**look_at(bench.root), "mcp.json": ""} == {**before, "mcp.json": ""}
    with pytest.raises(BlockingIOError):
        listener.accept()


async def test_a_server_that_reads_writes_nowhere_and_one_that_works_writes_in_the_workspace(
    bench: Bench, values: dict[str, Any]
) -> None:
    before = look_at(bench.workspace)
    async with start_tool(bench, trying("read")) as tool:
        found = await attempt(tool, values, IN_WORKSPACE)
    assert "DONE" not in found.values()
    assert look_at(bench.workspace) == before
    async with start_tool(bench, trying("work")) as tool:
        found = await attempt(tool, values, IN_WORKSPACE)
    assert set(found.values()) == {"DONE"}
    assert look_at(bench.workspace) == {**before, "new.txt": "new", "a.txt": "a.txt\nmore"}


@pytest.mark.skipif(not has_landlock(), reason="without Landlock nothing holds named pipes in what is shown as it is")
async def test_a_server_that_reads_writes_to_no_named_pipe_of_a_workspace_in_its_users_home(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not so in a workspace in `/tmp`, which is scratch space with all that is shown there."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        monkeypatch.setenv("HOME", home)
        folder = Path(home, "workspace")
        folder.mkdir()
        os.mkfifo(folder / "pipe")
        reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        with closing(LocalWorkspace(folder)) as space:
            async with start_tool(replace(bench, workspace=folder, space=space), trying("read")) as tool:
                write = {"write": "os.open(ws + '/pipe', os.O_WRONLY | os.O_NONBLOCK)"}
                assert await attempt(tool, {"ws": str(folder)}, write) == {"write": "EACCES"}
        os.close(reader)


@pytest.mark.parametrize("confine", ["read", "work"])
async def test_a_server_that_lives_on_sees_what_changes_and_no_secret_that_is_replaced_or_made(
    bench: Bench, values: dict[str, Any], confine: str
) -> None:
    looks = {
        "the file": "assert open(ws + '/a.txt').read() != 'changed'",
        "a new file": "assert open(ws + '/b.txt').read() != 'new'",
        "the secret": "open(ws + '/.env').read()",
        "a new secret": "open(ws + '/.env.local').read()",
    }
    async with start_tool(bench, trying(confine)) as tool:
        assert set((await attempt(tool, values, looks)).values()) == {"DONE", "ENOENT", "EACCES"}
        bench.space.write("a.txt", b"changed")
        bench.space.write("b.txt", b"new")
        assert (await attempt(tool, values, looks))["the file"] == "HELD"
        bench.space.write(".env", b"another")
        bench.space.write(".env.local", b"one more")
        found = await attempt(tool, values, looks)
    assert found == {"the file": "HELD", "a new file": "HELD", "the secret": "EACCES", "a new secret": "EACCES"}


async def test_what_a_confined_server_started_is_gone_when_it_is_closed(bench: Bench, values: dict[str, Any]) -> None:
    start = {"a child": "__import__('subprocess').Popen(['sleep', '987654'], start_new_session=True)"}
    async with start_tool(bench, trying("read", "--a-mark-of-this-test")) as tool:
        assert set((await attempt(tool, values, start)).values()) == {"DONE"}
        assert find_running("987654")
    assert find_running("987654") == find_running("--a-mark-of-this-test") == []


def find_running(word: str) -> list[str]:
    """Return the processes of this machine that have a word on their command line."""
    ran = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in ran.stdout.splitlines() if word in line.split()]


async def test_a_machine_without_sandboxes_starts_no_server_that_is_to_be_confined(bench: Bench) -> None:
    configured, _ = read_servers(bench.serve({"one": trying("read")}))
    pins = Pins(bench.home / "mcp-pins.json")
    servers = await McpTools.start(configured, default_policy(), pins, {"PATH": "/usr/bin:/bin"}, MemoryWorkspace({}))
    await servers.close()
    assert servers.servers[0].definitions == []
    assert "it is to be confined (`confine: read`), which this machine cannot" in servers.failed["one"]
    assert "`confine: none`" in servers.failed["one"]


async def test_a_sandbox_that_fails_by_a_fault_of_its_own_starts_no_server(
    bench: Bench, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise WorkspaceError("the sandbox failed: NameError: x")

    monkeypatch.setattr(transport, "find_tier", fail)
    configured, _ = read_servers(bench.serve({"one": trying("read")}))
    pins = Pins(bench.home / "mcp-pins.json")
    servers = await McpTools.start(configured, default_policy(), pins, {"PATH": "/usr/bin:/bin"}, workspace)
    await servers.close()
    assert servers.servers[0].definitions == []
    assert servers.failed["one"].endswith("could not be started: the sandbox failed: NameError: x")


def test_the_folders_of_what_a_server_is_given_are_shown_with_the_project_they_belong_to(tmp_path: Path) -> None:
    project, packages = tmp_path / "project", tmp_path / "node_modules"
    for folder in (project / "src", packages / "a/dist", packages / "a/node_modules/b", tmp_path / "keys"):
        folder.mkdir(parents=True)
    names = ("project/package.json", "project/src/main.js", "node_modules/a/node_modules/b/index.js", "keys/id_rsa")
    main, _, index, key = (tmp_path / name for name in (names[1], names[0], names[2], names[3]))
    for name in names:
        (tmp_path / name).touch()
    words = [str(main), f"--data={tmp_path}", str(index), str(key), "-x", str(tmp_path / "none")]
    assert list(list_folders(words, default_policy().files.secret)) == [
        *(str(project / "src"), str(project), str(tmp_path)),
        *(str(index.parent), str(packages)),
    ]
