"""A model that is stuck is told more, and where that does not help its task ends early and says on what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.schemas.event_body import TaskEnded, TaskPaused
from foregate.schemas.judgement import Need
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, ToolSpec
from tests.agent.session.test_state_from_log import assert_folded
from tests.agent.world import World
from tests.policies import policy_with

READ, READ_B = ("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})
BAD = ("edit_file", {"path": "a.txt", "old": 3})
TALK = "I will now do what you asked me for."


@pytest.mark.parametrize("person", [None, ()])
async def test_a_model_that_sends_one_malformed_call_twice_is_shown_one_that_fits_and_goes_on(person: Any) -> None:
    world = World()
    session = await world.open([calls(BAD), calls(BAD), calls(READ), says("It is a cat.")], person)
    assert (await run(session, "What is in a.txt?")).status == "completed"
    first, second = (
        json.loads(m.text)["foregate"]["message"]
        for m in session.state.messages
        if m.role == "tool" and "invalid_arguments" in m.text
    )
    assert first != second
    assert '{"old":"<old>","path":"a.txt"}' in second
    assert all(word in second for word in ("3 is not of type 'string'", "`path` (string, needed)"))


async def test_a_malformed_call_sent_for_ever_blocks_the_task() -> None:
    session = await World().open([calls(BAD)] * 4)
    outcome = await run(session, "Edit a.txt.")
    assert (outcome.status, "`edit_file`" in outcome.report.blocker) == ("blocked", True)


async def test_a_call_that_is_sent_again_and_again_though_it_was_not_run_blocks_the_task() -> None:
    world = World(policy=policy_with({"limits.identical_observations": 2}))
    session = await world.open([calls(READ)] * 5, [])
    outcome = await run(session, "What is in a.txt?")
    assert outcome.status == "blocked"
    assert "`read_file a.txt` in 3 turns" in outcome.report.blocker
    assert [body.status for body in await world.bodies(TaskEnded)] == ["blocked"]
    await assert_folded(world, session)


async def test_something_new_in_between_lets_a_stuck_model_recover() -> None:
    world = World(policy=policy_with({"limits.identical_observations": 2}))
    steps = [calls(READ)] * 4 + [calls(READ_B)] + [calls(READ)] * 2 + [says("A cat and a dog.")]
    session = await world.open(steps)
    assert (await run(session, "What is in a.txt?")).status == "completed"


async def test_the_same_call_often_in_one_response_is_one_turn() -> None:
    world = World(policy=policy_with({"limits.identical_observations": 1}))
    session = await world.open([calls(*[READ] * 6), says("A cat.")])
    assert (await run(session, "What is in a.txt?")).status == "completed"


async def test_the_question_about_a_call_held_again_shows_its_target_and_its_arguments() -> None:
    world = World(policy=policy_with({"narration.scope": "first_response", "narration.max_holds": 0}))
    asked: list[Need] = []

    def stop(need: Need) -> Any:
        asked.append(need)

    session = await world.open([calls(READ), calls(READ)], [stop])
    assert (await run(session, "What is in a.txt?")).status == "awaiting_approval"
    (call,) = asked[0].request["calls"]  # type: ignore[misc]
    assert (call["tool"], call["target"], call["arguments"]) == ("read_file", "a.txt", '{"path":"a.txt"}')  # type: ignore[index,call-overload]
    assert "`read_file a.txt` was held 2 times" in str(asked[0].request["question"])
    assert await world.bodies(TaskPaused)


async def test_anyway_is_good_for_the_call_that_was_shown_and_for_no_other() -> None:
    world = World(policy=policy_with({"narration.scope": "first_response", "narration.max_holds": 0}))
    session = await world.open([calls(READ), calls(READ, READ_B), says("A cat.")], ["anyway"])
    await run(session, "What is in a.txt and b.txt?")
    assert [json.loads(m.text)["ok"] for m in session.state.messages if m.role == "tool"] == [False, True, False]


async def test_a_text_where_a_list_is_wanted_is_shown_as_a_list_and_a_look_is_made_with_it() -> None:
    world = World()

    async def find(arguments: Any) -> ToolResult:
        return ToolResult(True, f"found {arguments['names']}")

    schema = {
        "type": "object",
        "properties": {"names": {"type": "array", "items": {"type": "string"}}},
        "required": ["names"],
    }
    finder = Tool(ToolSpec("find", "Find.", schema, Effect.OBSERVATION, OBSERVER), find)
    session = await world.open([calls(("find", {"names": "ben"})), says("Found.")])
    session.tools = Toolbox([*world.tools(), finder])
    await session.update_catalogue()
    assert (await run(session, "Find ben.")).status == "completed"
    (told,) = (json.loads(message.text) for message in session.state.messages if message.role == "tool")
    assert told["foregate"]["remedy"] == {"tool": "find", "arguments": {"names": ["ben"]}}
    assert told["observed"]["output"] == "found ['ben']"
