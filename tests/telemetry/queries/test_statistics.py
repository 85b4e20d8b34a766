"""What the gates did, counted over whole sessions."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.schemas.errors import LogError
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.judgement import Need, Standing
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.protocols import Reply
from tests.agent.corpus import (
    ASK_EDITS,
    EDIT,
    PLAN,
    READ,
    REVIEWED,
    SEND,
    STORIES,
    TALK,
    YES,
    events_of,
    narration,
    rules,
    told,
)
from tests.agent.world import World
from tests.events import bodies
from tests.policies import policy_with
from tests.telemetry.queries.counted import KINDS, FoldedStatistics


def counted(*worlds: World) -> FoldedStatistics:
    """Return the statistics of worlds' sessions."""
    found = FoldedStatistics()
    for world in worlds:
        found.add_session("s", world.log.events("s", kinds=KINDS))
    return found


async def test_each_gate_counts_what_it_was_asked_and_how_often_it_fired() -> None:
    world = World()
    await narration(world)
    found = counted(world)
    assert (found.sessions, found.tasks, found.turns, found.calls, found.held) == (1, 1, 3, 2, 1)
    gates = {gate: (counts.asked, counts.fired) for gate, counts in found.gates.items()}
    assert gates["validity"] == (2, 0)
    assert gates["narration"] == (2, 1)
    assert gates["plan"] == (1, 0)
    assert gates["postlude"] == (1, 0)


async def test_a_call_that_was_judged_early_too_counts_once() -> None:
    async def played(early: bool) -> FoldedStatistics:
        world = World(policy=policy_with({"narration.scope": "first_response"}))
        session = await world.open([calls(READ), calls(READ, text=TALK), says("ok")], prefetch=early)
        await run(session, "read a.txt")
        return counted(world)

    assert (await played(True)).to_json() == (await played(False)).to_json()


async def test_the_counts_agree_with_the_decisions_of_every_story() -> None:
    for story in STORIES:
        events = await events_of(story)
        found = FoldedStatistics()
        found.add_session("s", events)
        judgements = [body.judgement for body in bodies(events, TurnJudged)]
        rows = [row for judgement in judgements for row in judgement.decisions]
        for gate, counts in found.gates.items():
            assert counts.asked == sum(row.gate == gate for row in rows)
        verdicts = [verdict for judgement in judgements for verdict in judgement.verdicts]
        assert found.held == sum(verdict.standing is not Standing.ALLOW for verdict in verdicts)


async def test_advice_costs_its_requests_and_tokens() -> None:
    world = World(policy=policy_with(REVIEWED))
    plan, critique = replace(PLAN, usage=Usage(100, 20)), replace(YES, usage=Usage(7, 3))
    await told(world, [calls(SEND, text=TALK), plan, critique, says("ok")], ["yes"])
    found = counted(world)
    assert [(cost.calls, cost.tokens) for cost in found.advice.values()] == [(1, 120), (1, 10)]


async def test_advice_costs_the_seconds_until_it_is_there() -> None:
    world = World(policy=policy_with(REVIEWED))

    def plan_slowly(_: object) -> ModelResponse:
        world.clock.seconds += 3
        return PLAN

    await told(world, [calls(SEND, text=TALK), plan_slowly, YES, says("ok")], ["yes"])
    advice = counted(world).to_json()["advice"]
    assert [advice[who]["seconds"] for who in ("planner", "critic")] == [3.0, 0.0]


async def test_what_a_gate_fired_is_told_apart() -> None:
    world = World(policy=rules(ASK_EDITS, {"id": "no-sends", "then": "deny", "tool": "send"}))
    await told(world, [calls(READ, text=TALK), calls(EDIT), calls(SEND, text=TALK), says("ok")], ["yes"])
    gates = counted(world).gates
    of_rules = gates["rules"]
    assert (of_rules.asked_person, of_rules.held, of_rules.denied) == (1, 0, 1)
    for counts in gates.values():
        assert counts.asked_person + counts.held + counts.denied <= counts.fired <= counts.asked


async def test_approvals_are_counted_with_the_share_of_yes_and_the_median_wait() -> None:
    worlds = []
    for seconds, choice in ((5, "yes"), (60, "no"), (7, "grant")):
        world = World(policy=rules(ASK_EDITS))

        def reply(_: object, world: World = world, seconds: int = seconds, choice: str = choice) -> Reply:
            world.clock.seconds += seconds
            return Reply(choice)

        await told(world, [calls(READ, text=TALK), calls(EDIT), says("ok")], [reply])
        worlds.append(world)
    found = counted(*worlds).to_json()
    assert found["approvals"] == {
        "asked": 3,
        "answered": 3,
        "accepted": 2,
        "share_accepted": 0.667,
        "median_seconds": 7,
    }
    assert found["gates"]["rules"]["overridden"] == 2
    assert found["gates"]["approval"]["overridden"] == 0


async def test_an_answer_that_says_yes_to_one_call_only_counts_as_a_yes() -> None:
    world = World(policy=rules(ASK_EDITS))

    def reply(need: Need) -> Reply:
        return Reply("no", calls=dict.fromkeys(need.calls, "yes"))

    await told(world, [calls(READ, text=TALK), calls(EDIT), says("ok")], [reply])
    found = counted(world)
    assert (found.approvals["yes"], found.gates["rules"].overridden) == (1, 1)


async def test_an_approval_that_nobody_answered_in_time_is_not_answered() -> None:
    world = World(policy=rules(ASK_EDITS))

    def late(_: object) -> Reply:
        world.clock.seconds += 90000
        return Reply("yes")

    await told(world, [calls(READ, text=TALK), calls(EDIT), says("ok")], [late])
    assert counted(world).gates["rules"].overridden == 0


async def test_anyway_overrides_the_gate_that_held() -> None:
    world = World(policy=policy_with({"plan.on_unavailable.dangerous": "hold", "plan.max_amendments": 0}))
    edit = ("note", {"key": "k"})
    world.policy = policy_with({"drift.max_holds": 0})
    talk = "just tell me what k says"
    model = [calls(edit, text=TALK), calls(edit), says("ok")]
    await told(world, model, ["anyway"], says=talk)
    found = counted(world)
    assert found.gates["drift"].overridden == 1
    assert (found.questions["asked"], found.questions["anyway"]) == (1, 1)


async def test_a_rule_that_allows_counts_as_fired_and_one_that_never_matched_is_named() -> None:
    world = World(policy=rules({"id": "reads", "then": "allow", "tool": "read_*"}, ASK_EDITS))
    await told(world, [calls(READ), says("ok")])
    found = counted(world)
    assert found.rules["reads"] == 1
    assert "ask-edits" in found.to_json()["rules_never_fired"]
    assert "reads" not in found.to_json()["rules_never_fired"]


async def test_what_happens_in_shadow_is_counted_apart() -> None:
    world = World(policy=policy_with({"narration.mode": "shadow"}))
    await told(world, [calls(SEND), PLAN, YES, says("ok")], ["yes"])
    counts = counted(world).gates["narration"]
    assert (counts.asked, counts.fired, counts.shadow_asked, counts.shadow_fired) == (0, 0, 1, 1)


async def test_an_event_that_cannot_be_counted_is_one_clear_error() -> None:
    world = World()
    await narration(world)
    events = list(world.log.events("s", kinds=KINDS))
    odd = replace(events[0], body=PolicyChanged(policy={"rules": {"list": [3]}}))
    with pytest.raises(LogError, match=r"event 1 of session `s` cannot be counted"):
        FoldedStatistics().add_session("s", [odd, *events[1:]])
