"""The table of other agents' tools names tools and parameters there are, and nothing that is ours already."""

from __future__ import annotations

import pytest

from foregate.schemas.strict_json import get_object
from foregate.schemas.tool_spec import PARAMETERS, TOOLS, find_foreign_tool, find_nearest_tool, spell_name
from tests.agent.dialects.specs import BUILTIN

OWN = {spec.name: get_object(spec.parameters, "properties").keys() for spec in BUILTIN}


def test_the_table_names_tools_and_parameters_there_are() -> None:
    assert not TOOLS.keys() & OWN.keys()
    assert all(name == spell_name(name) for name in TOOLS)
    for tool, table in PARAMETERS.items():
        assert set(table.values()) <= OWN[tool]
        assert not table.keys() & OWN[tool]
    for foreign in TOOLS.values():
        named = {*foreign.parameters.values(), *foreign.differs, *foreign.adds}
        assert named <= OWN[foreign.tool], foreign
        assert not foreign.idle.keys() & OWN[foreign.tool], foreign


def test_an_editor_that_is_one_tool_is_what_its_command_says() -> None:
    found = [find_foreign_tool("str_replace_editor", {"command": verb}) for verb in ("view", "create", "str_replace")]
    assert [one and one.tool for one in found] == ["read_file", "write_file", "edit_file"]
    assert find_foreign_tool("str_replace_editor", {"command": "undo_edit"}) is None
    assert find_foreign_tool("str_replace_editor", {}) is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("MultiEdit", "edit_file"),
        ("execute_command", "run_command"),
        ("Read", "read_file"),
        ("functions.bash", "run_shell"),
        ("read_fil", "read_file"),
        ("lookup", "server.lookup"),
        ("frobnicate", ""),
    ],
)
def test_a_name_nobody_knows_has_a_nearest_tool_that_is_offered_or_none(name: str, near: str) -> None:
    assert find_nearest_tool(name, [*OWN, "server.lookup"]) == near


def test_a_tool_that_is_not_offered_is_nobodys_nearest() -> None:
    assert find_nearest_tool("bash", ["read_file"]) == ""
