"""Which tools a person may declare at a sheet, and what keeps one tool's declaration from another's."""

from __future__ import annotations

from foregate.agent.tools.declarations import Declarations
from foregate.policy.risk.declared import is_undeclared
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import Declaration, ToolSpec, hash_definition


def tool(provenance: str) -> ToolSpec:
    return ToolSpec("lookup", "Look up a word.", {"type": "object"}, provenance=provenance)


def test_a_tool_of_a_server_and_one_of_the_program_may_be_declared() -> None:
    assert [is_undeclared(tool(source), default_policy()) for source in ("mcp:a", "python")] == [True, True]


def test_a_tool_of_a_runtime_is_not_declared_at_a_sheet_for_another_runtime_may_offer_the_same() -> None:
    assert not is_undeclared(tool("remote"), default_policy())


def test_no_declaration_reaches_a_tool_of_a_runtime_whatever_the_file_holds() -> None:
    remote, kept = tool("remote"), Declarations(None)
    kept.keep({"lookup": Declaration("reads", hash_definition(remote))}, {"lookup": remote})
    assert [spec.declared for spec in kept.apply([remote])] == [None]


def test_a_declaration_of_one_server_reaches_no_tool_of_another() -> None:
    mine, other, kept = tool("mcp:a"), tool("mcp:b"), Declarations(None)
    kept.keep({"lookup": Declaration("reads", hash_definition(mine))}, {"lookup": mine})
    assert [bool(spec.declared) for spec in kept.apply([mine, other])] == [True, False]
