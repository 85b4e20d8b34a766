"""Under the shipped policy a bad plan is asked for again by its defect, then rejected; a person is asked only then."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import answers, calls, says
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.redecide import judge_any_turn
from foregate.policy.source.load import default_policy
from foregate.schemas import strict_json
from foregate.schemas.event import NeedRaised, TurnJudged
from foregate.schemas.judgement import Judgement
from tests.agent.loop.test_shared_uses import ANN, BEN, TO_ANN, TO_BEN, Bank
from tests.gates.blind import blind_plan

TALK = "I will pay the two bills now, one after the other."
PAY = ("pay", {"to": ANN, "amount": 50})
SAYS = f"Settle my two bills: {ANN} for 50, {BEN} for 70."
BAD: dict[str, dict[str, Any]] = {
    "missing_goal": {"goal": " "},
    "missing_success_criteria": {"success_criteria": []},
    "missing_risk_acknowledgment": {"risky_actions": []},
    "missing_plan_version": {"version": 0},
    "planned_steps_incomplete_entry": {"planned_steps": [TO_ANN | {"description": ""}]},
}


async def play(*steps: Any, replies: list[Any]) -> tuple[Bank, Any]:
    """Return the world and the session after a request under the shipped policy."""
    world = Bank(policy=default_policy())
    session = await world.open([*steps], replies)
    await run(session, SAYS)
    return world, session


@pytest.mark.parametrize("reason", BAD)
async def test_a_plan_that_is_bad_twice_is_rejected_and_asks_nobody(reason: str) -> None:
    bad = answers(blind_plan(TO_ANN, **BAD[reason]))
    world, session = await play(calls(PAY, text=TALK), bad, bad, says("I could not."), replies=[])
    needs = [body.need for body in await world.bodies(NeedRaised)]
    assert [(need.who, need.key) for need in needs] == [("planner", "plan:blind:1"), ("planner", "plan:blind:2")]
    (ruling,) = [one.ruling for body in await world.bodies(TurnJudged) for one in body.judgement.verdicts]
    assert (ruling.code, ruling.reason) == ("plan_rejected", reason)
    assert world.paid == []
    (told,) = [message.text for message in session.model.requests[-1].messages if message.role == "tool"]
    assert f"is none ({reason}); say what this is for" in told
    bench = build_prelude(session.policy, session.catalogue)
    for turn in read_judged_turns(await world.log.read("s")):
        again = judge_any_turn(turn.turn, session.policy, bench)
        assert isinstance(again, Judgement)
        assert strict_json.dump(again) == strict_json.dump(turn.judgement)


async def test_a_plan_that_is_mended_at_once_is_accepted_and_binds() -> None:
    bad, good = answers(blind_plan(TO_ANN, goal="")), answers(blind_plan(TO_ANN, TO_BEN))
    world, session = await play(calls(PAY, text=TALK), bad, good, says("Paid."), replies=[])
    assert world.paid == [ANN]
    asked = [request for request in session.model.requests if request.purpose == "plan"]
    assert ['"defect":"missing_goal"' in request.messages[-1].text for request in asked] == [False, True]


async def test_a_call_whose_plan_stays_bad_is_put_to_a_person_when_it_comes_again() -> None:
    bad = answers(blind_plan(TO_ANN, goal=""))
    steps = calls(PAY, text=TALK), bad, bad, calls(PAY, text=TALK), bad, bad, says("Paid.")
    world, _ = await play(*steps, replies=["anyway", "yes"])
    asked = [body.need for body in await world.bodies(NeedRaised)]
    assert [need.who for need in asked] == [*["planner"] * 4, "person", "person"]
    assert (asked[4].gate, asked[5].gate) == ("loop", "approval")
    assert world.paid == [ANN]


@pytest.mark.parametrize("text", ["", "I would rather not", '{"goal": 1}', "[]"])
async def test_an_answer_that_is_no_plan_leaves_it_to_the_person_as_before(text: str) -> None:
    world, _ = await play(calls(PAY, text=TALK), says(text), says(text), says("No."), replies=["no"])
    needs = [(body.need.who, body.need.code) for body in await world.bodies(NeedRaised)]
    assert needs == [("planner", ""), ("person", "plan_unavailable")]
    assert world.paid == []
