"""Blocks of calls, parallel and sequential, with results of earlier steps put into later ones."""

from __future__ import annotations

import asyncio
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import says
from foregate.agent.session.session import Session
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.evidence.state.session import SessionState
from foregate.gates.prelude import build_prelude, judge
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished
from foregate.schemas.judgement import Judgement
from foregate.schemas.model_response import Block
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.blocks import Blocks, Case, Expected, cases
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, policy_with


def open_policy(limit: int) -> Policy:
    """Return a policy in which no gate but `validity` stops anything."""
    free = {"limits.identical_changes": 0, "limits.identical_observations": 0, "limits.repeated_holds": 0}
    return policy_with({**EVERYTHING_OFF, **free, "limits.parallel_calls": limit, "limits.calls_per_response": 0})


async def played(case: Case, limit: int) -> tuple[Blocks, Session, list[Event]]:
    """Play a case to its end."""
    world = Blocks(policy=open_policy(limit))
    session = await world.open([case.response(), says("done")])
    await run(session, "go")
    return world, session, list(await world.log.read("s"))


def turns_of(item: int | Block) -> list[tuple[int, int]]:
    """Return the pairs of places of which the second comes after the first in some sequence."""
    if isinstance(item, int):
        return []
    found = [pair for inner in item.items for pair in turns_of(inner)]
    if item.kind == "sequential":
        for first, second in combinations(item.items, 2):
            one = [first] if isinstance(first, int) else list(first.find_places())
            two = [second] if isinstance(second, int) else list(second.find_places())
            found += [(before, after) for before in one for after in two]
    return found


def answers(events: list[Event]) -> dict[str, list[str]]:
    """Return the codes of the answers to each call; `done` for one that ran well."""
    found: dict[str, list[str]] = {}
    for event in events:
        match event.body:
            case ToolFinished(call=call, ok=True):
                found.setdefault(call, []).append("done")
            case ToolFinished(call=call) | OutcomeUnknown(call=call):
                found.setdefault(call, []).append("not done")
            case CallAnswered(call=call, code=code):
                found.setdefault(call, []).append(code)
            case _:
                pass
    return found


def judged_again(events: list[Event]) -> None:
    """Check that every recorded turn gives the bytes of its judgement again."""
    for turn in read_judged_turns(events):
        again = build_prelude(restore_policy(turn.in_force.policy), build_catalogue(turn.in_force.catalogue or ()))
        judgement = judge(turn.turn, again, again.facts(turn.turn))
        assert isinstance(judgement, Judgement)
        assert strict_json.dump(judgement) == strict_json.dump(turn.judgement)


@settings(max_examples=120)
@given(cases(), st.integers(1, 4))
def test_whatever_is_nested_and_whatever_fails_exactly_what_may_run_runs_once_and_every_call_has_one_answer(
    case: Case, limit: int
) -> None:
    world, session, events = asyncio.run(played(case, limit))
    expected = Expected(case)
    begun = [place for place, begins in world.events if begins]
    assert sorted(begun) == sorted(expected.ran)
    assert world.given == expected.texts
    assert world.most <= limit
    assert world.collisions == []
    at = {(place, begins): number for number, (place, begins) in enumerate(world.events)}
    for before, after in turns_of(case.order):
        if (after, True) in at:
            assert before in expected.good
            assert at[before, False] < at[after, True]
    said = bodies(events, ModelResponded)[0]
    ids = [call.id for call in (said.program or said).calls]
    told = answers(events)
    assert sorted(told) == sorted(ids)
    assert all(len(codes) == 1 for codes in told.values())
    left_out = {place for place, call in enumerate(ids) if told[call] == ["not_run_after_failure"]}
    assert left_out <= expected.stopped
    assert expected.stopped - left_out <= expected.ruled_out
    assert {place for place, call in enumerate(ids) if told[call] == ["done"]} == expected.good
    messages = session.state.messages
    asked = next(number for number, message in enumerate(messages) if message.calls)
    assert [call.id for call in messages[asked].calls] == ids
    assert messages[asked].order == case.order
    assert [message.call for message in messages[asked + 1 : asked + 1 + len(ids)]] == ids
    assert verify_rows(world.log.lines("s"), "s").ok
    again = SessionState()
    for event in events:
        again.apply(event)
    assert again.messages == messages
    assert again.program is None
    judged_again(events)


def test_many_of_the_drawn_calls_get_a_result_and_run_and_many_are_stopped() -> None:
    tally = {"filled": 0, "stopped": 0}

    @settings(max_examples=100)
    @given(cases())
    def count(case: Case) -> None:
        expected = Expected(case)
        tally["filled"] += sum(bool(text) for text in expected.texts.values())
        tally["stopped"] += len(expected.stopped)

    count()
    assert min(tally.values()) > 20
