"""Sources somebody wrote: no fault of theirs lets a call pass, loses what came of one, or shows as a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import Preview, preview_calls
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls, says
from foregate.agent.tools.custom_source import CustomToolSource
from foregate.agent.tools.tool import BaseToolSource, Tool, Toolbox
from foregate.api import Agent
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.judging import survey
from foregate.schemas.errors import RuntimeLost, UsageError, WorkspaceError
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished, ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply, RunContext
from foregate.schemas.tool_call import Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, ToolSpec
from foregate.telemetry.log.memory_log import MemoryLog
from tests.events import bodies

SCHEMA = {"type": "object", "properties": {"shelf": {"type": "string"}}}
OWN = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
LOOK = ToolSpec("count", "Say how many are left.", SCHEMA, Effect.OBSERVATION)
CHANGE = ToolSpec("empty", "Empty a shelf.", SCHEMA, Effect.EDIT, OWN)
CALL = ToolCall.of("count", {"shelf": "a"}, id="c1.1")


class Shop(BaseToolSource):
    """A source whose methods a test replaces."""

    def __init__(self, spec: ToolSpec = LOOK, **methods: Any) -> None:
        self.spec = spec
        self.__dict__.update(methods)

    def specs(self) -> Sequence[ToolSpec]:
        return (self.spec,)

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        return ToolResult(True, f"shelf {(call.arguments or {}).get('shelf')}")


def fail(*given: Any) -> Any:
    raise RuntimeError("out of order")


async def fail_later(*given: Any) -> Any:
    raise RuntimeError("out of order")


async def return_text(*given: Any) -> Any:
    return "text"


async def play(folder: Path, shop: Shop, *made: Any) -> list[Any]:
    """Return the events of a task that calls the shop's tool."""
    log = MemoryLog()
    made = made or ((shop.spec.name, {"shelf": "a"}),)
    steps = [calls(one, text=f"I will {shop.spec.name} shelf a now, as you asked me to.") for one in made]
    model, person = ScriptedModel([*steps, *[says("done")] * 8]), ScriptedPerson(["yes"] * 4)
    async with Agent(model=model, person=person, tools=shop, builtin=False, workspace=folder, log=log) as agent:
        return [event async for event in agent.events(f"{shop.spec.name} shelf a")]


@pytest.mark.parametrize("classify", [fail, lambda call: "no effect", lambda call: 5])
def test_a_view_that_fails_or_names_no_effect_says_the_worst(classify: Any) -> None:
    assert CustomToolSource(Shop(classify=classify)).classify(CALL) is Effect.UNKNOWN


@pytest.mark.parametrize("fill", [fail, lambda call: 5, lambda call: None])
async def test_a_call_whose_arguments_cannot_be_filled_in_does_not_run(folder: Path, fill: Any) -> None:
    shop = Shop(fill_arguments=fill)
    with pytest.raises(WorkspaceError, match="cannot be told"):
        CustomToolSource(shop).fill_arguments(CALL)
    assert bodies(await play(folder, shop), ToolStarted) == []


@pytest.mark.parametrize("find", [fail, lambda call: 5])
def test_a_survey_that_fails_counts_as_none(find: Any) -> None:
    assert CustomToolSource(Shop(survey=find)).survey(CALL) is None


async def test_a_call_that_cannot_be_surveyed_does_not_run(folder: Path) -> None:
    shop = Shop(refresh=fail_later)
    with pytest.raises(RuntimeLost, match="`Shop` cannot survey the calls"):
        await CustomToolSource(shop).refresh([CALL])
    assert bodies(await play(folder, shop), ToolStarted) == []


async def test_a_change_whose_inverse_cannot_be_told_does_not_run(folder: Path) -> None:
    events = await play(folder, Shop(CHANGE, inverse=fail))
    assert bodies(events, ToolStarted) == []
    assert "`inverse` of `Shop` failed" in bodies(events, CallAnswered)[0].message


@pytest.mark.parametrize("run", [fail, fail_later, return_text])
async def test_what_becomes_of_a_started_call_is_recorded_whatever_the_source_returns(folder: Path, run: Any) -> None:
    events = await play(folder, Shop(CHANGE, run=run))
    assert len(bodies(events, ToolStarted)) == len(bodies(events, OutcomeUnknown)) == 1


@pytest.mark.parametrize("reconcile", [fail_later, return_text])
async def test_a_source_that_cannot_tell_what_came_of_a_call_leaves_it_unknown(reconcile: Any) -> None:
    assert await CustomToolSource(Shop(reconcile=reconcile)).reconcile("c1.1", "0") is None


