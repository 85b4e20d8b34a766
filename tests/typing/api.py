"""Types of the public names, checked by mypy and never run."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import assert_type

import foregate
from foregate import Agent, ForegateError, Outcome, Policy, Session, run, run_sync
from foregate.agent.planning.ask.planner import Planning
from foregate.agent.planning.format.configuration import Configuration, load_configuration
from foregate.agent.planning.format.other_values import with_values
from foregate.agent.planning.run.plan_report import PlanReport
from foregate.policy.source.load import default_policy
from foregate.schemas.event import Event
from foregate.schemas.task_plan import TaskPlan
from foregate.schemas.tool_call import ToolCall

assert_type(default_policy(), Policy)
assert_type(ToolCall.of("read_file", {"path": "a"}), ToolCall)
assert_type(ToolCall.of("read_file", {"path": "a"}).digest, str)
assert_type(foregate.__version__, str)


@foregate.tool(read_only=True)
def count(item: str) -> int:
    """Count an item."""
    return len(item)


@foregate.tool
async def order(item: str, amount: int = 1) -> str:
    """Order an item."""
    return f"{amount} of {item}"


assert_type(count("paint"), int)
count(3)  # type: ignore[arg-type]


async def uses_a_configuration() -> None:
    assert_type(load_configuration("mine.yaml"), Configuration)
    async with Agent(config=load_configuration()) as agent:
        assert_type(agent, Agent)
    assert_type(await run("hello", config=Path("mine.yaml")), Outcome)
    Agent(config=3)  # type: ignore[arg-type]


async def uses_an_agent() -> None:
    assert_type(await order("paint", amount=2), str)
    async with Agent(model="small", workspace=".", policy="mine.yaml", tools=[count, order]) as agent:
        assert_type(agent, Agent)
        assert_type(await agent.run("hello"), Outcome)
        assert_type(agent.events("hello"), AsyncIterator[Event])
        assert_type(await agent.open(), Session)
        planning = await agent.plan("mend a.txt")
        assert_type(planning, Planning)
        if planning.plan is not None:
            assert_type(with_values(planning.plan, {"2.path": "b.txt"}), TaskPlan)
            with_values(planning.plan, ["2.path"])  # type: ignore[arg-type]
            assert_type(await agent.execute(planning.plan, confirmed=True), PlanReport)
        assert_type(await (await agent.open()).run_child("a part of it"), Outcome)
        assert_type(agent.notes, tuple[str, ...])
        assert_type(agent.outcome, Outcome | None)
        assert_type(agent.session, str)
    assert_type(await run("hello", model="small", dry_run=True), Outcome)


def uses_it_without_a_loop() -> None:
    with Agent() as agent:
        assert_type(agent.run_sync("hello"), Outcome)
    assert_type(run_sync("hello", workspace="."), Outcome)
    try:
        run_sync("hello", colour="red")  # type: ignore[call-arg]
    except ForegateError as error:
        assert_type(error, ForegateError)
