"""The configuration: what people have already is read, anything else is one sentence that names the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.tools.mcp.server_configuration import (
    SERVERS_FILE,
    ServerConfiguration,
    expand_variables,
    read_servers,
)
from foregate.schemas.errors import UsageError


def read(tmp_path: Path, entry: Any, name: str = "x") -> tuple[list[ServerConfiguration], list[str]]:
    """Read a file with one server."""
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {name: entry}, "globalShortcut": "Ctrl+Q"}))
    return read_servers(file)


def test_what_people_have_is_read(tmp_path: Path) -> None:
    entry = {"type": "stdio", "command": "npx", "args": ["-y", "a"], "env": {"A": "${B}"}, "autoApprove": ["a"]}
    (server,), notes = read(tmp_path, entry)
    assert (server.command, server.args, server.env, server.launch_line) == (
        "npx",
        ("-y", "a"),
        {"A": "${B}"},
        "npx -y a",
    )
    assert notes == ["MCP server `x`: `autoApprove` has no effect; the policy says what may run unasked"]
    (place,), _ = read(tmp_path, {"url": "https://a.example/mcp", "headers": {"X-Key": "${K}"}, "call_timeout": 9})
    assert (place.url, place.call_timeout, place.launch) == ("https://a.example/mcp", 9, {"url": place.url})
    assert read(tmp_path, {"command": "a", "disabled": True}) == ([], [])


def test_a_server_behind_a_transport_nobody_speaks_here_is_left_out_and_the_others_are_there(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    old = {"type": "sse", "url": "http://a.example/sse"}
    file.write_text(json.dumps({"mcpServers": {"old": old, "other": {"command": "a"}}}))
    servers, notes = read_servers(file)
    assert [server.name for server in servers] == ["other"]
    assert notes == ["MCP server `old` is left out: `sse` is not spoken here, only stdio and http"]


def test_what_other_programs_have_and_has_no_effect_is_said_to_have_none(tmp_path: Path) -> None:
    foreign = {"timeout": 60, "description": "x", "trust": True, "alwaysAllow": ["a"]}
    (server,), notes = read(tmp_path, {"command": "a", "args": ["b", "${HOME}/c"], "env": {"A": "${HOME}"}, **foreign})
    assert [note.split("`")[3] for note in notes] == ["timeout", "description", "trust", "alwaysAllow", "${HOME}"]
    assert "write `call_timeout`, in seconds" in notes[0]
    assert "`args` is taken as it stands" in notes[-1]
    assert server.args == ("b", "${HOME}/c")
    assert read(tmp_path, {"url": "https://a.example/${K:-x}"})[1][0].startswith("MCP server `x`: `${K:-x}` in `url`")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("npx", "must be an object"),
        ({}, "neither `command` nor `url`"),
        ({"command": "a", "url": "http://a"}, "keep one"),
        ({"command": "a", "arg": []}, "the key `arg` is unknown"),
        ({"command": "a", "headers": {}}, "the key `headers` is unknown"),
        ({"command": ""}, "`command` must be a text"),
        ({"command": "./server"}, "write the absolute one"),
        ({"command": "bin/server"}, "write the absolute one"),
        ({"command": "a", "cwd": "here"}, "write the absolute one"),
        ({"command": "a", "args": "b"}, "`args` must be a list"),
        ({"command": "a", "args": [1]}, "`args` must be a list"),
        ({"command": "a\0b"}, "`command` must be a text"),
        ({"command": "a", "env": {"A": 1}}, "`env` must be an object"),
        ({"command": "a", "env": {"A=B": "1"}}, "no variable can have"),
        ({"command": "a", "start_timeout": 0}, "whole number of seconds"),
        ({"command": "a", "call_timeout": True}, "whole number of seconds"),
        ({"command": "a", "disabled": "yes"}, "true or false"),
        ({"command": "a", "confine": "write"}, "`confine` must be none, read or work"),
        ({"url": "http://a", "confine": "none"}, "`confine` needs a `command`"),
        ({"command": "a", "type": "http"}, "none that is spoken here"),
        ({"url": "http://a.example/", "type": "carrier pigeon"}, "none that is spoken here"),
        ({"url": "file:///etc/passwd"}, "http or https"),
        ({"url": "https://a:b@c.example/"}, "in `headers`"),
        ({"url": "https://a.example:x/"}, "http or https"),
        ({"url": "https://a.example/\u202e"}, "http or https"),
        ({"url": "https://a.example/", "headers": {"A": "b\r\nC: d"}}, "cannot be sent"),
        ({"url": "https://a.example/", "headers": {"A b": "c"}}, "cannot be sent"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(tmp_path: Path, entry: Any, words: str) -> None:
    with pytest.raises(UsageError, match="the server `x`: ") as caught:
        read(tmp_path, entry)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.b", "a b", "", "ä", "x" * 65, "a\n"])
def test_a_name_that_could_not_be_told_from_a_tools_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="rename it"):
        read(tmp_path, {"command": "a"}, name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "lists no servers"),
        ('{"servers": {}}', "lists no servers"),
        ('{"mcpServers": []}', "lists no servers"),
        ('{"mcpServers": {"a": {"command": "b"}, "a": {"command": "c"}}}', "appears twice"),
        ("{", "not valid JSON"),
        ("\udcff", "no UTF-8"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=words) as caught:
        read_servers(file)
    assert "mcp.json" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_servers(tmp_path / "none.json")


def test_the_file_is_the_one_named_or_the_environments_or_the_users_own_and_never_the_workspaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mcp.json").write_text("{}")
    (tmp_path / ".mcp.json").write_text("{}")
    environ = {"HOME": str(tmp_path / "home")}
    assert SERVERS_FILE.find(None, environ) is None
    assert SERVERS_FILE.get_place(None, environ) == tmp_path / "home/.config/foregate/mcp.json"
    own = tmp_path / "config/foregate/mcp.json"
    own.parent.mkdir(parents=True)
    own.write_text("{}")
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    assert SERVERS_FILE.find(None, environ) == own
    assert SERVERS_FILE.find(None, {**environ, "FOREGATE_MCP": "b.json"}) == Path("b.json")
    assert SERVERS_FILE.find("a.json", {**environ, "FOREGATE_MCP": "b.json"}) == Path("a.json")


def test_variables_are_expanded_only_where_they_are_written() -> None:
    environ = {"A": "${B}", "B": "b"}
    assert expand_variables({"x": "<${A}> $A ${C:-c} $${B}"}, environ) == {"x": "<${B}> $A c $b"}
    with pytest.raises(UsageError, match="`NONE` is not set"):
        expand_variables({"x": "${NONE}"}, environ)
