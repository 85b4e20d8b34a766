"""The state of a session is the fold over its log: nothing but an event changes it, whatever is asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import asdict

from foregate.agent.loop.runner import take_step
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.session_log import fold_session
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import decode_state, encode_state, is_same_state
from foregate.schemas.errors import LogError
from foregate.schemas.event import GENESIS, Event, TurnJudged
from foregate.schemas.event_body import CallAnswered
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply
from tests.agent.loop.test_nothing_unjudged import ADVICE, RESPONSES, Anything, Moody
from tests.agent.world import World
from tests.policies import policy_with

READ = ("read_file", {"path": "a.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
TALK = "I will do what you asked for now."


def plain(value: Any) -> Any:
    """Return a value as nested lists and plain values, so that two of them are equal where all they hold is equal."""
    if value is None or isinstance(value, str | bytes | int | float | Enum):
        return value
    if isinstance(value, Mapping):
        return [[plain(key), plain(one)] for key, one in value.items()]
    if isinstance(value, AbstractSet):
        return sorted(map(repr, map(plain, value)))
    if isinstance(value, Sequence):
        return [plain(one) for one in value]
    if isinstance(value, Struct):
        return [type(value).__name__, plain({name: getattr(value, name) for name in value.__struct_fields__})]
    if isinstance(value, Iterator) or callable(value):
        raise TypeError(f"a {type(value).__name__} cannot be compared")
    held = vars(value) if hasattr(value, "__dict__") else {name: getattr(value, name) for name in value.__slots__}
    return [type(value).__name__, plain(held)]


async def assert_folded(world: World, session: Session) -> None:
    """Assert that the state holds what the log holds, before and after the turn in hand is built."""
    state = session.state
    read = await fold_session(world.log, session.name)
    folded = plain(read)
    assert plain(state) == folded
    assert is_same_state(decode_state(encode_state(state), state.session, state.seq, state.hash), read)
    session.turns.compute_open_facts()
    assert plain(session.state) == folded


async def stepped(world: World, session: Session, text: str) -> RunResult:
    """Take a message through step by step, and compare state and log after each."""

    def build(_: Event) -> None:
        session.turns.compute_open_facts()

    with session.subscribe(build):
        await session.record_message(text)
        outcome = None
        while outcome is None:
            await assert_folded(world, session)
            outcome = await take_step(session)
    await assert_folded(world, session)
    return outcome


def test_two_states_are_told_apart_by_a_change_deep_inside() -> None:
    first, second = SessionState(), SessionState()
    assert plain(first) == plain(second)
    second.spent["tokens"] = 1
    assert plain(first) != plain(second)


@settings(max_examples=16, deadline=None)
@given(
    st.lists(RESPONSES, max_size=4),
    st.lists(ADVICE, max_size=3),
    st.lists(st.sampled_from(["yes", "no", "later", "revise"]), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_after_every_step_the_log_folds_to_the_state(
    responses: list[ModelResponse], advice: list[str], choices: list[str], each: bool, prefetch: bool
) -> None:
    import asyncio

    async def play() -> None:
        world = World(policy=policy_with({"approval.mode": "each"} if each else {}))
        session = await world.open(Anything(responses, advice), Moody(choices), prefetch=prefetch)
        await stepped(world, session, "fix the typo in a.txt, write to bob@example.org and note k")

    asyncio.run(play())


async def test_an_answer_that_no_longer_fits_is_void_in_the_turn_and_stays_in_the_state() -> None:
    world, turns = World(policy=policy_with({"approval.mode": "each"})), []

    def too_late(_: Need) -> Reply:
        world.workspace.files["a.txt"] = b"teh dog"
        return Reply("yes")

    model = [calls(READ, text=TALK), calls(EDIT), says("it changed")]
    session = await world.open(model, [too_late, too_late])

    def build(event: Event) -> None:
        if event.kind == "need_answered":
            open_turn = session.state.open
            assert open_turn is not None
            before = plain(open_turn.answers)
            turns.append([session.turns.build_turn(open_turn).turn for _ in range(2)])
            assert plain(open_turn.answers) == before

    session.subscribe(build)
    await stepped(world, session, "fix the typo in a.txt")
    first = turns[0][0]
    assert ([one.gate for one in first.voided], first.answers) == (["approval"], ())
    assert plain([pair[0].voided for pair in turns]) == plain([pair[1].voided for pair in turns])
    judged = (await world.bodies(TurnJudged))[1].turn
    assert [one.seq for one in judged.voided] == [one.seq for one in first.voided]
    assert asdict(judged.voided[0]) == asdict(first.voided[0])


def test_an_answer_to_a_call_in_a_log_without_a_task_is_refused() -> None:
    body = CallAnswered(
        call="c1.1", tool="note", target="", ruling="deny", code="approval_denied", message="no", change=False
    )
    event = Event(1, "0", 1, "s", "2026-01-01T00:00:00Z", "foregate", "", GENESIS, body, "")
    with pytest.raises(LogError, match="no task is under way"):
        SessionState().apply(event)
