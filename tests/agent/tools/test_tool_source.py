"""Sources of tools: one of a user's own, one derived from the base, several as one, one around another."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.tools.tool import BaseToolSource, Tool, Toolbox, ToolSources, WrappedToolSource, cap_text
from foregate.api import Agent
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import CallAnswered, ToolFinished, ToolStarted
from foregate.schemas.protocols import FileChange, Inverse, Reconciled, RunContext, ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Change, Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec
from foregate.telemetry.log.memory_log import MemoryLog
from tests.events import bodies

METHODS = [name for name in vars(ToolSource) if not name.startswith("_")]
"""Every method of the protocol."""
NONE: Mapping[str, Json] = {"type": "object", "properties": {}}
OWN = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
TALK = "I count what is left on the shelf now."


def observing(name: str) -> ToolSpec:
    return ToolSpec(name, "Say how many are left.", NONE, Effect.OBSERVATION)


class Stock:
    """A class of somebody's own that derives from nothing and says the least."""

    def __init__(self, name: str = "count") -> None:
        self.name = name
        self.ran: list[str] = []

    def specs(self) -> Sequence[ToolSpec]:
        return [observing(self.name)]

    async def run(self, call: ToolCall) -> ToolResult:
        self.ran.append(call.name)
        return ToolResult(True, "two are left")


async def played(folder: Path, *steps: Any, request: str = "how many are left?", **options: Any) -> list[Any]:
    """Return the events of one task."""
    log = MemoryLog()
    async with Agent(model=ScriptedModel(steps), workspace=folder, log=log, **options) as agent:
        return [event async for event in agent.events(request)]


async def test_an_object_that_only_lists_and_runs_tools_is_a_source_by_itself(folder: Path) -> None:
    stock = Stock()
    events = await played(folder, calls(("count", {}), text=TALK), says("two"), tools=stock, builtin=False)
    assert [body.content for body in bodies(events, ToolFinished)] == ["two are left"]
    assert stock.ran == ["count"]


async def test_an_object_that_only_lists_and_runs_tools_serves_beside_the_built_in_ones(folder: Path) -> None:
    (folder / "a.txt").write_text("teh cat")
    both = calls(("count", {}), ("read_file", {"path": "a.txt"}), text=TALK)
    events = await played(folder, both, says("two"), tools=[Stock()])
    assert [body.content for body in bodies(events, ToolFinished)] == ["two are left", "teh cat"]


async def test_a_call_of_a_source_of_a_user_is_judged_by_its_declared_effect_and_its_own_view_can_only_raise_it(
    folder: Path,
) -> None:
    class Classifying(Stock):
        def classify(self, call: ToolCall) -> Effect | None:
            return Effect.DELETE

    stock = Classifying()
    events = await played(folder, calls(("count", {}), text=TALK), says("no"), tools=stock, builtin=False)
    assert [survey.declared_effect for survey in bodies(events, TurnJudged)[0].turn.surveys] == [Effect.DELETE]
    assert (stock.ran, bodies(events, ToolStarted)) == ([], [])
    assert len(bodies(events, CallAnswered)) == 1


class Runless:
    def specs(self) -> Sequence[ToolSpec]:
        return []


class Speckless:
    specs = (observing("count"),)

    async def run(self, call: ToolCall) -> ToolResult:
        raise AssertionError


@pytest.mark.parametrize("thing", [object(), Runless(), Speckless(), [object()], [Stock(), Runless()]])
async def test_an_object_that_is_no_source_is_refused_in_one_sentence_before_anything_is_written(
    folder: Path, thing: Any
) -> None:
    log = MemoryLog()
    with pytest.raises(UsageError, match="is no source of tools; give it `specs` and `run`, or pass tools") as refused:
        await open_session(SessionOptions(workspace=folder, model=ScriptedModel([]), tools=thing, log=log, environ={}))
    assert "\n" not in str(refused.value)
    assert list(await log.sessions()) == []


