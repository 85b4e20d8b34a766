"""A quick yes is never given to arguments that the schema itself refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.gates.support.plain_schema import fits_plainly, read_plain_type
from foregate.gates.support.schema_check import SchemaCheck
from foregate.policy.source.load import default_policy
from foregate.schemas import strict_json

NAMES = st.sampled_from(["a", "b", "class", "_0", "x y"])
BOUNDS = st.integers(0, 3)
SCALARS = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": BOUNDS, "maxLength": BOUNDS}),
    st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(st.sampled_from(["", "a", "ab"]), min_size=1)}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])}, optional={"minimum": BOUNDS, "maximum": BOUNDS}
    ),
    st.just({"type": "boolean"}),
)
KINDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"minItems": BOUNDS}),
        st.dictionaries(NAMES, inner).map(lambda of: {"type": "object", "properties": of}),
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 5),
        st.sampled_from([10**30, -(10**30), 0.5, 1.0, "", "a", "ab", "é", "\U0001f600", "abcd"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)


@given(st.dictionaries(NAMES, KINDS, max_size=3), st.lists(NAMES, max_size=2, unique=True), st.booleans(), st.data())
def test_no_arguments_fit_plainly_that_the_schema_refuses(
    properties: dict[str, Any], required: list[str], closed: bool, data: st.DataObject
) -> None:
    schema = {"type": "object", "properties": properties, "required": [one for one in required if one in properties]}
    arguments = data.draw(st.dictionaries(NAMES, VALUES, max_size=3))
    if fits_plainly(arguments, read_plain_type(strict_json.canonical(schema).decode(), closed)):
        assert SchemaCheck(schema, closed=closed).find_defects(arguments) == []


@pytest.mark.parametrize(
    "arguments",
    [{"path": "a"}, {"path": "a", "first_line": 3}, {"path": ""}, {"path": 1}, {"path": "a", "more": 1}, {}],
)
def test_arguments_of_a_tool_that_fit_do_so_plainly(arguments: dict[str, Any]) -> None:
    (spec,) = [
        tool.spec for tool in builtin_tools(MemoryWorkspace({}), default_policy()) if tool.spec.name == "read_file"
    ]
    check = SchemaCheck(spec.parameters, closed=True)
    plainly = fits_plainly(arguments, read_plain_type(strict_json.encode_record(spec.parameters).decode(), True))
    assert plainly is (check.find_defects(arguments) == [])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}},
        {"type": "object", "patternProperties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {}, "required": ["a"]},
        {"properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "string", "const": "b"}}},
    ],
)
def test_a_schema_that_says_more_gives_no_quick_yes(schema: dict[str, Any]) -> None:
    assert not fits_plainly({"a": "a"}, read_plain_type(json.dumps(schema), False))


@pytest.mark.parametrize("part", [{"type": "integer", "maximum": 2**64 - 1}, {"type": "string", "enum": []}])
def test_a_bound_that_no_type_can_say_is_left_to_the_schema(part: dict[str, Any]) -> None:
    schema = {"$schema": "a", "type": "object", "properties": {"a": part}}
    assert read_plain_type(json.dumps(schema), False) is None
