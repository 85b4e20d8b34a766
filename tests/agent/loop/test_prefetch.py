"""Looks taken while a response still arrives: what the model is told and what happens is as without them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.dialects.dialect import Dialect
from foregate.agent.dialects.dialect_model import AutoModel, DialectModel
from foregate.agent.dialects.json_dialect import JsonDialect
from foregate.agent.dialects.tag_dialects import ServiceTags
from foregate.agent.loop.runner import run
from foregate.agent.models.openai.retries import Retries
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session.result import RunResult
from foregate.agent.workspace.cancelled_work import Stopped
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished, ToolStarted
from foregate.schemas.judgement import Standing
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import Block, Follower, ModelResponse
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.blocks import Blocks, Case, cases
from tests.agent.loop.test_order import open_policy
from tests.agent.loop.test_stages import ASKS, EDIT, EDIT_B, NOTE, READ, READ_B, TALK, blocks, turn
from tests.agent.models.openai.scripted_server import ScriptedServer, Stream, delta, piece
from tests.agent.models.openai.test_model import model_at
from tests.agent.world import World
from tests.forever import FOREVER
from tests.policies import policy_with

Answer = ToolFinished | CallAnswered | OutcomeUnknown
Early = TypeVar("Early", ToolStarted, ToolFinished, TurnJudged)
SEND = ("send", {"to": "x@example.org", "text": "teh"})
WRONG = ("edit_file", {"path": "a.txt", "old": "no such text", "new": "x"})
NOWHERE, UNKNOWN = ("read_file", {"path": "no.txt"}), ("read", {"path": "a.txt"})


async def early(world: World, model: Any, person: Any = None, *, on: bool = True, **more: Any) -> RunResult:
    """Run a task in `world`, its looks taken early where `on`, and check that its log is sound."""
    session = await world.open(model, person, prefetch=on, **more)
    outcome = await run(session, ASKS)
    assert verify_rows(world.log.lines("s"), "s").defects == ()
    return outcome


async def looks(world: World, kind: type[Early]) -> list[Early]:
    """Return what the events of the looks that were taken early say."""
    return [body for body in await world.bodies(kind) if body.early]


async def targets(world: World) -> list[str]:
    """Return what was looked at early."""
    return [body.target for body in await looks(world, ToolFinished)]


async def told(world: World) -> list[tuple[str, Answer]]:
    """Return the answer to each call, by its place in its response, as the model reads it."""
    answered: list[tuple[str, Answer]] = []
    for event in await world.log.read("s"):
        body = event.body
        if isinstance(body, Answer) and body.call[0] not in "e":
            aside = {"duration": 0, "look": None} if isinstance(body, ToolFinished) else {}
            answered.append((body.call.partition(".")[2], replace(body, call="", **aside)))
    return answered


async def shown(world: World) -> list[ToolFinished]:
    """Return what the calls of the model's own that ran were answered, as it reads them."""
    return [body for _, body in await told(world) if isinstance(body, ToolFinished)]


async def ruled(world: World) -> list[Any]:
    """Return what the gates said of the model's own turns, the event numbers in it aside."""
    found = [body.judgement for body in await world.bodies(TurnJudged) if not body.early]
    return [[(d.gate, d.code, d.summary) for d in judgement.decisions] for judgement in found]


async def test_a_look_runs_before_its_response_is_there_and_its_call_is_answered_from_it() -> None:
    world, looked = World(), asyncio.Event()
    first, second = (piece(at, f'{{"path":"{at}.txt"}}', id=at, name="read_file") for at in "ab")
    events = [delta(content=TALK), first, second, looked, delta("tool_calls")]
    async with ScriptedServer(Stream(events), Stream([delta(content="so"), delta("stop")])) as server:
        session = await world.open(model_at(server), prefetch=True)
        session.subscribe(lambda event: looked.set() if event.kind == "tool_finished" else None)
        async with asyncio.timeout(FOREVER):  # the server sends no end before the look is over
            assert (await run(session, ASKS)).status == "completed"
    (look,) = await looks(world, ToolFinished)
    assert world.effects == [ToolCall.of(*READ).digest, ToolCall.of(*READ_B).digest]
    own = [e.body for e in await world.log.read("s") if isinstance(e.body, (ToolStarted, ToolFinished)) and e.body.look]
    assert [type(body) for body in own] == [ToolStarted, ToolFinished]
    assert (await shown(world))[0].content == look.content
    assert session.state.spent["tool_calls"] == 2


TAGS = "<read_file>a.txt</read_file>\n<read_file>b.txt</read_file>"
LIST = '[{"tool": "read_file", "args": {"path": "a.txt"}}, {"tool": "read_file", "args": {"path": "b.txt"}}]'