class Shelf(BaseToolSource):
    """A source derived from the base that changes something of its own, and can put it back."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {"a": b"one"}
        self.contexts: list[RunContext] = []

    def specs(self) -> Sequence[ToolSpec]:
        schema: dict[str, Json] = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
        targets = (TargetParameter("key", ResourceKind.OTHER, Effect.EDIT),)
        return [ToolSpec("empty", "Empty a place of the shelf.", schema, Effect.EDIT, OWN, targets)]

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        self.contexts.append(context)
        key = str((call.arguments or {})["key"])
        before, self.kept[key] = strict_json.sha256(self.kept[key]), b""
        change = Change(Resource(ResourceKind.OTHER, key), before, strict_json.sha256(b""))
        return ToolResult(True, "emptied", changes=(change,))

    def inverse(self, tool: str) -> Inverse | None:
        return self  # type: ignore[return-value]

    def now(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def put_back(self, key: str, data: bytes | None) -> None:
        self.kept[key] = data or b""


async def test_what_a_source_derived_from_the_base_overrides_is_used_and_it_is_told_what_its_call_was_judged_on(
    folder: Path,
) -> None:
    shelf, log = Shelf(), MemoryLog()
    model = ScriptedModel([calls(("empty", {"key": "a"}), text="I empty the place a of the shelf."), says("done")])
    async with Agent(model=model, tools=shelf, builtin=False, workspace=folder, log=log) as agent:
        await agent.run('put nothing on the shelf under the key "a"')
        assert shelf.kept == {"a": b""}
        (context,) = shelf.contexts
        assert [resource.id for resource in context.survey.resources] == ["a"]
        assert (await undo(await agent.open())).done
    assert shelf.kept == {"a": b"one"}


@pytest.mark.parametrize("method", ["specs", "run"])
async def test_the_base_has_a_default_for_everything_but_the_tools_and_running_them(method: str) -> None:
    base, call = BaseToolSource(), ToolCall.of("count", {})
    with pytest.raises(NotImplementedError, match=f"define `{method}`"):
        base.specs() if method == "specs" else await base.run(call, RunContext(Survey("c")))
    assert set(METHODS) <= set(vars(BaseToolSource))
    await base.refresh([call])
    found = base.classify(call), base.fill_arguments(call), base.survey(call), base.preview(call), base.inverse("count")
    assert (*found, await base.reconcile("c", "d")) == (None, {}, None, (), None, None)
    assert base.for_session("s") is base


class Recording:
    """A source that notes what each method is asked and answers with something of its own, for one tool."""

    def __init__(self, tool: str = "count", *, knows: bool = True) -> None:
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.offered = (observing(tool),)
        self.answers: dict[str, Any] = {
            "specs": self.offered,
            "classify": Effect.SEND,
            "fill_arguments": {"filled": tool},
            "refresh": None,
            "survey": Survey("c"),
            "preview": (FileChange("a", None, tool.encode()),),
            "run": ToolResult(True, tool),
            "reconcile": Reconciled(True, ToolResult(True, tool)) if knows else None,
            "inverse": Shelf(),
            "for_session": self,
        }


def recorded(name: str, *, awaited: bool) -> Any:
    def answer(self: Recording, *arguments: Any) -> Any:
        self.asked.append((name, arguments))
        return self.answers[name]

    async def later(self: Recording, *arguments: Any) -> Any:
        return answer(self, *arguments)

    return later if awaited else answer


for _name in METHODS:
    setattr(Recording, _name, recorded(_name, awaited=inspect.iscoroutinefunction(getattr(ToolSource, _name))))


def arguments_of(method: str, tool: str = "count") -> tuple[Any, ...]:
    """Return arguments a method of the protocol can be called with, by the names of its parameters."""
    call = ToolCall.of(tool, {}, id="c")
    of_calls = method in ("refresh",)
    made = {"call": call, "calls": [call], "context": RunContext(Survey("c"), True)}
    made |= {"digest": call.digest, "tool": tool, "session": "s"}
    if method == "reconcile":
        made["call"] = "c"
    names = list(inspect.signature(getattr(ToolSource, method)).parameters)[1:]
    assert of_calls == (names == ["calls"])
    return tuple(made[name] for name in names)


async def answer_of(source: Any, method: str, arguments: tuple[Any, ...]) -> Any:
    found = getattr(source, method)(*arguments)
    return await found if inspect.isawaitable(found) else found


@pytest.mark.parametrize("method", METHODS)
def test_a_recording_source_answers_every_method_of_the_protocol(method: str) -> None:
    assert method in Recording().answers


@pytest.mark.parametrize("method", [name for name in METHODS if name != "for_session"])
async def test_a_source_around_another_forwards_every_method_of_the_protocol(method: str) -> None:
    inner, arguments = Recording(), arguments_of(method)
    assert getattr(WrappedToolSource, method) is not getattr(BaseToolSource, method)
    found = await answer_of(WrappedToolSource(inner), method, arguments)  # type: ignore[arg-type]
    assert inner.asked == [(method, arguments)]
    assert found is inner.answers[method]


def test_a_source_around_another_serves_a_session_around_what_the_other_is_to_that_session() -> None:
    class Around(WrappedToolSource):
        pass

    inner, of_session = Recording(), Recording()
    around = Around(inner)  # type: ignore[arg-type]
    assert around.for_session("s") is around
    inner.answers["for_session"] = of_session
    served = around.for_session("s")
    assert isinstance(served, Around)
    assert (served.inner, around.inner) == (of_session, inner)
    assert inner.asked[-1] == ("for_session", ("s",))


@pytest.mark.parametrize("method", METHODS)
async def test_several_sources_as_one_forward_every_method_to_the_one_that_has_the_tool(method: str) -> None:
    first, second = Recording("first", knows=False), Recording("second")
    both = ToolSources([first, second])  # type: ignore[list-item]
    for one in (first, second):
        one.asked.clear()
    arguments = arguments_of(method, "second")
    found = await answer_of(both, method, arguments)
    assert getattr(ToolSources, method) is not getattr(BaseToolSource, method)
    assert second.asked[0] == (method, arguments)
    if method == "specs":
        assert tuple(found) == (*first.offered, *second.offered)
    elif method == "for_session":
        assert [spec.name for spec in found.specs()] == ["first", "second"]
    else:
        assert found is second.answers[method]
        assert [asked for asked in first.asked if asked != ("refresh", ([],)) and asked[0] != "reconcile"] == []


async def test_a_tool_no_source_has_is_nothing_to_any_of_them() -> None:
    both = ToolSources([Recording("first"), Recording("second")])  # type: ignore[list-item]
    call = ToolCall.of("third", {})
    found = both.classify(call), both.fill_arguments(call), both.survey(call), both.preview(call), both.inverse("third")
    assert found == (None, {}, None, (), None)


@pytest.mark.parametrize("names", [("count", "count"), ("a", "count", "count"), ("count", "a", "count")])
def test_two_tools_of_one_name_are_refused_wherever_they_come_from(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="two tools are named `count`; rename one"):
        ToolSources([Recording(name) for name in names])  # type: ignore[misc]


async def test_a_source_with_a_tool_of_a_built_in_name_is_refused_at_opening(folder: Path) -> None:
    setting = SessionOptions(
        workspace=folder, model=ScriptedModel([]), tools=[Stock("read_file")], log=MemoryLog(), environ={}
    )
    with pytest.raises(UsageError, match="two tools are named `read_file`"):
        await open_session(setting)


async def test_tools_of_several_sources_keep_their_order_and_are_one_sequence_while_nothing_changes() -> None:
    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        return ToolResult(True, "")

    going = [True]
    box = Toolbox([Tool(observing("c"), run), Tool(observing("a"), run, offered=lambda: going[0])])
    steady = Toolbox([Tool(observing("b"), run)])
    same = ToolSources([steady, Recording("d")])  # type: ignore[list-item]
    assert [spec.name for spec in same.specs()] == ["b", "d"]
    assert same.specs() is same.specs()
    both = ToolSources([box, steady])
    assert [spec.name for spec in both.specs()] == ["c", "a", "b"]
    going[0] = False
    assert [spec.name for spec in both.specs()] == ["c", "b"]


@given(st.text(max_size=300), st.integers(2, 60))
def test_cut_text_is_short_whole_characters_and_an_exact_count(text: str, cap: int) -> None:
    shown, dropped = cap_text(text, cap)
    size = len(text.encode())
    if size <= cap:
        assert (shown, dropped) == (text, 0)
    else:
        head, _, rest = shown.partition(f"\n[... {dropped} bytes left out ...]\n")
        assert text.startswith(head)
        assert text.endswith(rest)
        assert len(head.encode()) + len(rest.encode()) + dropped == size
        assert size - dropped <= cap