@pytest.mark.parametrize(
    ("methods", "why"),
    [
        ({"specs": fail}, "`specs` of `Shop` failed"),
        ({"specs": lambda: (5,)}, "something else than ToolSpec"),
        ({"specs": lambda: None}, "something else than ToolSpec"),
        ({"for_session": fail}, "`for_session` of `Shop` failed"),
        ({"for_session": lambda session: None}, "is no source of tools"),
    ],
)
async def test_a_source_that_cannot_serve_is_refused_in_one_sentence(
    folder: Path, methods: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        await open_session(
            SessionOptions(
                workspace=folder, model=ScriptedModel([]), tools=Shop(**methods), log=MemoryLog(), environ={}
            )
        )
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("method", ["classify", "fill_arguments", "preview", "survey"])
async def test_what_a_source_does_to_the_arguments_reaches_no_call_that_is_judged(folder: Path, method: str) -> None:
    default = getattr(BaseToolSource(), method)

    def spoil(call: ToolCall) -> Any:
        call.arguments.clear()  # type: ignore[union-attr]
        return default(call)

    events = await play(folder, Shop(**{method: spoil}))
    assert [body.content for body in bodies(events, ToolFinished)] == ["shelf a"]


async def test_a_run_that_changes_its_arguments_changes_no_later_call(folder: Path) -> None:
    async def run(call: ToolCall, context: RunContext) -> ToolResult:
        return ToolResult(True, f"shelf {call.arguments.pop('shelf', 'nobody judged')}")  # type: ignore[union-attr]

    events = await play(folder, Shop(run=run), ("count", {"shelf": "a"}), ("count", {"shelf": "a"}))
    assert [body.content for body in bodies(events, ToolFinished)] == ["shelf a"] * 2


@pytest.mark.parametrize("part", ["run", "preview", "fill_arguments"])
async def test_a_tool_of_a_user_gets_a_copy_of_the_arguments(part: str) -> None:
    def clear(arguments: Any) -> Any:
        arguments.clear()
        return {}

    async def run(arguments: Any) -> ToolResult:
        arguments.clear()
        return ToolResult(True, "")

    box = Toolbox([Tool(LOOK, run, **({} if part == "run" else {part: clear}))])
    if part == "run":
        await box.run(CALL, RunContext(Survey(CALL.id)))
    else:
        getattr(box, part)(CALL)
    assert CALL.arguments == {"shelf": "a"}


async def test_an_incomplete_source_is_asked_for_everything_it_defines() -> None:
    class Half:
        def specs(self) -> Sequence[ToolSpec]:
            return [LOOK]

        async def run(self, call: ToolCall) -> ToolResult:
            return ToolResult(True, "two")

        def fill_arguments(self, call: ToolCall) -> dict[str, str]:
            return {"shelf": "b"}

    source = CustomToolSource(Half())
    assert source.fill_arguments(CALL) == {"shelf": "b"}
    assert source.classify(CALL) is None
    assert (await source.run(CALL, RunContext(Survey(CALL.id)))).ok


def test_judging_without_a_loop_refuses_what_is_no_source(folder: Path) -> None:
    with pytest.raises(UsageError, match="is no source of tools"):
        survey(ModelResponse("", (CALL,)), {}, workspace=folder, tools=object())  # type: ignore[arg-type]


async def test_a_view_that_fails_is_what_the_call_is_judged_by(folder: Path) -> None:
    (judged, *_) = bodies(await play(folder, Shop(classify=fail)), TurnJudged)
    assert [one.declared_effect for one in judged.turn.surveys] == [Effect.UNKNOWN]


async def test_a_person_is_shown_a_call_whose_inverse_cannot_be_told(folder: Path) -> None:
    """Nothing runs then, but the question itself does not fail."""
    shown: list[Preview] = []

    def show(need: Need) -> Reply:
        shown.extend(preview_calls(opened.session, need).values())
        return Reply("yes")

    shop = Shop(replace(CHANGE, capabilities=replace(OWN, needs_approval=True)), inverse=fail)
    model = ScriptedModel([calls(("empty", {"shelf": "a"}), text="I will empty shelf a now."), *[says("done")] * 3])
    person, log = ScriptedPerson([show, *["yes"] * 3]), MemoryLog()
    opened = await open_session(
        SessionOptions(workspace=folder, model=model, tools=shop, person=person, log=log, builtin=False, environ={})
    )
    await run(opened.session, "empty shelf a")
    await opened.close()
    assert [found.kept for found in shown] == [()]
    assert bodies(await log.read(opened.name), ToolStarted) == []