@pytest.mark.parametrize(("dialect", "written"), [(ServiceTags(), TAGS), (JsonDialect(), LIST)])
async def test_what_a_text_calls_is_looked_up_while_the_rest_of_it_arrives(dialect: Dialect, written: str) -> None:
    world = World()
    model = DialectModel(ScriptedModel([says(f"{TALK}\n{written}"), says("Final Answer: so")]), dialect)
    assert (await early(world, model)).status == "completed"
    assert await targets(world) == ["a.txt", "b.txt"]
    assert len(world.effects) == 2


@pytest.mark.parametrize("written", [TAGS, LIST])
async def test_nothing_a_text_calls_is_looked_up_before_its_end_where_its_dialect_is_not_known(written: str) -> None:
    world = World()
    model = AutoModel(ScriptedModel([says(f"{TALK}\n{written}"), says("so")]), (JsonDialect(), ServiceTags()))
    assert (await early(world, model)).status == "completed"
    assert (await targets(world), len(world.effects)) == ([], 2)


CALLS = st.sampled_from([READ, READ_B, EDIT, EDIT_B, NOTE, SEND, WRONG, NOWHERE, UNKNOWN])
RESPONSES = st.lists(st.tuples(st.lists(CALLS, min_size=1, max_size=5), st.sampled_from(["", TALK])), max_size=3)


@given(script=RESPONSES, policy=st.sampled_from(["default", "classic", "narrow"]))
@settings(max_examples=30, deadline=None)
def test_what_the_model_is_told_and_what_happens_is_the_same_with_and_without(script: Any, policy: str) -> None:
    async def play(on: bool) -> tuple[Any, ...]:
        chosen: dict[str, dict[str, Any]] = {
            "default": {},
            "classic": {"narration.scope": "first_response"},
            "narrow": {"limits.tool_calls": 4},
        }
        world = World(policy=policy_with(chosen[policy]))
        model = ScriptedModel([calls(*wanted, text=text) for wanted, text in script] + [says("ok")] * 5)
        outcome = await early(world, model, ["yes"] * 20, on=on)
        return outcome.status, await told(world), await ruled(world), world.workspace.files, world.sent

    assert asyncio.run(play(True)) == asyncio.run(play(False))


