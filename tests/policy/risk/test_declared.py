"""Which tools a person may declare, who says which fields are own, and what a tool lists as choices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.tools.declarations import Declarations
from foregate.policy.risk.declared import (
    Leaf,
    find_own_fields,
    has_own_destination,
    is_choice,
    is_default,
    is_undeclared,
    list_choices,
)
from foregate.policy.source.load import default_policy
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import OBSERVER, Declaration, OwnFields, ToolSpec, hash_definition
from tests.policies import policy_with


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


def owning(provenance: str, own: OwnFields = (), by_person: OwnFields | None = None) -> ToolSpec:
    """Return a tool that says which fields its system assigns, and what a person said of that."""
    said = None if by_person is None else Declaration("reads", "", own=by_person)
    return replace(tool(provenance), capabilities=OBSERVER, own=own, destination="own", declared=said)


SOURCES = {"sources": {"lookup": {"own": ["code"]}, "mcp:crm": {"own": "all", "destination": "own"}}}


@pytest.mark.parametrize("provenance", ["builtin", "python"])
def test_an_author_in_the_operators_program_says_which_fields_are_own_and_beats_the_person(provenance: str) -> None:
    policy = default_policy()
    assert find_own_fields(owning(provenance, ("id",)), policy) == ("id",)
    assert find_own_fields(owning(provenance, "all", by_person=("name",)), policy) == "all"
    assert find_own_fields(owning(provenance, (), by_person=("name",)), policy) == ()


def test_what_a_server_says_of_its_own_fields_and_destination_counts_for_nothing() -> None:
    policy = default_policy()
    for provenance in ("mcp:crm", "remote"):
        assert find_own_fields(owning(provenance, "all"), policy) == ()
        assert not has_own_destination(owning(provenance, "all"), policy)
    assert find_own_fields(owning("mcp:crm", "all", by_person=("id",)), policy) == ("id",)


def test_a_runtime_is_believed_only_where_the_policy_says() -> None:
    believing = policy_with({"runtime.declarations": "believe"})
    assert find_own_fields(owning("remote", ("id",)), believing) == ("id",)
    assert has_own_destination(owning("remote"), believing)
    assert find_own_fields(owning("mcp:crm", ("id",)), believing) == ()
    assert not has_own_destination(owning("mcp:crm"), believing)


@pytest.mark.parametrize("provenance", ["builtin", "python", "mcp:crm", "remote"])
def test_the_policy_beats_author_and_person(provenance: str) -> None:
    spec = owning(provenance, "all", by_person="all")
    assert find_own_fields(spec, policy_with(SOURCES)) == ("code",)
    assert not has_own_destination(spec, policy_with(SOURCES))
    assert find_own_fields(spec, policy_with({"sources": {"lookup": {}}})) == ()


def test_the_policy_speaks_of_all_tools_of_a_server_by_its_name_and_a_tools_own_entry_beats_that() -> None:
    policy, other = policy_with(SOURCES), replace(owning("mcp:crm"), name="accounts")
    assert find_own_fields(other, policy) == "all"
    assert has_own_destination(other, policy)
    assert find_own_fields(owning("mcp:crm"), policy) == ("code",)
    assert not has_own_destination(owning("mcp:crm"), policy)
    assert find_own_fields(replace(other, provenance="mcp:mail"), policy) == ()
    assert find_own_fields(replace(other, provenance="mcp:crm2"), policy) == ()


def test_an_entry_for_a_tool_that_is_called_as_a_kind_of_tools_is_about_that_tool_alone() -> None:
    for provenance in ("builtin", "python", "remote"):
        policy = policy_with({"sources": {provenance: {"own": "all", "destination": "own"}}})
        assert find_own_fields(tool(provenance), policy) == ()
        assert not has_own_destination(tool(provenance), policy)
        assert find_own_fields(replace(tool(provenance), name=provenance), policy) == "all"


def test_of_no_tool_nothing_is_own() -> None:
    assert find_own_fields(None, default_policy()) == ()
    assert not has_own_destination(None, default_policy())


SCHEMA: dict[str, Json] = {
    "type": "object",
    "$defs": {"Kind": {"enum": ["circle", "square"]}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"const": "end"}]}},
    "properties": {
        "listed": {"enum": ["a", "b"]},
        "any": {"anyOf": [{"enum": ["a"]}, {"const": "c"}, {"type": "null"}]},
        "one": {"oneOf": [{"const": 1}, {"const": 2}]},
        "all": {"allOf": [{"$ref": "#/$defs/Kind"}], "default": "circle"},
        "named": {"$ref": "#/$defs/Kind"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Kind"}},
        "loop": {"$ref": "#/$defs/Loop"},
        "nowhere": {"$ref": "#/$defs/Gone"},
        "away": {"$ref": "https://example.org/kinds"},
        "text": {"type": "string", "default": "plain"},
        "flag": {"type": "boolean", "default": False},
        "broken": {"enum": "ab", "anyOf": {"enum": ["a"]}, "items": 5},
    },
}


@pytest.mark.parametrize(
    ("parameter", "choices"),
    [
        ("listed", ["a", "b"]),
        ("any", ["a", "c"]),
        ("one", [1, 2]),
        ("all", ["circle", "square"]),
        ("named", ["circle", "square"]),
        ("items", ["circle", "square"]),
        ("loop", ["end"]),
        ("nowhere", []),
        ("away", []),
        ("text", []),
        ("flag", []),
        ("broken", []),
        ("unknown", []),
    ],
)
def test_choices_are_what_a_schema_lists_by_enum_any_of_reference_or_constant(
    parameter: str, choices: list[Json]
) -> None:
    spec = replace(tool("python"), parameters=SCHEMA)
    assert sorted({str(one) for one in list_choices(parameter, spec)}) == sorted(map(str, choices))
    for choice in choices:
        assert is_choice(Leaf(parameter, parameter, choice), spec)
        assert not is_choice(Leaf(parameter, parameter, choice), replace(spec, provenance="mcp:a"))
    assert not is_choice(Leaf(parameter, parameter, "other"), spec)


def test_a_truth_value_is_a_choice_and_the_default_holds_as_well_where_nothing_is_given() -> None:
    spec = replace(tool("python"), parameters=SCHEMA)
    assert is_choice(Leaf("flag", "flag", True), spec)
    defaults: list[tuple[str, Json]] = [("flag", False), ("all", "circle"), ("text", "plain")]
    for name, value in defaults:
        assert is_default(Leaf(name, name, value), spec)
        assert not is_default(Leaf(name, name, value), replace(spec, provenance="mcp:a"))
    others: list[tuple[str, Json]] = [("flag", True), ("all", "square"), ("listed", None), ("gone", None)]
    for name, value in others:
        assert not is_default(Leaf(name, name, value), spec)


def test_a_number_that_python_takes_for_a_truth_value_is_no_choice_of_one() -> None:
    spec = replace(tool("python"), parameters=SCHEMA)
    assert not is_choice(Leaf("one", "one", 1.5), spec)
    assert not is_choice(Leaf("flag", "flag", 1), spec)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda one: (
        st.lists(one, max_size=3)
        | st.dictionaries(
            st.sampled_from(["enum", "const", "anyOf", "allOf", "items", "$ref", "$defs"]), one, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_whatever_stands_in_a_schema_can_be_looked_through(schema: Any, other: Any) -> None:
    spec = replace(tool("python"), parameters={"properties": {"x": schema}, "$defs": {"y": other}})
    assert isinstance(list_choices("x", spec), list)
    assert is_choice(Leaf("x", "x", "never listed"), spec) is False
