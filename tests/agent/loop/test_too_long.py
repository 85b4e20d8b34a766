"""A conversation that is longer than the endpoint takes is shortened to what fits, and the task goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foregate.agent.loop.asking import compute_room
from foregate.agent.loop.runner import run
from foregate.agent.session.result import RunResult
from foregate.evidence.state.conversation import ESTIMATE
from foregate.schemas.errors import ContextTooLong
from foregate.schemas.event_body import ContextCompressed
from foregate.schemas.message import Message, ModelRequest
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, failure, message
from tests.agent.models.openai.test_model import model_at
from tests.agent.world import World
from tests.policies import policy_with

FILES = {f"{number}.txt": f"{number} ".encode() * 3000 for number in range(6)}


def read(path: str) -> Reply:
    function = {"name": "read_file", "arguments": f'{{"path": "{path}"}}'}
    return message(
        None, finish="tool_calls", tool_calls=[{"id": f"call_{path[0]}", "type": "function", "function": function}]
    )


def say(words: str) -> Callable[[int, int], Reply]:
    return lambda limit, asked: failure(400, words.format(limit=limit, asked=asked))


WORDINGS = [
    None,
    say("prompt is too long: {asked} tokens > {limit} maximum"),
    say("Input is too long for requested model."),
    say("Range of input length should be [1, {limit}]"),
    lambda limit, asked: Reply(
        [
            {
                "error": {
                    "code": 400,
                    "message": f"The input token count ({asked}) exceeds the "
                    f"maximum number of tokens allowed ({limit}).",
                }
            }
        ],
        400,
    ),
    lambda limit, asked: Reply(b"<html>Request Entity Too Large</html>", 413, content_type="text/html"),
]


async def play(server: ScriptedServer, changes: dict[str, Any] | None = None) -> tuple[World, RunResult]:
    world = World(files=dict(FILES), policy=policy_with(changes))
    session = await world.open(model_at(server))
    return world, await run(session, "read all six files and say what is in them")


@pytest.mark.parametrize("too_long", WORDINGS)
async def test_a_refused_conversation_is_shortened_and_asked_again(too_long: Any) -> None:
    script = [*(read(path) for path in FILES), message("numbers")]
    async with ScriptedServer(*script, window=9_000, too_long=too_long) as server:
        world, outcome = await play(server)
    assert outcome.status == "completed"
    done = await world.bodies(ContextCompressed)
    assert done
    assert all(body.after <= body.limit < body.before for body in done)
    assert len(server.requests) <= len(script) + 2 * len(done)


async def test_a_refusal_with_numbers_is_met_at_once_and_the_next_turn_is_shortened_in_time() -> None:
    script = [*(read(path) for path in FILES), message("numbers")]
    async with ScriptedServer(*script, window=9_000) as server:
        await play(server)
    assert len(server.requests) == len(script) + 1


async def test_what_can_not_be_shortened_ends_in_one_sentence_with_the_endpoints_words() -> None:
    async with ScriptedServer(window=100) as server:
        _, outcome = await play(server)
    assert outcome.status == "failed"
    assert "the request exceeds the available context size" in outcome.report.blocker
    assert len(server.requests) <= 2


async def test_a_policy_that_leaves_nothing_out_is_kept_to() -> None:
    script = [read(path) for path in list(FILES)[:4]]
    async with ScriptedServer(*script, window=9_000) as server:
        world, outcome = await play(server, {"context.strategy": "none"})
    assert outcome.status == "failed"
    assert not await world.bodies(ContextCompressed)


@pytest.mark.parametrize(
    ("limit", "asked", "room"),
    [
        (0, 0, 502),
        (1000, 2000, 440),
        (500, 2000, 220),
        (600, 0, 525),
        (10, 10_000_000, 0),
        (2**50, 1, 1003),
    ],
)
def test_room_is_what_the_refusal_says_in_our_own_measure(limit: int, asked: int, room: int) -> None:
    request = ModelRequest([Message("user", "x" * 4000)])
    assert compute_room(ContextTooLong("long", limit, asked), request, ESTIMATE) == room
