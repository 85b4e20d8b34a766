"""The quick yes to arguments that plainly fit says nothing the full check would not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from foregate.agent.tools.builtin.builtin import builtin_tools
from foregate.agent.workspace.workspace import Workspace
from foregate.gates.plain_schema import plain_check
from foregate.policy.source.load import default_policy

TYPES = ("string", "integer", "boolean", "array", "object", "number", None)
NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([1.0, 0.5]) | st.text("xy", max_size=2)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(NAMES, SCALARS, max_size=1)


@st.composite
def properties(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": kind} if (kind := draw(st.sampled_from(TYPES))) else {}
    bounds = {"minLength": 1, "minimum": 0, "minItems": 1, "enum": ["x", 1], "maxLength": 1, "pattern": "x"}
    for key in draw(st.lists(st.sampled_from(sorted(bounds)), max_size=2)):
        schema[key] = bounds[key]
    if draw(st.booleans()):
        schema["items"] = {"type": draw(st.sampled_from(TYPES[:3]))}
    return schema


@given(st.dictionaries(NAMES, properties()), st.lists(NAMES, unique=True), st.booleans(), st.data())
def test_arguments_the_quick_check_accepts_have_no_defect(
    inner: dict[str, Any], required: list[str], closed: bool, data: st.DataObject
) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": inner, "required": required}
    if closed:
        schema["additionalProperties"] = False
    check = plain_check(schema)
    arguments = data.draw(st.dictionaries(NAMES, VALUES))
    if check is not None and check(arguments):
        assert not list(Draft202012Validator(schema).iter_errors(arguments))


def test_an_ordinary_call_is_accepted_and_what_does_not_fit_is_left_to_the_full_check(tmp_path: Path) -> None:
    specs = {tool.spec.name: tool.spec for tool in builtin_tools(Workspace(tmp_path), default_policy())}
    check = plain_check(specs["read_file"].parameters)
    assert check is not None
    assert check({"path": "a", "max_bytes": 3})
    assert not check({"path": ""})
    assert not check({"path": "a", "max_bytes": True})
    assert not check({"path": "a", "more": 1})
    assert not check({})
    assert plain_check({"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False}) is None
    assert plain_check({"type": "object", "properties": {}}) is None