@given(case=cases(), limit=st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_blocks_and_stages_end_the_same_with_and_without(case: Case, limit: int) -> None:
    async def play(on: bool) -> tuple[Any, ...]:
        world = Blocks(policy=open_policy(limit))
        await early(world, [case.response(), says("done")], on=on)
        changes = [place for place, begins in world.events if begins and case.changes[place]]
        return sorted(await told(world), key=str), sorted(changes)

    assert asyncio.run(play(True)) == asyncio.run(play(False))


async def test_a_look_is_judged_as_a_turn_of_its_own_that_can_be_judged_again() -> None:
    world = World()
    await early(world, [calls(READ, text=TALK), says("ok")])
    (started,) = await looks(world, ToolStarted)
    judged = started.permit.judged
    assert len(await looks(world, TurnJudged)) == 1
    again = {one.seq: one for one in read_judged_turns(await world.log.read("s"))}[judged]
    assert (again.turn.actor, again.turn.cause, again.turn.calls[0].name) == ("runner", judged - 1, "read_file")


async def test_what_was_seen_early_is_no_evidence_for_a_change_of_the_same_response() -> None:
    world = World()
    await early(world, [calls(READ, EDIT, text=TALK), says("ok")])
    codes = [body.code for body in await world.bodies(CallAnswered)]
    assert codes == ["missing_pre_execution_evidence"]
    assert world.workspace.files["a.txt"] == b"teh cat"


async def test_nothing_behind_a_change_or_a_call_that_waits_for_a_result_is_looked_at_early() -> None:
    world = World()
    await early(world, [calls(READ, NOTE, READ_B, text=TALK), says("ok")], ["yes"])
    assert await targets(world) == ["a.txt"]
    world = World()
    wait = ("read_file", {"path": "$result_of_step_1"})
    await early(world, [blocks(turn(0, 1, 2), READ, wait, READ_B, deferred=(1,)), says("ok")])
    assert await targets(world) == ["a.txt"]


async def test_a_look_that_is_not_allowed_is_not_taken_and_its_call_is_judged_with_the_response() -> None:
    world = World(policy=policy_with({"rules.list": [{"id": "r", "then": "ask", "tool": "read_file"}]}))
    await early(world, [calls(READ, text=TALK), says("ok")], ["yes"])
    assert (await targets(world), len(world.effects)) == ([], 1)
    (judged,) = await looks(world, TurnJudged)
    assert judged.judgement.verdicts[0].standing is Standing.HOLD


class Meddling:
    """A model that does something between its last call and the end of its response."""

    name = "meddling"

    def __init__(self, response: ModelResponse, do: Callable[[Follower], Awaitable[None]]) -> None:
        self.responses, self._do = [response, says("ok")], do

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        response = self.responses.pop(0)
        if response.calls:
            assert isinstance(on_text, Follower)
            for call in response.calls:
                on_text.call(call)
            await self._do(on_text)
        return response


async def test_what_changed_since_the_look_is_looked_at_again() -> None:
    world = World()

    async def meddle(_: Follower) -> None:
        await over.wait()
        world.workspace.files["a.txt"] = b"the new cat"

    over = asyncio.Event()
    listeners = [lambda event: over.set() if event.kind == "tool_finished" else None]
    await early(world, Meddling(calls(READ, text=TALK), meddle), listeners=listeners)
    assert len(world.effects) == 2
    assert [body.content for body in await shown(world)] == ["the new cat"]


async def test_a_response_that_begins_again_is_answered_from_what_was_seen_and_leaves_nothing_open() -> None:
    world = World()
    first = [piece(0, '{"path":"a.txt"}', id="x", name="read_file"), piece(1, "{", id="y", name="read_file")]
    again = [piece(0, '{"path":"a.txt"}', id="x", name="read_file"), delta("tool_calls")]
    words = Stream([delta(content="so"), delta("stop")])
    async with ScriptedServer(Stream(first, "cut"), Stream(again), words) as server:
        await early(world, model_at(server, retries=Retries(attempts=2, first=0)))
    assert (len(await targets(world)), len(world.effects)) == (1, 1)


async def test_a_response_that_never_comes_leaves_no_look_under_way() -> None:
    world = World()
    waiting = asyncio.Event()

    async def forever(arguments: Mapping[str, Any]) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    async def breaks(_: Follower) -> None:
        await waiting.wait()
        raise Stopped

    tools = [dataclasses.replace(tool, run=forever) for tool in world.tools()]
    world.tools = lambda: tools  # type: ignore[method-assign]
    assert (await early(world, Meddling(calls(READ, text=TALK), breaks))).status == "cancelled"
    (look,) = await looks(world, ToolFinished)
    assert look.error == "cancelled"
    assert "model_response" not in await world.kinds()


async def test_without_the_setting_no_model_is_given_anybody_to_tell_of_calls() -> None:
    world = World()
    await early(world, [calls(READ, text=TALK), says("ok")], on=False)
    assert await looks(world, TurnJudged) == []


async def test_a_look_in_a_block_shows_what_a_change_outside_it_made_though_it_was_taken_before() -> None:
    world = World()
    both = replace(calls(READ, EDIT, text=TALK), order=Block("parallel", (0,)))
    await early(world, [calls(READ, text=TALK), both, says("ok")])
    assert [body.content for body in await shown(world) if body.tool == "read_file"] == ["teh cat", "the cat"]
    assert len(await targets(world)) == 2


async def test_a_child_task_is_never_begun_early_and_takes_looks_early_itself() -> None:
    world = World()
    model = [
        calls(("delegate", {"task": "read a.txt"}), READ, text=TALK),
        calls(READ_B, text=TALK),
        says("x"),
        says("ok"),
    ]
    await early(world, model)
    assert await targets(world) == []
    (child,) = [name for name in await world.log.sessions() if name != "s"]
    assert [body.target for body in await world.bodies(ToolFinished, child) if body.look] == ["b.txt"]


async def test_a_look_the_tasks_limits_leave_no_room_for_is_not_taken() -> None:
    world = World(policy=policy_with({"limits.tool_calls": 1}))
    await early(world, [calls(READ, READ_B, text=TALK)])
    assert await targets(world) == ["a.txt"]


async def test_words_that_came_before_a_look_count_as_said_when_it_is_judged() -> None:
    world = World(policy=policy_with({"narration.scope": "first_response"}))
    await early(world, [calls(READ, text=TALK), says("ok")])
    assert len(await targets(world)) == 1
    world = World(policy=policy_with({"narration.scope": "first_response"}))
    await early(world, [calls(READ), calls(READ, text=TALK), says("ok")])
    standings = [body.judgement.verdicts[0].standing for body in await looks(world, TurnJudged)]
    assert standings == [Standing.HOLD, Standing.ALLOW]


async def test_what_was_seen_for_one_response_answers_no_call_of_the_next() -> None:
    world = World()

    async def more(follower: Follower) -> None:
        follower.call(ToolCall.of(*READ_B))

    model = Meddling(calls(READ, text=TALK), more)
    model.responses.insert(1, calls(UNKNOWN, READ_B, text=TALK))
    await early(world, model)
    assert await targets(world) == ["a.txt", "b.txt"]
    assert world.effects == [ToolCall.of(*wanted).digest for wanted in (READ, READ_B, READ_B)]


async def test_no_more_looks_are_taken_early_than_a_response_may_hold_calls() -> None:
    for most, seen in ((1, ["a.txt"]), (2, ["a.txt", "b.txt"])):
        world = World(policy=policy_with({"limits.calls_per_response": most}))
        await early(world, ScriptedModel([calls(READ, READ_B, text=TALK), says("ok")]))
        assert await targets(world) == seen
