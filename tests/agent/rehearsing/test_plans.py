"""Plans of a whole task are not played again: a sentence says why, and what comes before counts alike then and now."""

from __future__ import annotations

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.testing.model import calls, says
from foregate.schemas.task_plan import PlanConfirmed
from tests.agent.planning.run.test_mode import ANSWER, EDIT, PLAN, READ, TALK, opened
from tests.agent.rehearsing.families import list_events, rehearse_family
from tests.agent.world import World
from tests.events import bodies
from tests.policies import policy_with

NO_CONFIGURATION = (
    "a plan of the whole task begins here, and the log does not hold the configuration it was made and run under"
)


@pytest.mark.parametrize("keys", [None, {"narration.mode": "off"}, {"limits.turns": 9}])
async def test_what_comes_before_a_plan_counts_alike_and_nothing_is_claimed_of_what_follows(
    keys: dict[str, object] | None,
) -> None:
    world = World()
    session = await opened(world, [calls(READ), calls(EDIT, text=TALK), PLAN, ANSWER, says("it says the cat")], ["yes"])
    await run(session, "fix the typo in a.txt")
    await run(session, "what does a.txt say?")
    events = await list_events(world)
    assert bodies(events["s"], PlanConfirmed)
    played = (await rehearse_family(events, policy_with(keys) if keys else None))["s"]
    assert played.stopped == NO_CONFIGURATION
    assert played.now == played.then
    assert (played.now.requests, played.now.ran, played.now.planner) == (2, 1, 0)
    assert next(event.kind for event in events["s"] if event.seq == played.at) in ("turn_judged", "need_raised")
