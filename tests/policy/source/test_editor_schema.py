"""The JSON Schema of a policy file: it says what `policy check` says of types, requires nothing, and explains all."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from foregate.cli.policy_show import find_schema
from foregate.policy.source.editor_schema import build_editor_schema
from foregate.policy.source.keys import POLICY
from foregate.policy.source.layers import Layer, Tree
from foregate.policy.source.load import SHIPPED, default_data, resolve_policy_file
from foregate.policy.source.problems import find_problems
from foregate.policy.source.strict_yaml import Data, parse_yaml

SCHEMA = build_editor_schema()
CHECK = Draft202012Validator(SCHEMA)


def walk(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every node of the schema with its keys, `*` for any."""
    yield path, node
    inner = dict(node.get("properties", {}))
    for name in ("additionalProperties", "items"):
        if isinstance(node.get(name), dict):
            inner["*"] = node[name]
    for key, one in inner.items():
        yield from walk(one, (*path, key))


NODES = dict(walk(SCHEMA))
PATHS = sorted(path for path, node in NODES.items() if path and "required" not in node)


def test_it_is_a_schema_and_the_file_that_comes_with_foregate_holds_it() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(find_schema().read_text("utf-8")) == SCHEMA, "run docs/make_policy.py"


def test_every_key_is_explained_and_nothing_is_required_but_within_lists() -> None:
    assert [path for path, node in NODES.items() if path and path[-1] != "*" and not node.get("description")] == []
    required = [path for path, node in NODES.items() if "required" in node]
    assert required
    assert all("*" in path for path in required)
    assert NODES["narration", "min_chars"]["description"] == "Characters that count as having said something."
    assert NODES["rules", "list", "*", "host"]["description"].startswith("The host it would reach")


@pytest.mark.parametrize("name", ["default", *SHIPPED])
def test_what_is_shipped_fits(name: str) -> None:
    data = default_data() if name == "default" else parse_yaml(resolve_policy_file(name).read_text("utf-8"), name)[0]
    assert list(CHECK.iter_errors(data)) == []


def test_null_takes_out_an_entry_and_stands_nowhere_else() -> None:
    for path in PATHS:
        entry = path[:-1] in (
            ("tools",),
            ("sources",),
            ("commands", "read_only"),
            ("commands", "reads"),
            ("commands", "access"),
            ("commands", "code"),
        )
        assert CHECK.is_valid(nest(path, None)) == entry, path


def nest(path: tuple[str, ...], value: Data) -> Data:
    """A file with one value, in entries of any name; a rule around it is in order."""
    for place in range(len(path) - 1, -1, -1):
        step = path[place]
        listed = step == "*" and NODES[path[:place]].get("type") == "array"
        value = [value] if listed else {"some" if step == "*" else step: value}
        if path[:place] == ("rules", "list", "*") and isinstance(value, dict):
            value = {"id": "x", "then": "ask", "tool": "*"} | value
    return value


VALUES = (
    st.sampled_from(
        [None, 0, 1, -1, 1000, 1001, True, "off", "enforce", "all", "x", "", "scope", "4", "deny", "file", "edit"]
    )
    | st.sampled_from([[], {}, ["x"], ["edit"], ["secret"], [1], {"x": 1}, {"some": {}}, {"options": []}, [["a", "b"]]])
    | st.integers(-10, 10**9)
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PATHS), VALUES)
def test_a_file_with_one_value_fits_where_and_only_where_check_finds_its_type_right(
    path: tuple[str, ...], value: Data
) -> None:
    data = nest(path, copy.deepcopy(value))
    tree = Tree(copy.deepcopy(default_data()))
    problems = find_problems(Layer("f", "f", data, {}), tree, POLICY, lambda tree: ())
    fits = CHECK.is_valid(data)
    if ("*" in path[1:] or isinstance(value, dict)) and problems and fits:
        assert all("is missing" in said for _, said in problems)  # an entry may complete one of the default
        return
    if not problems and not fits:
        assert path[:4] in (("rules", "list", "*", "protected"), ("rules", "list", "*", "capability"))
        return
    assert fits == (not problems), problems
