"""Arguments no strict reader takes, through the loop: one clear sentence for the model, no effect, a sound log."""

from __future__ import annotations

import json

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import says
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.world import World
from tests.policies import policy_with

RAW = {
    "a key that appears twice": ('{"path": "a.txt", "path": "b.txt"}', "appears twice"),
    "a key that appears twice deep inside": ('{"path": "a.txt", "x": [{"y": 1, "y": 2}]}', "appears twice"),
    "NaN": ('{"path": NaN}', "not a JSON number"),
    "minus infinity": ('{"path": -Infinity}', "not a JSON number"),
    "a number beyond every double": ('{"path": 1e999}', "too large"),
    "depth": ('{"path": ' + "[" * 33 + "]" * 33 + "}", "deeper than 32"),
    "depth beyond any stack": ('{"path": ' + "[" * 200_000, "deeper than"),
    "size": ('{"path": "' + "x" * 9_000_000 + '"}', "larger than"),
    "half a character": ('{"path": "\\ud800"}', "lone surrogate"),
    "half a character in a key": ('{"\\udfff": 1, "path": "a.txt"}', "lone surrogate"),
    "an integer past 4,300 digits": ('{"path": ' + "9" * 4301 + "}", "4300 digits"),
    "two values": ('{"path": "a.txt"} {"path": "b.txt"}', "not valid JSON"),
    "no object": ('"a.txt"', "not a JSON object"),
    "nothing": ("", "not valid JSON"),
}


@pytest.mark.parametrize("name", RAW)
async def test_the_call_is_held_with_one_sentence_and_a_good_one_beside_it_runs(name: str) -> None:
    raw, words = RAW[name]
    told: list[str] = []

    def heard(request: ModelRequest) -> ModelResponse:
        told.extend(message.text for message in request.messages if message.role == "tool")
        return says("ok")

    world = World()
    both = (ToolCall.parse("read_file", raw), ToolCall.of("read_file", {"path": "b.txt"}))
    session = await world.open([ModelResponse("", both, finish_reason="tool_calls"), heard])
    assert (await run(session, "read them")).status == "completed"
    good, bad = sorted((json.loads(text) for text in told), key=lambda answer: not answer["ok"])
    assert good["output"] == "teh dog"
    assert bad["foregate"]["code"] == "invalid_arguments"
    assert words in bad["foregate"]["message"]
    assert "\n" not in bad["foregate"]["message"]
    assert len(bad["foregate"]["message"]) < 500
    assert len(world.effects) == 1
    await session.close()
    assert verify_rows(world.log.lines("s"), "s").proven


async def test_what_is_just_within_the_bounds_is_read() -> None:
    world = World(policy=policy_with({"validity.max_depth": 4}))
    fits = ToolCall.parse("send", '{"to": "b", "text": "\\ud83d\\ude00", "to2": [[[1]]]}')
    deep = ToolCall.parse("send", '{"to": "b", "to2": [[[[1]]]]}')
    session = await world.open([ModelResponse("", (fits, deep), finish_reason="tool_calls"), says("ok")])
    await run(session, "send it")
    answers = [json.loads(message.text)["foregate"] for message in session.state.messages if message.role == "tool"]
    assert ["deeper than 4" in answer["message"] for answer in answers] == [False, True]
