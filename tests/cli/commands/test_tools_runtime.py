"""`foregate tools list --runtime`: the tools of a runtime, and what the policy makes of what it says of them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.tools.remote.worlds import TOKEN, RuntimeProcess
from tests.cli.conftest import Cli, parse_lines


@pytest.fixture
def runtime(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeProcess]:
    """A runtime over a folder of its own, whose token the command line has."""
    monkeypatch.setenv("FOREGATE_RUNTIME_TOKEN", TOKEN)
    there = tmp_path / "there"
    there.mkdir()
    started = RuntimeProcess(there, tmp_path / "runtime-home")
    started.start()
    yield started
    started.end()


def listed(out: str) -> dict[str, list[str]]:
    """Return the rows of a list by the name of the tool, in words."""
    return {name: rest for name, *rest in map(str.split, out.splitlines())}


def test_tools_of_a_runtime_are_listed_as_the_policy_takes_them(cli: Cli, runtime: RuntimeProcess) -> None:
    url = f"ws://127.0.0.1:{runtime.port}"
    code, out, err = cli("tools", "list", "--runtime", url)
    rows, own = listed(out), listed(cli("tools", "list")[1])
    assert (code, list(rows)) == (0, list(own))
    assert rows["read_file"] == ["unknown", "undeclared", "remote,", "says", "observation"]
    assert rows["delegate"] == own["delegate"]
    assert "`runtime.declarations: believe` in your policy takes its word" in err
    assert len(err.splitlines()) == 1
    believes = {
        "runtime": {"declarations": "believe"},
        "tools": {"write_file": {"effect": "send", "reversible": False}},
    }
    Path("believes.yaml").write_text(json.dumps(believes))
    code, out, err = cli("tools", "list", "--runtime", url, "--policy", "believes.yaml")
    rows = listed(out)
    assert (code, err) == (0, "")
    assert rows["read_file"] == ["observation", "idempotent,", "reversible", "remote"]
    assert rows["write_file"] == ["send", "remote,", "as", "the", "policy", "says"]
    Path("believes.yaml").write_text(json.dumps({"tools": {"read_file": {"effect": "observation"}}}))
    row = listed(cli("tools", "list", "--runtime", url, "--policy", "believes.yaml")[1])["read_file"]
    said = "observation external_side_effect, needs_approval remote, says observation, as the policy says"
    assert row == said.split()
    assert runtime.foregate("audit", "list")[1].startswith("there are no sessions yet")


def test_a_program_reads_what_the_policy_makes_of_each_tool(cli: Cli, runtime: RuntimeProcess) -> None:
    Path("mcp.json").write_text('{"mcpServers": {"never": {"command": "/nowhere/at/all"}}}')
    url = f"ws://127.0.0.1:{runtime.port}"
    code, out, err = cli("tools", "list", "--runtime", url, "--mcp", "mcp.json", "--json")
    row = next(row for row in parse_lines(out) if row["name"] == "read_file")
    assert (code, err) == (0, "")
    assert (row["effect"], row["provenance"], row["in_force"]["effect"]) == ("observation", "remote", "unknown")
    assert row["in_force"]["capabilities"]["needs_approval"] is True
    assert "MCP servers are left out" in cli("tools", "list", "--runtime", url, "--mcp", "mcp.json")[2]
    own = next(row for row in parse_lines(cli("tools", "list", "--json")[1]) if row["name"] == "read_file")
    assert (own["in_force"]["effect"], own["in_force"]["capabilities"]["read_only"]) == ("observation", True)


@pytest.mark.parametrize(
    ("token", "more", "why"),
    [
        ("another-token-altogether", (), "cannot be used: it refused the token"),
        ("", (), "the runtime wants a token; set FOREGATE_RUNTIME_TOKEN to the one it printed"),
        (TOKEN, ("--tools", "mine.py"), "with a runtime all tools come from it; leave out your own"),
        (TOKEN, ("--policy", "one.yaml"), "tools, more than the 1 of runtime.max_tools"),
    ],
)
def test_a_runtime_that_cannot_be_listed_is_one_sentence(
    cli: Cli, runtime: RuntimeProcess, monkeypatch: pytest.MonkeyPatch, token: str, more: tuple[str, ...], why: str
) -> None:
    monkeypatch.setenv("FOREGATE_RUNTIME_TOKEN", token)
    Path("mine.py").write_text("raise AssertionError('this was loaded')\n")
    Path("one.yaml").write_text("runtime: {max_tools: 1}")
    code, out, err = cli("tools", "list", "--runtime", f"ws://127.0.0.1:{runtime.port}", *more)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why in err


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ws://127.0.0.1:{free}", "the runtime at ws://127.0.0.1:{free}/ cannot be used"),
        ("ws://elsewhere.example:1", "use wss://, or say --insecure-runtime"),
        ("http://127.0.0.1:1", "is no runtime; write ws://127.0.0.1:PORT"),
    ],
)
def test_where_no_runtime_is_one_sentence_says_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str, why: str
) -> None:
    monkeypatch.setenv("FOREGATE_RUNTIME_TOKEN", TOKEN)
    with socket.socket() as taken:  # bound and not listening: nobody answers there, and nobody else takes it
        taken.bind(("127.0.0.1", 0))
        free = taken.getsockname()[1]
        code, out, err = cli("tools", "list", "--runtime", url.format(free=free))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why.format(free=free) in err
