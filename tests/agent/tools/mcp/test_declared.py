"""What a person declared of a tool of a server holds for exactly what they saw, whatever the server does then."""

from __future__ import annotations

from foregate.agent.models.scripted import calls, says
from foregate.agent.tools.declarations import Declarations
from foregate.schemas.event_body import CallAnswered, ToolStarted
from foregate.schemas.protocols import Reply
from tests.agent.tools.mcp.conftest import Bench
from tests.agent.tools.mcp.test_real_servers import python
from tests.events import bodies

ECHO, TIME = "bad.echo", "time.get_current_time"
LOOKS = Reply("yes", declared={ECHO: "reads"})


async def test_the_time_server_costs_one_question_and_none_in_the_next_session(bench: Bench) -> None:
    bench.serve({"time": python("mcp_server_time", "--local-timezone", "UTC")})
    await bench.pin()
    asked = [calls((TIME, {"timezone": zone})) for zone in ("UTC", "Asia/Tokyo", "Europe/Oslo", "UTC", "Asia/Tokyo")]
    events, _ = await bench.play(*asked, says("noon"), replies=[Reply("yes", declared={TIME: "reads"})])
    assert [body.effect for body in bodies(events, ToolStarted)] == ["unknown", *["observation"] * 4]
    events, _ = await bench.play(*asked, says("noon"))
    assert len(bodies(events, ToolStarted)) == 5


async def test_a_tool_of_a_server_that_is_started_otherwise_is_undeclared_again(bench: Bench) -> None:
    for mode in ("plain", "announces"):
        bench.hostile(mode)
        await bench.pin()
        if mode == "plain":
            await bench.play(calls((ECHO, {"text": "a"})), says("x"), replies=[LOOKS])
        events, _ = await bench.play(calls((ECHO, {"text": "b"})), says("x"))
        assert len(bodies(events, ToolStarted)) == (mode == "plain")


async def test_an_argument_that_neither_the_person_saw_nor_the_server_lists_is_not_covered(bench: Bench) -> None:
    bench.hostile()
    await bench.pin()
    await bench.play(calls((ECHO, {"text": "a"})), says("x"), replies=[LOOKS])
    steps = [calls((ECHO, {"text": "b"})), calls((ECHO, {"text": "b", "action": "drop"})), says("x")]
    events, _ = await bench.play(*steps)
    assert [body.effect for body in bodies(events, ToolStarted)] == ["observation"]
    assert [body.code for body in bodies(events, CallAnswered)] == ["outside_mandate"]


async def test_all_tools_of_a_server_are_declared_at_once_and_one_that_comes_later_is_not(bench: Bench) -> None:
    bench.hostile()
    await bench.pin()
    declared = Reply("yes", declared={ECHO: {"nature": "reads", "all": True}})
    await bench.play(calls((ECHO, {"text": "a"})), says("x"), replies=[declared])
    kept = Declarations(bench.home / "declarations.json").list()
    assert {"mcp:bad/bad.echo", "mcp:bad/bad.look", "mcp:bad/bad.no"} <= set(kept)
    assert {one.nature for one in kept.values()} == {"reads"}
    assert kept["mcp:bad/bad.look"].values == ()
    events, _ = await bench.play(calls(("bad.look", {"text": "a"})), calls(("bad.owns_up", {})), says("x"))
    assert [body.tool for body in bodies(events, ToolStarted)] == ["bad.look"]  # what a server owns to still counts
