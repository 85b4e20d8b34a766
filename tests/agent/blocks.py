"""Responses with blocks for tests: any nesting, any failures, and what must come of them, worked out anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.tools.tool import Tool
from foregate.schemas import strict_json
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.tool_call import Change, ToolCall, ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec
from tests.agent.world import World

WAYS = (*["fine"] * 16, "fails", "raises", "unknown", "held", "denied")
"""How a call goes; `held` and `denied` are never run."""
_NATURE = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)


@dataclass
class Case:
    """A response: `ways` of its calls, whether each is a change, which key it changes, and the step it names or 0."""

    order: Block
    ways: list[str]
    changes: list[bool]
    keys: list[str]
    steps: list[int]

    def response(self) -> ModelResponse:
        """Return the response a model would give."""
        calls = []
        for place, way in enumerate(self.ways):
            text = f"<$result_of_step_{self.steps[place]}>" if self.steps[place] else ""
            arguments: dict[str, Json] = {"place": str(place), "key": self.keys[place], "way": way, "text": text}
            if way == "held":
                del arguments["key"]
            name = "nothing" if way == "denied" else "act" if self.changes[place] else "look"
            calls.append(ToolCall.of(name, arguments))
        deferred = tuple(place for place, step in enumerate(self.steps) if step)
        return ModelResponse("", tuple(calls), finish_reason="tool_calls", order=self.order, deferred=deferred)


@st.composite
def cases(draw: st.DrawFn, *, steps: bool = True) -> Case:
    """Draw a response; with `steps` some calls name the result of an earlier item."""
    shape = draw(
        st.recursive(
            st.just(0),
            lambda inner: st.tuples(
                st.sampled_from(["sequential", "parallel", "sequential"]), st.lists(inner, min_size=2, max_size=4)
            ),
            max_leaves=9,
        ).filter(lambda drawn: drawn != 0)
    )
    count = 0

    def numbered(drawn: Any) -> int | Block:
        nonlocal count
        if drawn == 0:
            count += 1
            return count - 1
        kind, items = drawn
        return Block(kind, tuple(numbered(item) for item in items))

    order = numbered(shape)
    assert isinstance(order, Block)
    every = {"min_size": count, "max_size": count}
    wanted = [draw(st.sampled_from([*range(most, 0, -1), 0, 9])) if steps else 0 for most in earlier(order, 0)]
    return Case(
        order,
        draw(st.lists(st.sampled_from(WAYS), **every)),
        draw(st.lists(st.booleans(), **every)),
        draw(st.lists(st.sampled_from(["k", "l", "m"]), **every)),
        wanted,
    )


def earlier(item: int | Block, most: int) -> list[int]:
    """Return for each call the highest number of a step it can name."""
    if isinstance(item, int):
        return [most]
    turn = item.kind == "sequential"
    return [found for at, inner in enumerate(item.items) for found in earlier(inner, max(most, at) if turn else most)]


@dataclass
class Expected:
    """What must come of a case: `ran` are the calls that run, `good` those that do it well, `texts` what each gets.

    `ruled_out` are those the judge stops whenever it sees them, `stopped` those after a failure.
    """

    case: Case
    ran: set[int] = field(default_factory=set)
    good: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    ruled_out: set[int] = field(default_factory=set)
    texts: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.item(self.case.order, True, ())

    def item(self, item: int | Block, going: bool, around: tuple[tuple[int | Block, ...], ...]) -> bool:
        """Take in an item; `around` are the earlier items of each sequence around it, the nearest first."""
        if isinstance(item, Block):
            well = True
            for at, inner in enumerate(item.items):
                turn = item.kind == "sequential"
                earlier = (item.items[:at], *around) if turn else around
                done = self.item(inner, going and (well or not turn), earlier)
                well = well and done
            return well
        step, way = self.case.steps[item], self.case.ways[item]
        source = next((items[step - 1] for items in around if 0 < step <= len(items)), None)
        if way in ("held", "denied") or (step and source is None):
            self.ruled_out.add(item)
        if not going:
            self.stopped.add(item)
        if not going or item in self.ruled_out:
            return False
        self.ran.add(item)
        self.texts[item] = f"<{self.text(source)}>" if source is not None else ""
        if way == "fine":
            self.good.add(item)
        return way == "fine"

    def text(self, item: int | Block) -> str:
        """Return the result of an item as a text."""
        value = self.value(item)
        return value if isinstance(value, str) else strict_json.canonical(value).decode()

    def value(self, item: int | Block) -> Json:
        """Return the result of an item: what a call said, or the list of a block."""
        return said(item) if isinstance(item, int) else [self.value(inner) for inner in item.items]


def said(place: int) -> str:
    """Return what a call says of itself; the mark in it is data wherever it comes to stand."""
    return f"r{place} $result_of_step_1"


@dataclass(repr=False)
class Blocks(World):
    """A world whose two tools note what runs when: `events` are (place, whether it begins), `given` the texts."""

    effect: Effect = Effect.EDIT

    def __post_init__(self) -> None:
        super().__post_init__()
        self.events: list[tuple[int, bool]] = []
        self.given: dict[int, str] = {}
        self.running: set[int] = set()
        self.most = 0
        self.collisions: list[tuple[int, int]] = []
        self.keys: dict[int, tuple[str, bool]] = {}

    def tools(self) -> list[Tool]:
        """Return a tool that looks and one that changes."""
        return [self.made("look", Effect.OBSERVATION), self.made("act", self.effect)]

    def made(self, name: str, effect: Effect) -> Tool:
        """Return a tool that takes its time and does what its argument `way` says."""

        async def run(arguments: Mapping[str, Json]) -> ToolResult:
            place, key, changes = int(get_text(arguments, "place")), get_text(arguments, "key"), effect.changes
            self.begin(place, key, changes)
            self.given[place] = get_text(arguments, "text")
            for _ in range(1 + place % 3):
                await asyncio.sleep(0)
            self.running.discard(place)
            self.events.append((place, False))
            match arguments["way"]:
                case "raises":
                    raise ValueError("no")
                case "unknown":
                    return ToolResult(False, "lost", unknown=True)
                case "fails":
                    return ToolResult(False, "it failed")
            changed = (Change(Resource(ResourceKind.OTHER, key), "", f"{place}"),) if changes else ()
            return ToolResult(True, said(place), changes=changed)

        schema: dict[str, Json] = {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("place", "key", "way", "text")},
            "required": ["place", "key", "way", "text"],
        }
        nature = replace(_NATURE, read_only=not effect.changes)
        target = TargetParameter("key", ResourceKind.OTHER, effect)
        return Tool(ToolSpec(name, "Do.", schema, effect, nature, (target,), "builtin"), run)

    def begin(self, place: int, key: str, changes: bool) -> None:
        """Note that a call begins, and beside which."""
        for other in self.running:
            if self.keys[other][0] == key and (changes or self.keys[other][1]):
                self.collisions.append((other, place))
        self.keys[place] = key, changes
        self.running.add(place)
        self.most = max(self.most, len(self.running))
        self.events.append((place, True))
