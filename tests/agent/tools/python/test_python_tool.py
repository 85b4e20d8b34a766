"""`@tool`: signature and docstring become the schema; undeclared is the worst."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import Field

from foregate.agent.tools.python_tool import tool
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.policy.risk.facts import merge_capabilities
from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, ToolCall, ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, ResourceKind, TargetParameter
from tests.agent.running import run_alone


class Colour(Enum):
    """A colour."""

    RED = "red"


@dataclass
class Point:
    """A point."""

    x: int


@tool(read_only=True, targets={"path": "file"})
def count(path: str, schema: Annotated[int, Field(ge=1)] = 3, *, tags: tuple[str, ...] = ()) -> dict[str, Any]:
    """Count words
    in a file.

    Not in the description.

    Args:
        path: Where to
            look.
        schema (int): How many.

    Returns:
        path: not this one
    """
    return {"path": path, "schema": schema, "tags": tags, "thread": threading.current_thread().name}


async def run(made: Tool, **arguments: Json) -> ToolResult:
    return await run_alone(Toolbox([made]), ToolCall.of(made.spec.name, arguments))


def test_signature_and_docstring_are_the_schema() -> None:
    assert (count.spec.name, count.spec.description) == ("count", "Count words in a file.")
    assert count.spec.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where to look."},
            "schema": {"type": "integer", "minimum": 1, "default": 3, "description": "How many."},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert (count.spec.effect, count.spec.capabilities) == (Effect.OBSERVATION, OBSERVER)
    assert [(t.parameter, t.kind, t.access) for t in count.spec.targets] == [
        ("path", ResourceKind.FILE, Effect.OBSERVATION)
    ]


async def test_a_tool_is_still_a_function_and_runs_in_a_thread() -> None:
    assert count("a", tags=("x",))["tags"] == ("x",)
    assert isinstance(count, Tool)
    result = await run(count, path="a", tags=["x"])
    assert '"tags":["x"]' in result.content
    assert threading.current_thread().name not in result.content


@pytest.mark.parametrize(
    "arguments", [{"path": 3}, {}, {"path": "a", "schema": "3"}, {"path": "a", "more": 1}, {"path": "a", "schema": 0}]
)
async def test_arguments_of_another_type_never_reach_the_function(arguments: dict[str, Json]) -> None:
    assert (await run(count, **arguments)).error == "arguments"


async def test_undeclared_is_the_worst_and_one_declaration_leaves_the_rest_so() -> None:
    @tool
    async def plain(x: int) -> int:
        return x + 1

    @tool(effect="edit", reversible=True)
    def partly() -> None: ...

    assert (plain.spec.effect, plain.spec.capabilities) == (Effect.UNKNOWN, None)
    assert partly.spec.capabilities is not None
    assert partly.spec.capabilities.external_side_effect
    assert not partly.spec.capabilities.idempotent
    result = await run(plain, x=1)
    assert (result.content, result.origin) == ("2", Origin.EXTERNAL)
    assert await plain(1) == 2


def pay(to: str, amount: float, reference: str = "") -> None:
    """Pay somebody."""


@pytest.mark.parametrize(
    ("declared", "needs"),
    [
        ({}, True),
        ({"effect": "send"}, False),
        ({"external": True}, False),
        ({"personal_memory": True}, False),
        ({"targets": {"to": "other"}}, False),
        ({"amounts": ["amount"]}, False),
        ({"effect": "send", "needs_approval": True}, True),
    ],
)
def test_a_tool_that_declares_anything_waits_for_a_yes_by_its_own_wish_alone(
    declared: dict[str, Any], needs: bool
) -> None:
    spec = tool(**declared)(pay).spec
    assert merge_capabilities(spec, None).needs_approval == needs
    assert merge_capabilities(spec, None).external_side_effect


def test_parameters_are_declared_as_targets_amounts_or_free_text() -> None:
    spec = tool(effect="send", targets={"to": "other"}, amounts=["amount"], texts=("reference",))(pay).spec
    assert (spec.targets[0].parameter, spec.amounts, spec.texts) == ("to", ("amount",), ("reference",))
    assert (tool(pay).spec.amounts, tool(pay).spec.texts) == ((), ())


@pytest.mark.parametrize("role", ["amounts", "texts"])
def test_a_parameter_that_is_not_there_or_is_a_target_has_no_other_role(role: str) -> None:
    with pytest.raises(UsageError, match=f"`sum` of `{role}` is no parameter"):
        tool(**{role: ["sum"]})(pay)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="`to` is a target"):
        tool(**{role: ["to"]}, targets={"to": "other"})(pay)  # type: ignore[call-overload]


async def test_what_a_function_raises_is_a_failure_the_model_reads() -> None:
    @tool(read_only=True)
    def bad() -> str:
        raise ValueError("no " * 2000)

    result = await run(bad)
    assert (result.ok, result.error, result.content[:14]) == (False, "tool_error", "ValueError: no")
    assert len(result.content) <= 2000


class Unspeakable(Exception):
    """What raises when it is to be shown."""

    def __str__(self) -> str:
        raise ValueError("no")

    __repr__ = __str__


@pytest.mark.parametrize("error", [StopIteration("no more"), SystemExit("no more"), RuntimeError("no more")])
async def test_whatever_ends_a_function_ends_its_call_and_nothing_else(error: BaseException) -> None:
    @tool
    def plain() -> str:
        raise error

    @tool
    async def waits() -> str:
        raise error

    for made in (plain, waits):
        result = await run(made)
        assert (result.ok, result.error) == (False, "tool_error")
        assert "no more" in result.content or "StopIteration" in result.content


async def test_what_cannot_be_shown_is_told_by_its_type() -> None:
    @tool
    def give(fail: bool) -> object:
        if fail:
            raise Unspeakable
        return Unspeakable()

    assert (await run(give, fail=False)).content == "<Unspeakable>"
    assert (await run(give, fail=True)).content == "Unspeakable: <Unspeakable>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as is", "as is"),
        (None, "null"),
        (Point(3), '{"x":3}'),
        (float("nan"), '"NaN"'),
        ({"a": b"\xff"}, '{"a":"_w=="}'),
    ],
)
async def test_a_return_value_is_text_or_json(value: Any, text: str) -> None:
    @tool(read_only=True)
    def give() -> Any:
        return value

    assert (await run(give)).content == text


async def test_richer_types_are_read_from_json() -> None:
    @tool(read_only=True)
    def rich(colour: Colour, point: Point, maybe: int | None = None) -> str:
        return f"{colour.name} {point.x} {maybe}"

    assert (await run(rich, colour="red", point={"x": 3}, maybe=4)).content == "RED 3 4"


def leaves(arguments: Mapping[str, Json]) -> Any:
    """Leave the process."""
    raise SystemExit


@pytest.mark.parametrize(
    ("said", "effect"),
    [
        (lambda arguments: Effect.DELETE, Effect.DELETE),
        (lambda arguments: "delete", Effect.DELETE),
        (lambda arguments: None, None),
        (lambda arguments: "harmless", Effect.UNKNOWN),
        (lambda arguments: 3, Effect.UNKNOWN),
        (leaves, Effect.UNKNOWN),
    ],
)
def test_a_classifier_that_names_no_effect_says_the_worst(said: Any, effect: Effect | None) -> None:
    def change(key: str) -> None: ...

    made = tool(effect="edit", classify=said)(change)
    assert Toolbox([made]).classify(ToolCall.of("change", {"key": "a"})) is effect


async def test_a_classifier_changes_nothing_of_the_call_that_is_judged() -> None:
    def bends(arguments: Any) -> None:
        arguments["keys"].append("b")

    @tool(effect="edit", classify=bends)
    def change(keys: list[str]) -> str:
        return ",".join(keys)

    box, call = Toolbox([change]), ToolCall.of("change", {"keys": ["a"]})
    box.classify(call)
    assert (await run_alone(box, call)).content == "a"


class Shelf:
    """A thing with a method."""

    def put(self, key: str) -> str:
        """Put it there."""
        return f"put {key}"


async def test_a_method_is_a_tool_once_it_is_bound() -> None:
    assert (await run(tool(Shelf().put), key="a")).content == "put a"
    with pytest.raises(UsageError, match=r"tool\(thing\.put\)"):
        tool(Shelf.put)

    def alone(self: str) -> str:
        return self

    assert (await run(tool(alone), self="a")).content == "a"


def test_a_default_that_is_no_json_is_left_out() -> None:
    @tool
    def marked(count: int = asyncio.Lock()) -> None: ...  # type: ignore[assignment]

    assert marked.spec.parameters["properties"] == {"count": {"type": "integer"}}


def test_a_function_that_cannot_be_described_is_refused() -> None:
    def many(*args: int) -> None: ...

    def strange(lock: asyncio.Lock) -> None: ...

    async def yields() -> AsyncIterator[int]:
        yield 1

    for function in (many, strange, lambda x: x, yields, partial(many, 1), Colour.RED):
        with pytest.raises(UsageError) as error:
            tool(function)
        assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="no parameter"):
        tool(targets={"nope": "file"})(count.function)  # type: ignore[attr-defined]


def test_targets_that_can_be_read_once_are_all_declared() -> None:
    once = (TargetParameter(name, ResourceKind.FILE, Effect.DELETE) for name in ["path"])

    @tool(effect="delete", targets=once)  # type: ignore[call-overload]
    def drop(path: str) -> str:
        """Drop a file."""
        return path

    assert [target.parameter for target in drop.spec.targets] == ["path"]
