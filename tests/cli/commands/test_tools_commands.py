"""`foregate tools` with MCP servers, and a chat that asks about them at its start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.tools.declarations import Declarations
from foregate.schemas import strict_json
from foregate.schemas.tool_spec import Declaration, ToolSpec, hash_definition
from tests.agent.tools.mcp.conftest import HOSTILE
from tests.cli.conftest import Cli, Piped, parse_lines


@pytest.fixture
def servers(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration in the user's own place, with a server that serves and one that cannot."""
    file = tmp_path / "config" / "foregate" / "mcp.json"
    file.parent.mkdir(parents=True)
    good = {"command": sys.executable, "args": [str(HOSTILE), "plain"]}
    file.write_text(json.dumps({"mcpServers": {"bad": good, "lost": {"command": "/nowhere/at/all"}}}))
    return file


def states(cli: Cli) -> dict[str, str]:
    """Return how the tools of servers stand, by name."""
    code, out, _ = cli("tools", "list", "--json")
    assert code == 0
    return {row.get("name", row.get("provenance")): row["state"] for row in parse_lines(out) if "state" in row}


def test_tools_are_listed_pinned_and_compared(cli: Cli, servers: Path) -> None:
    assert states(cli)["bad.look"] == "new"
    assert states(cli)["mcp:lost"] == "failed"
    code, out, err = cli("tools", "pin", "bad")
    assert (code, "pin with --yes" in err) == (2, True)
    code, out, _ = cli("tools", "pin", "bad", "look", "--yes")
    assert (code, out.splitlines()[-1]) == (0, "1 pinned")
    assert "claims" in out
    assert "only reads" in out
    assert (states(cli)["bad.look"], states(cli)["bad.echo"]) == ("pinned", "new")
    code, out, _ = cli("tools", "pin", "bad", "--yes", "--json")
    assert "bad.echo" in [row["tool"] for row in parse_lines(out)]
    assert cli("tools", "diff", "bad")[:2] == (0, "every tool is as it was pinned\n")
    servers.write_text(servers.read_text().replace('"plain"', '"plain", "more"'))
    assert states(cli)["bad.look"] == "changed"
    code, out, _ = cli("tools", "diff", "bad", "--json")
    changed = {row["tool"]: row["diff"] for row in parse_lines(out)}
    assert code == 1
    assert "hostile_server.py plain\n+started as:" in changed["bad.look"]
    code, out, _ = cli("tools", "diff", "bad")
    assert (code, "bad.look" in out, "+ started as:" in out) == (1, True, True)
    assert "\u202e" not in out


def test_a_pinned_tool_its_server_lists_no_more_differs_and_one_of_a_server_that_fails_is_not_judged(
    cli: Cli, servers: Path
) -> None:
    cli("tools", "pin", "bad", "look", "--yes")
    other = {"command": sys.executable, "args": ["-I", "-m", "mcp_server_time", "--local-timezone", "UTC"]}
    servers.write_text(json.dumps({"mcpServers": {"bad": other}}))
    cli("tools", "pin", "bad", "--yes")
    assert cli("tools", "diff", "bad")[:2] == (1, "  gone      bad.look\n            its server no longer lists it\n")
    servers.write_text(json.dumps({"mcpServers": {"bad": {"command": "/nowhere/at/all"}}}))
    assert [row["state"] for row in parse_lines(cli("tools", "diff", "--json")[1])] == ["failed"]


def test_a_person_reads_the_list_without_anything_invisible(cli: Cli, servers: Path) -> None:
    code, out, _ = cli("tools", "list")
    assert code == 0
    assert next(line for line in out.splitlines() if line.startswith("bad.look ")).endswith("undeclared  mcp:bad, new")
    assert next(line for line in out.splitlines() if line.startswith("lost ")).endswith(
        "not available: `/nowhere/at/all` could not be started: No such file or directory"
    )


