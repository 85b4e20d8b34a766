"""A robot that only performs each ruling's remedy and repeats its call gets through every gate that has one."""

from __future__ import annotations

import json
from typing import Any

from foregate.agent.loop.runner import run
from foregate.schemas.event import TurnJudged
from foregate.schemas.judgement import Standing
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall
from tests.agent.world import World
from tests.policies import policy_with


class Robot:
    """Sends one call until it ran; on a hold it sends the remedy (unless shown already), then the call again."""

    name = "robot"

    def __init__(self, call: ToolCall) -> None:
        self.call, self.asked, self.pending = call, 0, [call]

    async def respond(self, request: ModelRequest, on_text: Any = None) -> ModelResponse:
        """Return the next call, or words once the call ran."""
        self.asked += 1
        last = request.messages[-1]
        if last.role == "tool" and not self.pending:
            answer = json.loads(last.text)
            if answer["ok"]:
                return ModelResponse("done")
            remedy = answer["foregate"].get("remedy")
            assert remedy, answer
            if "observed" not in answer:
                self.pending.append(ToolCall.of(remedy["tool"], remedy["arguments"]))
            self.pending.append(self.call)
        return ModelResponse("", (self.pending.pop(0),), finish_reason="tool_calls")


async def fired(world: World) -> int:
    """Return in how many turns of the model a gate fired."""
    return sum(
        any(verdict.standing is not Standing.ALLOW for verdict in body.judgement.verdicts)
        for body in await world.bodies(TurnJudged)
        if body.turn.actor == "model"
    )


async def test_the_robot_edits_an_unread_file_in_as_many_extra_turns_as_gates_fired() -> None:
    world = World()
    robot = Robot(ToolCall.of("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}))
    session = await world.open(robot)
    assert (await run(session, "fix the typo in a.txt")).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"
    assert robot.asked - 2 <= await fired(world)


async def test_the_robot_gets_past_a_file_that_changes_under_it() -> None:
    world = World()
    robot = Robot(ToolCall.of("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}))
    changes = [b"teh dog", b"teh cow"]

    def meanwhile(event: Any) -> None:
        if event.kind == "call_answered" and changes:
            world.workspace.files["a.txt"] = changes.pop()

    session = await world.open(robot, policy=policy_with({"limits.repeated_holds": 0}), listeners=[meanwhile])
    assert (await run(session, "fix the typo in a.txt")).status == "completed"
    assert world.workspace.files["a.txt"] == b"the dog"
    assert robot.asked - 2 <= await fired(world)
