"""An exported session reads back into the same events and the same turns, whatever kind of session it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.session import Session
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.protocols import Reply
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.export.atif import build_document, validate_document
from foregate.telemetry.export.export import Export, ExportOptions, SessionFamily
from foregate.telemetry.export.fold import fold_trajectory
from foregate.telemetry.export.restore import RestoredSession, parse_document, restore_sessions
from tests.agent.loop.test_stages import ASKS, EDIT, READ_B, TALK, Killed, Mortal
from tests.agent.world import World
from tests.telemetry.export.stories import STORIES, Story, approved, dry, logged, told

SECRET = f"sk-{'a1B2' * 8}"


def exported(world: World, *names: str, **how: Any) -> Iterator[dict[str, Any]]:
    """Yield the documents of sessions of a world."""
    export = Export(world.log, world.blobs, ExportOptions(**how))
    yield from export.export_family(SessionFamily(names or ["s"]))
    assert export.tally.skipped == {}


def back(documents: Iterator[dict[str, Any]]) -> list[RestoredSession]:
    """Return the sessions of documents that went through a file."""
    return [session for made in documents for session in restore_sessions(parse_document(json.dumps(made)))]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_every_kind_of_session_reads_back_into_the_same_events_and_turns(story: Story) -> None:
    world, _ = await told(story)
    sessions = back(exported(world, *await world.log.sessions(), check=True))
    assert {session.session for session in sessions} == set(await world.log.sessions())
    for session in sessions:
        events = logged(world.log, session.session)
        assert list(session.events) == events
        assert list(session.read_turns()) == list(read_judged_turns(events))
        assert (session.altered, session.whole) == ((), True)


@pytest.mark.parametrize("early", [False, True])
async def test_a_session_whose_process_ended_after_any_event_reads_back_when_it_went_on(early: bool) -> None:
    model = [calls(READ_B, text=TALK), calls(EDIT), calls(EDIT), says("ok")]
    last = 0
    while True:
        world, last = World(log=Mortal(last + 1)), last + 1
        session = await world.open(model, prefetch=early)
        try:
            await run(session, ASKS)
            break
        except Killed:
            await world.kill(session)
        world.log.last = 0  # type: ignore[attr-defined]
        world.workspace.files["a.txt"] = b"teh other cat"
        done = sum(kind == "model_response" for kind in await world.kinds())
        again = await world.open(model[done:], resume=True)
        if again.state.task is not None:
            await run_to_outcome(again)
        (back_again,) = back(exported(world, check=True))
        assert list(back_again.events) == logged(world.log, "s"), last
        assert (back_again.altered, back_again.whole) == ((), True)
    assert last > 12


TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.one_of(
    st.fixed_dictionaries({"path": st.sampled_from(["a.txt", "b.txt", "../x"])}),
    st.fixed_dictionaries({"path": st.just("a.txt"), "old": st.just("teh"), "new": TEXT}),
    st.dictionaries(TEXT, JSON, max_size=3),
).map(lambda value: json.dumps(value, indent=1))
RAW = ARGUMENTS | TEXT
CALL = st.builds(
    lambda name, raw, wire: ToolCall.parse(name, raw, wire_id=wire),
    st.sampled_from(["read_file", "edit_file", "send", "note", "nope"]) | TEXT,
    RAW,
    TEXT,
)
RESPONSE = st.builds(
    ModelResponse,
    text=TEXT,
    calls=st.lists(CALL, max_size=3).map(tuple),
    reasoning=TEXT,
    usage=st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
    finish_reason=st.sampled_from(["stop", "tool_calls", "length"]),
    model=TEXT,
    notes=st.lists(TEXT, max_size=2).map(tuple),
    raw=TEXT,
)
REPLY = st.builds(Reply, st.sampled_from(["yes", "no", "anyway", "stop", "more"]), TEXT)


@settings(max_examples=30, deadline=None)
@given(st.lists(RESPONSE, max_size=6), st.lists(REPLY | st.none(), max_size=3), TEXT)
def test_whatever_is_said_and_called_reads_back(responses: list[Any], replies: list[Any], wish: str) -> None:
    world = World()

    async def tell() -> None:
        session = await world.open([*responses, *[ModelResponse("done")] * 30], [*replies, *[Reply("no")] * 30])
        await run(session, wish)

    asyncio.run(tell())
    (session,) = back(exported(world))
    events = logged(world.log, "s")
    assert list(session.events) == events
    assert list(session.read_turns()) == list(read_judged_turns(events))
    assert session.altered == ()


@pytest.mark.parametrize("more", ["later", "kind"])
async def test_a_document_with_a_field_this_version_does_not_know_is_refused_in_one_sentence(more: str) -> None:
    world, _ = await told(approved)
    (made,) = exported(world)
    document = json.loads(json.dumps(made))
    (rest,) = [rest for rest in document["steps"][1]["extra"]["foregate"]["events"] if rest["kind"] == "user_message"]
    rest["body"][more] = "user_message"
    with pytest.raises(UsageError, match="its events cannot be read") as refused:
        next(restore_sessions(document))
    assert len(str(refused.value).splitlines()) == 1


async def test_what_was_masked_at_the_export_or_changed_since_is_named() -> None:
    world, _ = await told(approved)
    (hidden,) = back(exported(world, patterns=("capital",)))
    assert hidden.whole
    kinds = {event.seq: event.kind for event in hidden.events}
    assert {kinds[seq] for seq in hidden.altered} >= {"need_answered", "model_response"}
    (made,) = exported(world)
    made["steps"][1]["message"] = "fix b.txt"
    (changed,) = restore_sessions(made)
    assert [event.kind for event in changed.events if event.seq in changed.altered] == ["user_message"]
    (made,) = exported(world)
    del made["steps"][-1]
    assert not next(restore_sessions(made)).whole


async def test_the_dialect_stays_where_content_is_left_out_and_comes_back_where_not() -> None:
    async def switched(world: World) -> Session:
        session = await dry(world)
        await session.record(Draft(PolicyChanged(dialect="action_tags"), "person"))
        return session

    world, _ = await told(switched)
    for content in (True, False):
        last = next(exported(world, content=content))["steps"][-1]
        assert last["message"] == "The policy or a switch changed: dialect action_tags."
    (again,) = restore_sessions(next(exported(world)))
    assert again.events[-1].body == PolicyChanged(dialect="action_tags")


async def test_a_document_of_another_program_or_without_content_is_refused_in_one_sentence() -> None:
    world, _ = await told(approved)
    bare = next(exported(world, content=False))
    foreign = {"schema_version": "ATIF-v1.8", "agent": {"name": "x", "version": "1"}, "steps": []}
    validate_document(foreign)
    with pytest.raises(UsageError, match="only what `foregate trajectories export` wrote"):
        next(restore_sessions(foreign))
    with pytest.raises(UsageError, match="--content off"):
        next(restore_sessions(bare))
    with pytest.raises(UsageError, match="layout 99"):
        next(restore_sessions({"extra": {"foregate": {"layout": 99, "content": True}}}))


@pytest.mark.parametrize("line", ["", "[]", "3", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 300, "\x00"])
def test_a_line_that_is_no_document_is_refused_in_one_sentence(line: str) -> None:
    with pytest.raises(UsageError, match="it holds no ATIF document"):
        parse_document(line)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_document_that_was_tampered_with_anywhere_never_passes_for_what_was_recorded(data: st.DataObject) -> None:
    world, _ = asyncio.run(told(approved))
    made = build_document(fold_trajectory(logged(world.log, "s")))
    steps = made["steps"]
    rest = data.draw(st.sampled_from([rest for step in steps for rest in step["extra"]["foregate"]["events"]]))
    key = data.draw(st.sampled_from(sorted(rest)))
    rest[key] = data.draw(JSON.filter(lambda value: json.dumps(value) != json.dumps(rest[key])))
    try:
        (session,) = restore_sessions(json.loads(json.dumps(made)))
        list(session.read_turns())
    except UsageError:
        return
    same = list(session.events) == logged(world.log, "s")
    assert session.altered or not session.whole or same
