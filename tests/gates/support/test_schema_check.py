"""A tool's JSON Schema: refused when it is none, and never loosened by what was seen before."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import SchemaError

from foregate.gates.support.schema_check import SchemaCheck


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"type": "object", "required": "path"}, {"properties": []}])
def test_what_is_no_json_schema_is_refused_the_first_time_and_again(schema: dict[str, Any]) -> None:
    for _ in range(2):
        with pytest.raises(SchemaError):
            SchemaCheck(schema, closed=False)


def test_a_closed_check_refuses_keys_that_an_open_one_of_the_same_schema_allows() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert not SchemaCheck(schema, closed=False).find_first_defect({"path": "a", "more": 1})
    assert SchemaCheck(schema, closed=True).find_first_defect({"path": "a", "more": 1})


def test_a_schema_that_means_an_endless_one_is_given_up_and_said_so() -> None:
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    bomb = {"$ref": "#/$defs/d0", "$defs": {**doubling, "d40": {"type": "object"}}}
    assert "references" in SchemaCheck(bomb, closed=False).find_first_defect({"a": 1})
    assert "references" in SchemaCheck({"$ref": "#"}, closed=False).find_first_defect({})


def test_a_part_of_a_schema_cannot_choose_another_dialect_and_with_it_another_pattern_engine() -> None:
    evil = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string", "pattern": "^(a+)+$"}
    check = SchemaCheck({"type": "object", "properties": {"default": evil}}, closed=False)
    assert "does not match the pattern" in check.find_first_defect({"default": "a" * 40 + "!"})
    assert "$schema" not in str(check._validator.schema)


def test_items_are_compared_by_what_they_say_and_each_only_once() -> None:
    check = SchemaCheck({"properties": {"all": {"type": "array", "uniqueItems": True}}}, closed=False)
    assert "two of its items are the same" in check.find_first_defect({"all": [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}]})
    assert not check.find_first_defect({"all": [1, True, "1", [1], None, 0, False]})
    assert not check.find_first_defect({"all": [{"number": number} for number in range(50_000)]})


def test_a_pattern_of_names_that_cannot_be_read_stops_no_object_without_names() -> None:
    check = SchemaCheck({"type": "object", "patternProperties": {"(?=x)a": {"type": "string"}}}, closed=False)
    assert not check.find_first_defect({})


def test_as_many_references_are_followed_as_the_policy_says_and_no_more() -> None:
    chain = {"$ref": "#/$defs/d0", "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(4)}}
    chain["$defs"]["d4"] = {"type": "object"}  # type: ignore[index]
    assert not SchemaCheck(chain, closed=False, references=5).find_first_defect({})
    assert "more than 4 references" in SchemaCheck(chain, closed=False, references=4).find_first_defect({})
