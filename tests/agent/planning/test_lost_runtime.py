"""Where a tool's runtime is gone the call has an unknown outcome, and the whole plan ends with it named."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from foregate.agent.tools.tool import Tool
from foregate.schemas.errors import RuntimeLost
from foregate.schemas.event_body import OutcomeUnknown
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolResult
from tests.agent.planning.plans import call, carried_out, plan, statuses, task
from tests.agent.world import World


class Gone(World):
    """A world whose runtime is gone when the tool named `lost` runs."""

    lost = "note"

    def spied(self, tool: Tool) -> Tool:
        inner = super().spied(tool)
        if tool.spec.name != self.lost:
            return inner

        async def run(arguments: Mapping[str, Json]) -> ToolResult:
            raise RuntimeLost("the connection to the runtime is lost")

        return dataclasses.replace(inner, run=run)


WANTED = plan(task(1, call("note", key="one")), task(2, call("read_file", path="a.txt")))


async def test_a_change_in_a_lost_runtime_is_unknown_and_ends_the_plan() -> None:
    world = Gone()
    session = await world.open([])
    report = await carried_out(session, WANTED)
    assert (report.status, statuses(report)) == ("blocked", ["failed", "aborted"])
    assert report.reason == "task 1 lost the runtime its tools run in"
    assert [body.error for body in await world.bodies(OutcomeUnknown)] == ["runtime_lost"]
    assert "connection" in report.tasks[0].error


async def test_a_look_in_a_lost_runtime_failed_and_ends_the_plan() -> None:
    world = Gone()
    world.lost = "read_file"
    session = await world.open([])
    report = await carried_out(session, plan(task(1, call("read_file", path="a.txt")), task(2, call("note", key="x"))))
    assert (report.status, statuses(report), session.state.parked) == ("blocked", ["failed", "aborted"], {})


async def test_a_plan_whose_runtime_stands_is_completed() -> None:
    world = Gone()
    world.lost = ""
    session = await world.open([])
    assert (await carried_out(session, WANTED)).status == "completed"
