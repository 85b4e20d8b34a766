"""Servers an editor hands over are read as strictly as those of our own file."""

from __future__ import annotations

from typing import Any

import pytest
from acp.schema import AcpMcpServer, EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio, SseMcpServer

from foregate.agent.tools.mcp.server_configuration import expand_variables
from foregate.assembly.remote import read_mcp_servers
from foregate.assembly.setting import SessionOptions
from foregate.cli.acp.editor_agent import read_editor_servers
from foregate.schemas.errors import UsageError


def stdio(name: str = "git", command: str = "uvx", **env: str) -> McpServerStdio:
    variables = [EnvVariable(name=key, value=value) for key, value in env.items()]
    return McpServerStdio(name=name, command=command, args=["a b"], env=variables)


def at_url(name: str, url: str = "https://example.org/mcp") -> HttpMcpServer:
    return HttpMcpServer(type="http", name=name, url=url, headers=[HttpHeader(name="X-Key", value="${HOME}")])


def test_a_process_and_a_url_are_taken_and_names_become_names_of_tools() -> None:
    process, remote = read_editor_servers([stdio(), at_url("My wiki / 2")])
    assert (process.name, process.command, process.args) == ("git", "uvx", ("a b",))
    assert (remote.name, remote.url) == ("My-wiki-2", "https://example.org/mcp")


@pytest.mark.parametrize("value", ["${HOME}", "a${HOME:-x}b", "${}", "$HOME", "${${HOME}}"])
def test_nothing_is_filled_into_what_an_editor_says(value: str) -> None:
    (server,) = read_editor_servers([stdio(VALUE=value)])
    assert expand_variables(server.env, {"HOME": "/root"}) == {"VALUE": value}


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ([SseMcpServer(type="sse", name="far", url="https://x.org", headers=[])], "`far`: `sse` is not spoken here"),
        ([AcpMcpServer(type="acp", name="a", server_id="1")], "`a`: `acp` is not spoken here"),
        ([stdio(), stdio(command="other")], "two MCP servers are named `git`"),
        ([stdio(name="")], "a name has letters"),
        ([stdio(command="./run")], "`command` is a relative path"),
        ([at_url("x", "ftp://x.org")], "must be an http or https address"),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_sentence(servers: list[Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_editor_servers(servers)


def test_a_server_of_the_users_own_file_stands_before_one_of_its_name(tmp_path: Any) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"git": {"command": "uvx", "args": ["a b"]}}}')
    for given, notes in ((stdio(), 0), (stdio(command="other"), 1)):
        setting = SessionOptions(mcp=file, servers=read_editor_servers([given, stdio("more")]))
        servers, said = read_mcp_servers(setting)
        assert [(one.name, one.command) for one in servers] == [("git", "uvx"), ("more", "uvx")]
        assert len(said) == notes
