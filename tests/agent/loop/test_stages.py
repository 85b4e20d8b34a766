"""Responses that are judged in stages, and blocks at the edges: questions, cancels, crashes, limits, children."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.dialects.dialect_model import DialectModel
from foregate.agent.dialects.json_dialect import JsonDialect
from foregate.agent.loop.cancelling import turn_elsewhere
from foregate.agent.loop.runner import reason_to_stop_stages, run, run_to_outcome, take_step
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.evidence.state.dataflow import Dataflow
from foregate.evidence.state.task import CallResult, TaskState
from foregate.schemas.event import Continuation, Draft, Event, ModelResponded, TurnJudged
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, PolicyChanged, TaskEnded, ToolFinished
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.protocols import Lease
from foregate.schemas.tool_call import Origin
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.blocks import Blocks
from tests.agent.corpus import ASK_EDITS, rules, stages
from tests.agent.loop.test_order import open_policy
from tests.agent.world import World
from tests.policies import policy_with

TALK = "I understand, and this is what I will do now."
READ, READ_B = ("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
EDIT_B = ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"})
NOTE = ("note", {"key": "k"})
ASKS = "fix a.txt and b.txt, and note k"


class Killed(BaseException):
    """The process ends here."""


class Mortal(MemoryLog):
    """A log whose process ends once event `last` is written, 0 for never."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last

    async def append(self, lease: Lease, drafts: Sequence[Draft], *, policy: str, time: str) -> Sequence[Event]:
        """Append, or end."""
        if self.last and (await self.head(lease.session)).seq >= self.last:
            raise Killed
        return await super().append(lease, drafts, policy=policy, time=time)


def blocks(block: Block, *wanted: Any, deferred: tuple[int, ...] = (), text: str = TALK) -> ModelResponse:
    """Return a response with its calls in a block."""
    return replace(calls(*wanted, text=text), order=block, deferred=deferred)


def turn(*items: int | Block) -> Block:
    """Return a sequential block."""
    return Block("sequential", items)


def both(*items: int | Block) -> Block:
    """Return a parallel block."""
    return Block("parallel", items)


async def answers(world: World) -> list[tuple[str, str]]:
    """Return call and code of every answer, in order; `ran` or `failed` for what ran. The log must be sound."""
    assert verify_rows(world.log.lines("s"), "s").defects == ()
    found = []
    for event in await world.log.read("s"):
        match event.body:
            case CallAnswered() as body:
                found.append((body.call.partition(".")[2], body.code))
            case (ToolFinished() | OutcomeUnknown()) as body:
                ran = isinstance(body, ToolFinished) and body.ok
                found.append((body.call.partition(".")[2], "ran" if ran else "failed"))
            case _:
                pass
    return found


def act(place: int, key: str, way: str = "fine", text: str = "") -> tuple[str, dict[str, str]]:
    """Return a change of a key."""
    return "act", {"place": str(place), "key": key, "way": way, "text": text}


async def test_a_change_outside_the_blocks_that_was_not_made_stops_their_changes_and_no_look() -> None:
    world = World()
    wrong = ("edit_file", {"path": "a.txt", "old": "no such text", "new": "x"})
    model = [calls(READ, text=TALK), blocks(both(1, 2), wrong, NOTE, READ_B), says("ok")]
    await run(await world.open(model), ASKS)
    assert (await answers(world))[1:] == [("1", "failed"), ("2", "not_run_after_change_not_made"), ("3", "ran")]


async def test_a_place_that_leads_nowhere_is_told_to_the_model_and_ends_its_sequence() -> None:
    world = World()
    there = ("read_file", {"path": "$result_of_step_1.name"})
    far = ("read_file", {"path": "$result_of_step_7"})
    await run(await world.open([blocks(turn(0, 1, 2), READ, there, NOTE, deferred=(1,)), says("ok")]), ASKS)
    assert sorted(await answers(world)) == [("1", "ran"), ("2", "invalid_arguments"), ("3", "not_run_after_failure")]
    told = [body.message for body in await world.bodies(CallAnswered)]
    assert any("whose result is no JSON; name the whole" in message for message in told)
    other = World()
    await run(await other.open([blocks(turn(0, 1), READ, far, deferred=(1,)), says("ok")]), ASKS)
    assert (await answers(other))[1] == ("2", "invalid_arguments")


