"""Limits: each ends the task with a report of what is done, what is in the way, what it needs and what is next."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, answers, calls, says
from foregate.agent.session.result import RunResult
from foregate.agent.tools.tool import Toolbox
from foregate.policy.policy import Limits
from foregate.schemas.errors import UsageError
from foregate.schemas.event_body import CallAnswered, TaskEnded
from foregate.schemas.model_response import Usage
from foregate.schemas.protocols import Reply
from foregate.schemas.tool_call import ToolResult
from tests.agent.corpus import TALK
from tests.agent.world import World, plan_json
from tests.policies import policy_with

READ, READ_B = ("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})
NOTE = ("note", {"key": "k"})
FIRST = calls(NOTE, text=TALK)
REQUEST = "note k, then read a.txt and b.txt"


async def ended(limits: Mapping[str, int], *steps: Any, world: World | None = None) -> RunResult:
    """Run the request under limits, to the end of the script; the outcome is the one the log tells."""
    world = world or World()
    world.policy = policy_with({f"limits.{name}": bound for name, bound in limits.items()}, world.policy)
    session = await world.open(list(steps))
    outcome = await run(session, REQUEST)
    assert isinstance(session.model, ScriptedModel)
    session.model.finish()
    (end,) = await world.bodies(TaskEnded)
    assert end.status == outcome.status
    return outcome


CASES: dict[str, tuple[int, Any]] = {
    "turns": (1, FIRST),
    "model_calls": (1, FIRST),
    "tool_calls": (1, FIRST),
    "tokens": (50, replace(FIRST, usage=Usage(40, 10))),
    "cost": (7, replace(FIRST, usage=Usage(cost=7))),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_a_task_may_use_ends_it_with_a_report_once_it_is_used(name: str) -> None:
    bound, first = CASES[name]
    outcome = await ended({name: bound}, first)
    assert outcome.status == "budget_exhausted"
    assert outcome.report.done == ("note k",)
    assert f"limits.{name}" in outcome.report.blocker
    assert f"{bound} of {bound}" in outcome.report.blocker
    assert outcome.report.need
    assert outcome.report.next_step


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("more", ["unlimited", "one more"])
async def test_a_limit_that_is_not_reached_or_0_lets_the_task_go_on(name: str, more: str) -> None:
    bound, first = CASES[name]
    outcome = await ended({name: 0 if more == "unlimited" else bound + 1}, first, says("noted"))
    assert (outcome.status, outcome.text) == ("completed", "noted")


async def test_the_wall_clock_ends_a_task_and_waiting_for_the_person_does_not_count() -> None:
    world = World()

    def slow(_: object) -> Any:
        world.clock.seconds += 100
        return FIRST

    outcome = await ended({"wall_clock": 90}, slow, world=world)
    assert outcome.status == "budget_exhausted"
    assert "limits.wall_clock" in outcome.report.blocker

    world = World(policy=policy_with({"approval.mode": "each", "limits.wall_clock": 90}))

    def late(_: object) -> Any:
        world.clock.seconds += 1000
        return Reply("yes")

    session = await world.open([FIRST, says("noted")], [late])
    assert (await run(session, REQUEST)).status == "completed"


async def test_tool_calls_beyond_the_limit_are_answered_before_the_task_ends() -> None:
    world = World()
    outcome = await ended({"tool_calls": 1}, calls(READ, READ_B), world=world)
    assert outcome.status == "budget_exhausted"
    given = [body.code for body in await world.bodies(CallAnswered)]
    assert given == ["not_run_budget"]


async def test_verification_rounds_bound_how_often_an_answer_is_sent_back() -> None:
    policy = policy_with({"plan.due": "first_side_effect", "plan.changed_resources": 1})
    plan = plan_json("note", "k")
    plan["success_criteria"] = [{"text": "tests", "check": "command_succeeds", "target": "make", "expected": None}]
    said = [FIRST, answers(plan), says("done"), says("really")]
    twice = await ended({}, *said, world=World(policy=policy))
    thrice = await ended({"verification_rounds": 3}, *said, says("at last"), world=World(policy=policy))
    assert all(one.status == "completed" and "unverified" in one.text for one in (twice, thrice))
    assert [one.text.split("\n")[0] for one in (twice, thrice)] == ["really", "at last"]


async def test_the_safety_budget_is_its_own_and_leaves_model_calls_alone() -> None:
    policy = policy_with({"plan.due": "first_side_effect", "plan.changed_resources": 1, "critique.level": "off"})
    outcome = await ended({"model_calls": 3}, FIRST, answers(plan_json("note", "k")), calls(READ), says("done"),
                          world=World(policy=policy))  # fmt: skip
    assert outcome.status == "completed"


async def test_a_child_gets_what_is_left_and_none_deeper_than_the_policy_says() -> None:
    world = World(policy=policy_with({"limits.child_depth": 0}))
    session = await world.open([])
    await session.record_message("go")
    with pytest.raises(UsageError, match=r"limits\.child_depth"):
        await session.run_child("read a.txt")
    assert "delegate" not in session.catalogue
    assert "delegate" in (await World().open([])).catalogue


async def test_observations_run_together_no_more_than_the_policy_says() -> None:
    for bound in (1, 3):
        world = World(policy=policy_with({"limits.parallel_calls": bound}))
        running, most = 0, 0

        def count(event: Any) -> None:
            nonlocal running, most
            running += (event.kind == "tool_started") - (event.kind == "tool_finished")
            most = max(most, running)

        async def slow(arguments: Mapping[str, Any]) -> ToolResult:
            await asyncio.sleep(0)
            return ToolResult(True, "")

        wanted = [("read_file", {"path": f"{name}.txt"}) for name in "abcdef"]
        session = await world.open([calls(*wanted), says("read")], listeners=[count])
        session.tools = Toolbox([dataclasses.replace(tool, run=slow) for tool in world.tools()])
        await run(session, REQUEST)
        assert most == bound


def test_every_limit_of_the_policy_is_tried_here_or_where_it_acts() -> None:
    elsewhere = {
        "calls_per_response": "not_run_too_many",
        "identical_changes": "not_run_loop",
        "identical_observations": "not_run_loop",
        "repeated_holds": "blocked",
        "malformed_calls": "blocked",
        "futile_turns": "blocked",
        "needs_per_gate": "plan_unavailable",
    }
    here = {*CASES, "wall_clock", "verification_rounds", "parallel_calls", "child_depth"}
    assert here | set(elsewhere) == set(Limits.model_fields)
