"""A tool's JSON Schema: refused when it is none, and never loosened by what was seen before."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import SchemaError

from foregate.gates.schema_check import SchemaCheck


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"type": "object", "required": "path"}, {"properties": []}])
def test_what_is_no_json_schema_is_refused_the_first_time_and_again(schema: dict[str, Any]) -> None:
    for _ in range(2):
        with pytest.raises(SchemaError):
            SchemaCheck(schema, closed=False)


def test_a_closed_check_refuses_keys_that_an_open_one_of_the_same_schema_allows() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert not SchemaCheck(schema, closed=False).defect({"path": "a", "more": 1})
    assert SchemaCheck(schema, closed=True).defect({"path": "a", "more": 1})
