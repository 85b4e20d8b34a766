"""Pins: what a person said yes to is exactly what is offered, and a file somebody else wrote pins nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools.mcp.definition import (
    Definition,
    Pins,
    build_spec,
    get_pin_state,
    read_capabilities,
    read_definition,
    read_effect,
    render_definition,
)
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.tool_spec import OBSERVER, UNDECLARED, Effect
from foregate.schemas.visible import is_hidden

SERVER = ServerConfiguration("s", "npx", ("-y", "s"))
POLICY = default_policy().mcp
TOOL = {"name": "t", "description": "d", "inputSchema": {"type": "object"}}


def defined(server: ServerConfiguration = SERVER, **more: object) -> Definition:
    """Return a definition, changed."""
    return read_definition({**TOOL, **more}, server, POLICY)


def test_a_definition_is_pinned_until_anything_it_says_or_its_start_changes(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "home" / "pins.json")
    assert get_pin_state(defined(), pins.of("s")) == "new"
    pins.pin([defined()], "2026-01-01")
    assert get_pin_state(defined(), Pins(pins.path).of("s")) == "pinned"
    assert get_pin_state(defined(icons=[], _meta={"n": 1}), pins.of("s")) == "pinned"
    for changed in (
        defined(description="e"),
        defined(title="t"),
        defined(inputSchema={"type": "object", "properties": {}}),
        defined(outputSchema={"type": "object"}),
        defined(annotations={"readOnlyHint": True}),
        defined(ServerConfiguration("s", "npx", ("-y", "t"))),
        defined(ServerConfiguration("s", "npx", ("-y", "s"), cwd="/x")),
        defined(ServerConfiguration("s", url="https://s.example/")),
    ):
        assert get_pin_state(changed, pins.of("s")) == "changed"
    assert get_pin_state(defined(), pins.of("other")) == "new"
    assert pins.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["{", "[]", '{"version": 2, "servers": {}}', '{"version": 1, "servers": {"s": 1}}'])
def test_a_damaged_file_is_said_to_be_and_pins_nothing(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "pins.json"
    file.write_text(damage)
    with pytest.raises(WorkspaceError, match=r"pins\.json"):
        Pins(file).of("s")


def test_a_pin_whose_definition_was_changed_in_the_file_is_found(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins.json")
    pins.pin([defined()], "2026-01-01")
    content = json.loads(pins.path.read_text())
    content["servers"]["s"]["t"]["definition"]["description"] = "other"
    pins.path.write_text(json.dumps(content))
    with pytest.raises(WorkspaceError, match=r"changed at `s\.t`"):
        pins.of("s")


def test_hints_can_make_a_tool_worse_and_never_better() -> None:
    for harmless in ({"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},):
        kind = read_capabilities(harmless)
        assert kind is not None
        assert UNDECLARED.raise_by(kind) == UNDECLARED
        assert OBSERVER.raise_by(kind) == OBSERVER
        assert read_effect(harmless) is None
    kind = read_capabilities(
        {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    )
    assert kind is not None
    worse = OBSERVER.raise_by(kind)
    assert (worse.read_only, worse.high_impact_write, worse.idempotent, worse.external_side_effect) == (
        False,
        True,
        False,
        True,
    )
    assert read_effect({"destructiveHint": True, "readOnlyHint": True}) is Effect.DELETE
    assert read_effect({"readOnlyHint": False}) is Effect.EDIT


def test_hints_that_are_no_truth_values_say_nothing() -> None:
    assert defined(annotations={"readOnlyHint": 1, "destructiveHint": "no", "title": "x"}).hints == {}
    assert defined(annotations=[True]).hints == {}


@pytest.mark.parametrize("patterns", [5, True, "(", ["("], {"(": {}}])
def test_patterns_that_are_none_make_a_tool_unusable(patterns: object) -> None:
    assert defined(inputSchema={"type": "object", "patternProperties": patterns}).problem.startswith("its input schema")


WORDS = st.sampled_from(
    ["type", "properties", "patternProperties", "$ref", "pattern", "items", "enum", "required", "anyOf", "$defs"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | WORDS, inner, max_size=4),
)


@given(JSON, JSON, JSON, JSON)
def test_whatever_a_server_says_becomes_a_tool_that_can_be_shown_or_none(
    name: object, schema: object, words: object, hints: object
) -> None:
    whole = {"name": "t", "inputSchema": schema, "description": words, "annotations": hints}
    inner = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": schema}}}
    for entry in (name, {"name": name}, whole, inner):
        definition = read_definition(entry, SERVER, POLICY)
        if definition.problem:
            continue
        spec = build_spec(definition, SERVER, POLICY)
        assert not [char for char in spec.description if is_hidden(char) and char not in "\n\t"]
        assert render_definition(definition.content, definition.launch)