async def test_a_call_is_judged_with_the_result_in_it_and_not_with_the_place() -> None:
    world = World(files={"a.txt": b"../outside.txt", "b.txt": b"b"})
    await run(await world.open([blocks(turn(0, 1), READ, ("read_file", {"path": "$result_of_step_1"}), deferred=(1,)),
                                says("ok")]), ASKS)  # fmt: skip
    assert await answers(world) == [("1", "ran"), ("2", "denied_by_rule")]
    said = [event for event in await world.log.read("s") if isinstance(event.body, ModelResponded)]
    first, second, _ = await world.bodies(ModelResponded)
    assert (said[1].actor, second.continues) == ("foregate", Continuation(response=said[0].seq, places=(1,)))
    assert json.loads(second.calls[0].arguments) == {"path": "../outside.txt"}
    assert [call.id for call in first.calls] == [f"c{said[0].seq}.1"]


async def test_a_call_that_named_a_result_asks_a_person_with_the_result_shown_and_a_yes_outlives_the_process() -> None:
    world = World(files={"a.txt": b"teh cat", "which.txt": b"a.txt"}, policy=rules(ASK_EDITS))
    edit = ("edit_file", {"path": "$result_of_step_1", "old": "teh", "new": "the"})
    which = ("read_file", {"path": "which.txt"})
    model = [calls(READ, text=TALK), blocks(turn(0, 1, 2), which, edit, NOTE, deferred=(1,))]
    session = await world.open(model, [None])
    assert (await run(session, "fix a.txt and note k")).status == "awaiting_approval"
    await world.kill(session)
    again = await world.open([says("ok")], ["yes"], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert (await answers(world))[1:] == [("1", "ran"), ("2", "ran"), ("3", "ran")]
    assert world.workspace.files["a.txt"] == b"the cat"


async def test_names_put_in_are_the_tools_words_however_deep_they_stood_in_its_result() -> None:
    filler = "\n".join(f"line {number}" for number in range(30_000))
    page = json.dumps({"text": filler, "name": "deep-file.txt", "rest": filler})
    world = World(files={"a.txt": page.encode(), "deep-file.txt": b"x"}, policy=policy_with({"files.max_read": 9**9}))
    edit = ("edit_file", {"path": "$result_of_step_1.name", "old": "x", "new": "y"})
    session = await world.open([blocks(turn(0, 1), READ, edit, deferred=(1,)), says("ok")])
    assert session.state.atoms.find_atom("deep-file.txt").origin is Origin.NOBODY
    await run(session, "read a.txt and go on")
    judged = await world.bodies(TurnJudged)
    (survey,) = next(body.turn for body in judged if body.turn.cause).surveys
    (atom,) = [atom for atom in survey.atoms if atom.text == "deep-file.txt"]
    assert (atom.origin, atom.told) == (Origin.WORKSPACE, True)


async def test_a_value_put_in_is_known_as_the_name_it_is_though_it_has_spaces() -> None:
    world = World(files={"a.txt": b"my notes.txt", "my notes.txt": b"x"})
    session = await world.open([blocks(turn(0, 1), READ, ("read_file", {"path": "$result_of_step_1"}), deferred=(1,)),
                                says("ok")])  # fmt: skip
    await run(session, "read the file that a.txt names")
    heard = session.state.atoms.find_atom("my notes.txt")
    assert (heard.origin, heard.told) == (Origin.WORKSPACE, True)


async def test_stages_are_no_turns_and_no_requests_of_their_own() -> None:
    world = World()
    session = await stages(world)
    (ended,) = await world.bodies(TaskEnded)
    assert (ended.turns, ended.model_calls) == (1, 2)
    assert len(await world.bodies(ModelResponded)) > 3
    assert {body.turn.turn for body in await world.bodies(TurnJudged)} <= {1, 2}
    assert session.state.program is None


async def test_a_question_between_stages_ends_the_response_and_every_answer_stands_before_it() -> None:
    world = World(policy=policy_with({"uncertainty.threshold": 300}))
    send = ("send", {"to": "bob@example.org"})
    later = ("note", {"key": "$result_of_step_1"})
    response = blocks(both(turn(0, 2), 1), READ, send, later, deferred=(2,))
    session = await world.open([response, says("ok")], [])
    assert (await run(session, "do it for k")).status == "needs_input"
    assert await answers(world) == [("1", "ran"), ("2", "uncertainty_clarification"), ("3", "not_asked_now")]
    roles = [message.role for message in session.state.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "tool", "assistant"]
    assert (await run(session, "to bob")).status == "completed"


async def test_turning_elsewhere_while_a_stage_waits_for_a_yes_answers_the_stages_after_it() -> None:
    world = World(policy=rules(ASK_EDITS))
    later = ("note", {"key": "$result_of_step_1"})
    session = await world.open([calls(READ, text=TALK), blocks(turn(0, 1), EDIT, later, deferred=(1,)), says("ok")],
                               [None])  # fmt: skip
    assert (await run(session, "fix a.txt, note it")).is_paused
    await turn_elsewhere(session)
    assert (await run(session, "never mind, just say hello")).status == "completed"
    assert (await answers(world))[1:] == [("1", "not_run_cancelled"), ("2", "not_run_cancelled")]


async def test_cancelling_a_parallel_block_ends_what_runs_and_answers_the_rest() -> None:
    world = Blocks(policy=open_policy(2))
    wanted = [act(0, "a"), act(1, "b"), act(2, "c"), act(3, "d", text="$result_of_step_1")]
    running: asyncio.Task[Any] | None = None
    begun = 0

    def stop(event: Event) -> None:
        nonlocal begun
        begun += event.kind == "tool_started"
        if begun == 2 and event.kind == "tool_started" and running is not None:
            stop_task(running)

    response = blocks(both(0, 1, turn(2, 3)), *wanted, deferred=(3,))
    session = await world.open([response], listeners=[stop])
    running = asyncio.create_task(run(session, "go"))
    assert (await running).status == "cancelled"
    found = dict(await answers(world))
    assert sorted(found) == ["1", "2", "3", "4"]
    assert (found["3"], found["4"]) == ("not_run_cancelled", "not_run_cancelled")
    assert world.running == set() or len(world.events) <= 3


async def test_a_process_that_ends_after_any_event_goes_on_with_the_stage_in_hand_and_nothing_runs_twice() -> None:
    whole = Blocks(policy=open_policy(2))
    place = "$result_of_step_1"
    wanted = [act(0, "a"), act(1, "b", text=place), act(2, "c"), act(3, "d", text=place), act(4, "e")]
    response = blocks(both(turn(0, 1, 2), turn(4, 3)), *wanted, deferred=(1, 3))
    await run(await whole.open([response, says("ok")]), "go")
    count = len(await whole.log.read("s"))
    assert sorted(await answers(whole)) == [(str(n), "ran") for n in range(1, 6)]
    for number in range(3, count):
        log = Mortal(number)
        world = Blocks(policy=open_policy(2), log=log)
        session = await world.open([response, says("ok")])
        with pytest.raises(Killed):
            await run(session, "go")
        await world.kill(session)
        log.last = 0
        asked = any(event.kind == "model_response" for event in await world.log.read("s"))
        again = await world.open([says("ok")] if asked else [response, says("ok")], resume=True)
        if again.state.task is not None:
            await run_to_outcome(again)
        found = await answers(world)
        assert sorted(place for place, _ in found) == ["1", "2", "3", "4", "5"], number
        begun = [place for place, begins in world.events if begins]
        assert len(begun) == len(set(begun)), number
        codes = {code for _, code in found}
        assert codes <= {"ran", "failed", "not_run_after_failure"}, number
        assert world.given.items() <= whole.given.items()


async def test_in_a_dry_run_a_sequence_goes_on_and_what_needs_a_result_is_shown_as_it_stands() -> None:
    world = World()
    later = ("note", {"key": "$result_of_step_1"})
    other = ("note", {"key": "l"})
    session = await world.open([blocks(turn(0, 1, 2), NOTE, later, other, deferred=(1,)), says("ok")])
    await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    await run(session, ASKS)
    assert [code for _, code in await answers(world)] == ["not_run_dry_run"] * 3
    assert world.effects == []


async def test_calls_beyond_the_limit_of_a_response_end_their_sequence_wherever_they_stand() -> None:
    world = World(policy=policy_with({"limits.calls_per_response": 2}))
    later = ("note", {"key": "$result_of_step_1"})
    first = blocks(turn(2, 0, 1), READ, READ_B, NOTE)
    await run(await world.open([first, says("ok")]), ASKS)
    assert sorted(await answers(world)) == [
        ("1", "not_run_after_failure"),
        ("2", "not_run_after_failure"),
        ("3", "not_run_too_many"),
    ]
    staged = World(policy=policy_with({"limits.calls_per_response": 2}))
    await run(await staged.open([blocks(turn(2, 0, 1), READ, later, NOTE, deferred=(1,)), says("ok")]), ASKS)
    assert sorted(await answers(staged)) == sorted(await answers(world))


async def test_a_cut_off_response_with_places_is_answered_whole_also_after_a_crash() -> None:
    world = World()
    later = ("note", {"key": "$result_of_step_1"})
    cut = replace(blocks(turn(0, 1), READ, later, deferred=(1,)), finish_reason="length")
    world.log = Mortal(4)
    session = await world.open([cut])
    with pytest.raises(Killed):
        await run(session, ASKS)
    await world.kill(session)
    world.log.last = 0
    await run_to_outcome(await world.open([says("ok")], resume=True))
    assert await answers(world) == [("1", "not_run_truncated"), ("2", "not_run_truncated")]


async def test_a_child_task_in_a_block_runs_alone_and_its_question_pauses_before_anything_after_it_begins() -> None:
    world = World(policy=rules(ASK_EDITS))
    child = ("delegate", {"task": "fix a.txt"})
    response = blocks(both(0, 1, 2), READ_B, child, NOTE)
    session = await world.open([response, calls(READ, text=TALK), calls(EDIT)], [None])
    assert (await run(session, "fix a.txt, note k")).is_paused
    assert await answers(world) == [("1", "ran")]
    await world.kill(session)
    again = await world.open([says("child done"), says("ok")], ["yes"], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert await answers(world) == [("1", "ran"), ("2", "ran"), ("3", "ran")]


async def test_a_model_that_writes_json_runs_blocks_and_paths_into_results() -> None:
    world = World(files={"a.txt": b'{"files": [{"name": "b.txt"}]}', "b.txt": b"teh dog"})
    text = json.dumps(
        {
            "sequential": [
                {
                    "parallel": [
                        {"tool": "read_file", "args": {"path": "a.txt"}},
                        {"tool": "note", "args": {"key": "k"}},
                    ]
                },
                {"tool": "read_file", "args": {"path": "a.txt"}},
                {"tool": "read_file", "args": {"path": "$result_of_step_2.files[0].name"}},
                {"tool": "note", "args": {"key": "$result_of_step_1[1]"}},
            ]
        }
    )
    inner = ScriptedModel([says(f"{TALK}\n```json\n{text}\n```"), says("ok")])
    session = await world.open(DialectModel(inner, JsonDialect()))
    assert (await run(session, ASKS)).status == "completed"
    assert [code for _, code in await answers(world)] == ["ran"] * 5
    given = json.loads(inner.requests[1].messages[-1].text)["results"]
    assert [one["answer"]["output"] for one in given][-2:] == ["teh dog", "noted"]
    assert "$result_of_step_2.files[0].name" in inner.requests[1].messages[-2].text


async def test_what_is_taken_from_a_block_is_as_trusted_as_the_least_trusted_result_in_it() -> None:
    order = turn(both(0, 1), 2)
    whole = blocks(order, READ, READ_B, ("read_file", {"path": "$result_of_step_1[0]"}), deferred=(2,)).stamp_calls(1)
    program = Dataflow.of(whole, 1)
    assert program is not None
    program.record_result("c1.1", CallResult(True, "a page.txt", Origin.WORKSPACE, told=True, seq=5))
    program.record_result("c1.2", CallResult(True, "other", Origin.EXTERNAL, seq=6))
    ((text, result),) = program.find_taken_texts(2)
    assert (text, result.origin, result.told, result.seq) == ("a page.txt", Origin.EXTERNAL, True, 6)


async def test_a_task_that_ends_takes_its_stages_along() -> None:
    world = World()
    session = await world.open([blocks(turn(0, 1), READ, ("note", {"key": "$result_of_step_1"}), deferred=(1,))])
    await session.record_message(ASKS)
    await take_step(session)
    assert session.state.program is not None
    await session.end_task("failed", blocker="for the test")
    assert session.state.program is None


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({}, ""),
        ({"question": "which one?"}, "not_asked_now"),
        ({"words_only": True}, "not_asked_now"),
        ({"words_only_task": True}, "not_asked_now"),
        ({"stuck": "it was held twice"}, "not_run_cancelled"),
        ({"stuck": "it was held twice", "after_turn": ("go_on", "")}, ""),
        ({"after_turn": ("stop", "")}, "not_run_cancelled"),
        ({"after_turn": ("more", "and this")}, "not_run_cancelled"),
    ],
)
def test_a_further_stage_is_taken_only_where_nothing_else_is_to_be_settled_first(
    state: dict[str, Any], code: str
) -> None:
    task = TaskState(1, 0, "2026-01-01T00:00:00.000000Z")
    for name, given in state.items():
        setattr(task, name, given)
    reason = reason_to_stop_stages(task)
    assert (reason[0] if reason else "") == code
