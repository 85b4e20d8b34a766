"""Arguments that do not fit: what a tool wants, and a call that fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.gates.support.malformed import build_example, describe_wanted, wrap_lists
from foregate.gates.support.schema_check import SchemaCheck

TEXTS: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}},
    "required": ["to"],
}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "who": {"$ref": "#/$defs/Person"},
        "when": {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]},
        "how": {"enum": ["fast", "slow"]},
        "at": {"type": "string", "pattern": "^[0-9]+$"},
        "any": {"type": "array", "items": True},
    },
    "required": ["who", "when", "how"],
    "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


def defects(schema: dict[str, Any]) -> Any:
    return SchemaCheck(schema, closed=True).find_first_defect


@pytest.mark.parametrize(("given_", "wrapped"), [("a", ["a"]), ('["a", "b"]', ["a", "b"]), ("[a", ["[a"])])
def test_a_text_where_a_list_is_wanted_becomes_a_list(given_: str, wrapped: list[str]) -> None:
    found = wrap_lists(TEXTS, {"to": given_, "note": "x"}, defects(TEXTS))
    assert found == {"to": wrapped, "note": "x"}


@pytest.mark.parametrize("arguments", [{"to": 3}, {"note": "x"}, {"to": "a", "note": 3}, {"to": ["a"]}])
def test_nothing_becomes_a_list_where_that_does_not_make_the_call_fit(arguments: dict[str, Any]) -> None:
    assert wrap_lists(TEXTS, arguments, defects(TEXTS)) is None


def test_what_is_wanted_is_named_with_its_types() -> None:
    assert describe_wanted(TEXTS) == "`to` (array of string, needed), `note` (string)"
    assert '`how` (one of "fast", "slow", needed)' in describe_wanted(NESTED)
    assert describe_wanted({"type": "object"}) == "no arguments"


def test_an_example_keeps_what_fits_and_says_what_the_rest_stands_for() -> None:
    assert build_example(TEXTS, {"to": 3, "note": "x"}, defects(TEXTS)) == {"to": ["<to>"], "note": "x"}
    example = build_example(NESTED, {"at": 3}, defects(NESTED))
    assert example == {"who": {"name": "<name>"}, "when": 5, "how": "fast"}


_VALUES = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none(), st.lists(st.text(max_size=3)))


@given(st.dictionaries(st.sampled_from(["to", "note", "who", "when", "how", "at", "any", "else"]), _VALUES))
def test_every_example_fits(arguments: dict[str, Any]) -> None:
    for schema in (TEXTS, NESTED):
        example = build_example(schema, arguments, defects(schema))
        assert example is not None
        assert defects(schema)(example) == ""
