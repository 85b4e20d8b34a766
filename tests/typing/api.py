"""Types of the public names, checked by mypy and never run."""

from collections.abc import AsyncIterator
from typing import assert_type

import foregate
from foregate import Agent, ForegateError, Outcome, Policy, Session, run, run_sync
from foregate.policy.load import default_policy
from foregate.schemas.event import Event
from foregate.schemas.tool_call import ToolCall

assert_type(default_policy(), Policy)
assert_type(ToolCall.of("read_file", {"path": "a"}), ToolCall)
assert_type(ToolCall.of("read_file", {"path": "a"}).digest, str)
assert_type(foregate.__version__, str)


async def uses_an_agent() -> None:
    async with Agent(model="small", workspace=".", policy=None) as agent:
        assert_type(agent, Agent)
        assert_type(await agent.run("hello"), Outcome)
        assert_type(agent.events("hello"), AsyncIterator[Event])
        assert_type(await agent.open(), Session)
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
