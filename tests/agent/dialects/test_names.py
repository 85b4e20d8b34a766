"""The table of other names for tools, services and parameters."""

from __future__ import annotations

import pytest

from foregate.agent.dialects.dialect import Names
from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import Json


def test_a_table_is_read_with_all_its_parts() -> None:
    names = Names.from_json(
        {
            "tags": {"list": "list_files"},
            "services": {"sandbox": "shell"},
            "tools": {"web.find": "search.query"},
            "parameters": {"search.query": {"q": "query"}},
        }
    )
    assert names.tools["web.find"] == "search.query"
    assert names.parameters == {"search.query": {"q": "query"}}
    assert Names.from_json({}) == Names()
    assert Names.from_json({"tags": {"execute_command": "mine", "sh": "run_shell"}}).tags["sh"] == "run_shell"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "a table with the keys"),
        ({"tool": {}}, "no key `tool`"),
        ({"tags": []}, "`tags` is no table"),
        ({"tags": 3}, "`tags` is no table"),
        ({"tags": {"a b": "read_file"}}, "cannot be a tag"),
        ({"services": {"a": ""}}, "cannot be a tag"),
        ({"services": {"a": 3}}, "cannot be a tag"),
        ({"tags": {"Think": "read_file"}}, "meaning of its own"),
        ({"services": {"parallel": "shell"}}, "meaning of its own"),
        ({"parameters": ["a"]}, "`parameters` leads from a tool"),
        ({"parameters": {"read_file": "path"}}, "`parameters.read_file` is no table"),
        ({"tags": {"Execute_Command": "run_shell"}}, "the policy does, by `commands.execute_command: run_shell`"),
    ],
)
def test_what_is_no_table_of_names_is_refused_in_one_sentence(data: Json, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Names.from_json(data)