def test_what_confines_a_server_is_said_of_its_tools_and_needs_no_new_look_at_them(cli: Cli, servers: Path) -> None:
    cli("tools", "pin", "bad", "look", "--yes")
    servers.write_text(servers.read_text().replace('"command"', '"confine": "read", "command"'))
    rows = {row.get("name", row.get("provenance")): row for row in parse_lines(cli("tools", "list", "--json")[1])}
    if rows.get("mcp:bad", {}).get("state") == "failed":
        assert "it is to be confined (`confine: read`), which this machine cannot" in rows["mcp:bad"]["problem"]
        return
    assert (rows["bad.look"]["state"], rows["bad.look"]["confine"]) == ("pinned", "read")
    (line,) = [line for line in cli("tools", "list")[1].splitlines() if line.startswith("bad.look ")]
    assert line.endswith("mcp:bad, pinned, confined: read")


def test_what_is_not_there_is_said_in_one_sentence(cli: Cli, servers: Path) -> None:
    assert cli("tools", "pin", "none")[2] == "foregate: there is no MCP server `none`; there are: bad, lost\n"
    assert "has no tool `x`" in cli("tools", "pin", "bad", "x")[2]
    assert "`lost` is not available" in cli("tools", "pin", "lost")[2]
    code, _, err = cli("tools", "list", "--mcp", "nowhere.json")
    assert (code, "cannot be read" in err) == (2, True)


def test_a_run_says_what_it_does_not_offer_and_how_to_pin_it(cli: Cli, servers: Path) -> None:
    _, _, err = cli("run", "hello")
    told = " ".join(err.split())
    assert "`foregate tools pin bad` shows and pins them" in told
    assert "MCP server `lost` is not available" in told


def test_a_program_is_asked_about_a_server_at_the_start_of_a_chat(cli: Cli, servers: Path, piped: Piped) -> None:
    def asked() -> Any:
        out = cli("chat", "--json")[1]
        return next((line for line in map(json.loads, out.splitlines()) if "asks" in line), None)

    piped('{"answer": "yes"}\n')
    question = asked()
    assert (question["asks"], question["answers"], question["sheet"]["server"]) == ("tools", ["yes", "no"], "bad")
    assert states(cli)["bad.look"] == "new"
    piped(json.dumps({"answer": "yes", "request": question["request"]}) + "\n")
    asked()
    assert states(cli)["bad.look"] == "pinned"
    piped("")
    assert asked() is None


def test_what_a_person_said_of_a_tool_is_listed_and_forgotten(cli: Cli, servers: Path, home: Path) -> None:
    cli("tools", "pin", "bad", "--yes")
    rows = parse_lines(cli("tools", "list", "--json")[1])
    spec = strict_json.load(ToolSpec, {key: row for key, row in find(rows, "bad.look").items() if key not in ABOUT})
    kept = Declaration("reads", hash_definition(spec), texts=("q",))
    Declarations(home / "declarations.json").keep({"bad.look": kept}, {"bad.look": spec})
    code, out, _ = cli("tools", "declared")
    assert (code, out.split()) == (0, ["mcp:bad/bad.look", "only", "reads", "texts:", "q"])
    (line,) = [line for line in cli("tools", "list")[1].splitlines() if line.startswith("bad.look ")]
    assert ("observation" in line, "as you said" in line, "undeclared" in line) == (True, True, False)
    servers.write_text(servers.read_text().replace('"plain"', '"plain", "more"'))
    (line,) = [line for line in cli("tools", "list")[1].splitlines() if line.startswith("bad.look ")]
    assert ("undeclared" in line, "changed since you said what it does" in line) == (True, True)
    assert cli("tools", "forget", "mcp:bad")[1] == "1 forgotten\n"
    assert cli("tools", "declared")[1] == ""
    assert "nothing was said of `mcp:bad`" in cli("tools", "forget", "mcp:bad")[2]
    (home / "declarations.json").write_text("{")
    assert "no tool counts as declared" in cli("tools", "list")[2]
    assert cli("tools", "declared")[0] == 2


ABOUT = ("in_force", "state", "problem", "confine")
"""What a list adds to a specification."""


def find(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the row of a tool."""
    return next(row for row in rows if row.get("name") == name)
