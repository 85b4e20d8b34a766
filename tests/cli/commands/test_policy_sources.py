"""`foregate policy sources`: which fields nobody outside can write, who says so, and what was read undeclared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from foregate.cli.policy_show import build_source_rows, collect_fields
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.tool_call import Origin
from foregate.schemas.tool_spec import OBSERVER, Declaration, Effect, ToolSpec
from tests.cli.conftest import Cli
from tests.policies import policy_with


def tool(name: str, provenance: str = "python", **more: object) -> ToolSpec:
    bare = ToolSpec(name, name, {"type": "object"}, Effect.OBSERVATION, OBSERVER, provenance=provenance)
    return replace(bare, **more)


def test_each_tool_that_was_read_or_is_declared_stands_with_who_says_so() -> None:
    declared = Declaration("reads", "h", own=("total",), by="ann", at="2026-03-01T10:00:00Z")
    tools = [
        tool("find_contact", own=("email",)),
        tool("read_mails"),
        tool("list_orders", "mcp:shop", own="all", declared=declared),
        tool("count_orders", "mcp:shop", declared=replace(declared, own=("id",), by="", at="")),
        tool("get_room", "mcp:rooms", own=("id",)),
        tool("hand_over", destination="own"),
        tool("read_file", "builtin"),
        tool("never_called"),
    ]
    policy = policy_with({"sources": {"mcp:rooms": {"own": "all"}, "find_lost": {"own": ["id"]}}})
    rows = build_source_rows(tools, policy, Counter(["read_mails", "read_mails", "read_file"]))
    assert [(row["tool"], row["reads"], row["by"], row["own"], row["destination"]) for row in rows] == [
        ("find_contact", 0, "author", ["email"], ""),
        ("read_mails", 2, "", [], ""),
        ("list_orders", 0, "person ann 2026-03-01", ["total"], ""),
        ("count_orders", 0, "person", ["id"], ""),
        ("get_room", 0, "policy", ["all"], ""),
        ("hand_over", 0, "author", [], "own"),
        ("read_file", 1, "author", [], ""),
        ("find_lost", 0, "policy, for a tool that is not there", [], ""),
    ]


def test_a_session_that_read_nothing_from_outside_has_no_row_and_an_unknown_one_a_sentence(cli: Cli) -> None:
    cli("run", "read a.txt")
    assert cli("policy", "sources", "--json") == (0, "", "")
    code, _, err = cli("policy", "sources", "nosuch")
    assert (code, err) == (2, "foregate: there is no session `nosuch`; `foregate audit list` names those there are\n")


CONTACT = '[{"email": "a@b.example"}]'


def test_an_own_field_that_no_record_had_is_named_as_missing() -> None:
    tools = [tool("find_contact", own=("email", "id")), tool("list_rooms", own="all"), tool("unread", own=("id",))]
    rest = {"duration": 1, "origin": Origin.EXTERNAL, "evidence": (), "changes": ()}
    told = ToolFinished(call="c", tool="find_contact", target="", ok=True, content=CONTACT, **rest)
    rows = build_source_rows(tools, policy_with(), {}, collect_fields([told, replace(told, tool="list_rooms")]))
    assert [row["missing"] for row in rows] == [["id"], [], []]


def test_check_says_that_an_entry_for_a_built_in_tool_without_an_address_changes_nothing(
    cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("version: 1\nsources: {read_file: {own: all}, http_request: {own: [id]}, mine: {own: [id]}}\n")
    code, out, err = cli("policy", "check", str(file))
    assert (code, out.count("usable")) == (0, 1)
    (warning,) = (out + err).splitlines()[:-1] if "warning" in out else err.splitlines()
    assert "warning: `sources.read_file` changes nothing: a built-in tool without an address is judged by" in warning
