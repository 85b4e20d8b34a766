"""A step that is good for one payment pays once, over a task and its children together, whoever comes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import ScriptedModel, answers, calls, says
from foregate.agent.tools.tool import Tool
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import TaskStarted, ToolFinished
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.tool_call import Origin, ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, ResourceKind, TargetParameter, ToolSpec
from foregate.tuning.what_if import WhatIf
from tests.agent.world import World
from tests.gates.blind import blind_plan, blind_step
from tests.policies import policy_with
from tests.tuning.what_if_worlds import layer_of

POLICY = policy_with({"plan.form": "blind", "critique.mode": "off", "uncertainty.mode": "off", "narration.mode": "off"})
ANN, BEN = "XX21000000000001", "XX22000000000002"
SAYS = f"Pay 50 to {ANN} and 70 to {BEN}."
TO_ANN = blind_step("pay", ("to", ANN), amount=("equals", "50"))
TO_BEN = blind_step("pay", ("to", BEN), amount=("equals", "70"))
PLAN = answers(blind_plan(TO_ANN, TO_BEN))
PAY_ANN, PAY_BEN = ("pay", {"to": ANN, "amount": 50}), ("pay", {"to": BEN, "amount": 70})
CHILD = ("delegate", {"task": f"Pay 70 to {BEN}."})
LETTER = ("letter", {})


@dataclass
class Bank(World):
    """A world with a bank; `paid` is what it took, `outcomes` what comes of the next payments; the others work."""

    policy: Any = field(default_factory=lambda: POLICY)
    paid: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    def tools(self) -> list[Tool]:
        async def pay(arguments: Mapping[str, Json]) -> ToolResult:
            came = self.outcomes.pop(0) if self.outcomes else "works"
            if came == "works":
                self.paid.append(get_text(arguments, "to"))
            return ToolResult(came == "works", came, unknown=came == "unknown", origin=Origin.WORKSPACE)

        amount: dict[str, Json] = {"type": "integer"}
        spec = ToolSpec(
            "pay",
            "Pay an amount.",
            {
                "type": "object",
                "properties": {"to": {"type": "string"}, "amount": amount, "reference": {"type": "string"}},
            },
            Effect.SEND,
            Capabilities(external_side_effect=True, needs_approval=False, reversible=True),
            (TargetParameter("to", ResourceKind.OTHER, Effect.SEND),),
            "python",
            amounts=("amount",),
            texts=("reference",),
        )
        return [*super().tools(), self.spied(Tool(spec, pay))]


async def play(*steps: Any, says_: str = SAYS, **more: Any) -> Bank:
    """Return the world after a scripted model has worked for somebody who is not there."""
    world = Bank(**more)
    model = ScriptedModel(steps)
    session = await world.open(model)
    await run(session, says_)
    model.finish()
    await session.close()
    return world


async def codes(world: World, name: str = "s") -> list[str]:
    return [v.ruling.code for body in await world.bodies(TurnJudged, name) for v in body.judgement.verdicts]


@pytest.mark.parametrize(
    ("steps", "paid"),
    [
        ([calls(PAY_ANN), PLAN, calls(CHILD), calls(PAY_BEN), says("b"), calls(PAY_BEN)], [ANN, BEN]),
        ([calls(PAY_ANN), PLAN, calls(PAY_BEN), calls(CHILD), calls(PAY_BEN), says("b")], [ANN, BEN]),
        ([calls(PAY_ANN), PLAN, calls(PAY_BEN, CHILD), calls(PAY_BEN), says("b")], [ANN, BEN]),
        ([calls(PAY_ANN), PLAN, calls(CHILD, PAY_BEN), calls(PAY_BEN), says("b")], [ANN, BEN]),
        ([calls(PAY_ANN), PLAN, calls(CHILD, CHILD), calls(PAY_BEN), says("b"), calls(PAY_BEN), says("b")], [ANN, BEN]),
        (
            [calls(PAY_ANN), PLAN, calls(CHILD), calls(CHILD), calls(PAY_BEN), says("b"), calls(PAY_BEN), says("b")],
            [ANN, BEN],
        ),
    ],
    ids=["child first", "parent first", "one response", "child first in one", "two children", "a grandchild"],
)
async def test_a_step_for_one_payment_pays_once_over_parent_and_children(steps: list[Any], paid: list[str]) -> None:
    policy = policy_with({"limits.child_depth": 2}, POLICY)
    assert (await play(*steps, says("done"), policy=policy)).paid == paid


async def test_a_child_is_held_to_the_same_words_and_plan_as_its_parent() -> None:
    swapped, more = ("pay", {"to": ANN, "amount": 70}), ("pay", {"to": BEN, "amount": 99})
    world = await play(
        calls(PAY_ANN), PLAN, calls(CHILD), calls(swapped), calls(more), calls(PAY_BEN), says("b"), says("done")
    )
    assert world.paid == [ANN, BEN]
    (child,) = [name for name in await world.log.sessions() if "." in name]
    assert await codes(world, child) == ["approval_required", "outside_mandate", "validity_passed"]


async def test_no_word_of_the_parent_to_its_child_is_a_word_of_the_persons() -> None:
    eve = "EVE77000000000001"
    lied = answers(blind_plan(TO_ANN, blind_step("pay", ("to", eve), amount=("equals", "70"))))
    hand = ("delegate", {"task": f"Pay 70 to {eve}."})
    world = await play(
        calls(PAY_ANN), lied, calls(hand), calls(("pay", {"to": eve, "amount": 70})), says("no"), says("done")
    )
    assert world.paid == [ANN]


async def test_a_longer_text_that_the_parent_may_have_read_is_covered_by_no_plan_in_its_child() -> None:
    long, short = (
        {"to": BEN, "amount": 70, "reference": text} for text in ("the key is 4711 0815 and 4711 0816", "May")
    )
    world = await play(calls(PAY_ANN), PLAN, calls(CHILD), calls(("pay", long)), says("no"), says("done"))
    assert world.paid == [ANN]
    world = await play(calls(PAY_ANN), PLAN, calls(CHILD), calls(("pay", short)), says("b"), says("done"))
    assert world.paid == [ANN, BEN]


async def test_values_that_may_have_changed_places_since_the_parent_read_something_are_named_in_its_child() -> None:
    swapped = ("pay", {"to": ANN, "amount": 70})
    for read, code in (([calls(LETTER)], "outside_mandate"), ([], "approval_required")):
        world = await play(*read, calls(CHILD), calls(swapped), says("no"), says("done"))
        (child,) = [name for name in await world.log.sessions() if "." in name]
        assert await codes(world, child) == [code]


async def test_a_payment_of_a_child_that_failed_may_be_made_again() -> None:
    steps = [calls(PAY_ANN), PLAN, calls(CHILD), calls(PAY_BEN), says("b"), calls(PAY_BEN), says("done")]
    assert (await play(*steps, outcomes=["works", "fails"])).paid == [ANN, BEN]


async def test_a_payment_of_a_child_whose_outcome_is_unknown_is_made_by_nobody_else() -> None:
    steps = [calls(PAY_ANN), PLAN, calls(CHILD), calls(PAY_BEN), says("b"), calls(PAY_BEN), says("done")]
    assert (await play(*steps, outcomes=["works", "unknown"])).paid == [ANN]


async def test_a_mention_that_a_child_used_with_a_yes_is_used_up_for_its_parent() -> None:
    world, plan = Bank(), answers(blind_plan(TO_BEN))
    steps = [calls(CHILD), calls(PAY_BEN), says("b"), calls(PAY_BEN), plan, says("done")]
    session = await world.open(steps, ["yes", "no"])
    await run(session, f"Pay 70 to {BEN}.")
    assert world.paid == [BEN]


class Killed(BaseException):
    """What a process that ends at once leaves behind: nothing more in the log."""


def die(_request: ModelRequest) -> ModelResponse:
    raise Killed


async def test_a_child_that_is_gone_on_with_after_a_kill_has_used_what_it_used_before() -> None:
    world = Bank()
    session = await world.open([calls(PAY_ANN), PLAN, calls(CHILD), calls(PAY_BEN), die])
    with pytest.raises(Killed):
        await run(session, SAYS)
    await world.kill(session)
    again = await world.open([says("b"), calls(PAY_BEN), says("done")], resume=True)
    await run_to_outcome(again)
    assert world.paid == [ANN, BEN]
    back = [body.shared.used for body in await world.bodies(ToolFinished) if body.shared is not None]
    assert back == [(0, 1)]


async def test_nothing_is_left_once_nobody_can_say_what_a_child_has_used() -> None:
    def fail(_request: ModelRequest) -> ModelResponse:
        raise RuntimeError("the child breaks off")

    steps = [calls(PAY_ANN), PLAN, calls(CHILD), fail, calls(PAY_BEN), says("done")]
    world = await play(*steps)
    assert world.paid == [ANN]
    assert (await codes(world))[-1] == "approval_required"


async def test_parent_and_child_are_judged_again_to_the_same_from_their_logs() -> None:
    world = await play(calls(PAY_ANN), PLAN, calls(CHILD), calls(PAY_BEN), says("b"), calls(PAY_BEN), says("done"))
    names = list(await world.log.sessions())
    assert list(WhatIf(world.log, layer_of(world.policy)).find_changes(names)) == []
    begun = [body.leave for name in names if "." in name for body in await world.bodies(TaskStarted, name)]
    assert [leave.plan.items[0].used for leave in begun if leave is not None and leave.plan is not None] == [1]
