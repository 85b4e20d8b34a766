"""An answer that the endpoint cut off says so, and never counts as completed."""

from __future__ import annotations

import pytest

from foregate.agent.loop.runner import run
from foregate.schemas.event_body import CallAnswered
from tests.agent.models.openai.scripted_server import ScriptedServer, Stream, delta, message
from tests.agent.models.openai.test_model import model_at
from tests.agent.world import World

CALL = {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.txt"}'}}


@pytest.mark.parametrize(
    ("finish", "said"),
    [
        ("length", "bound on its length"),
        ("max_tokens", "bound on its length"),
        ("MAX_TOKENS", "bound on its length"),
        ("content_filter", "a filter of the endpoint"),
        ("SAFETY", "a filter of the endpoint"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
async def test_a_cut_answer_is_blocked_with_its_words_and_a_remark(finish: str, said: str, streams: bool) -> None:
    reply = Stream([delta(content="It says hel"), delta(finish)]) if streams else message("It says hel", finish=finish)
    async with ScriptedServer(reply) as server:
        outcome = await run(await World().open(model_at(server, stream=streams)), "say what is in a.txt")
    assert outcome.status == "blocked"
    assert outcome.model_text == "It says hel"
    assert said in outcome.remark
    assert said in outcome.report.blocker


@pytest.mark.parametrize("finish", ["stop", "end_turn", "STOP", "eos", None, "zap"])
async def test_an_answer_that_is_whole_or_of_which_nothing_is_known_is_completed(finish: str | None) -> None:
    async with ScriptedServer(message("It says hello", finish=finish)) as server:
        outcome = await run(await World().open(model_at(server, stream=False)), "say what is in a.txt")
    assert (outcome.status, outcome.remark) == ("completed", "")


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_calls_of_a_cut_response_never_run(finish: str) -> None:
    async with ScriptedServer(message("", finish=finish, tool_calls=[CALL]), message("ok")) as server:
        world = World()
        await run(await world.open(model_at(server)), "say what is in a.txt")
    (answer,) = await world.bodies(CallAnswered)
    assert answer.code == "not_run_truncated"


async def test_an_answer_without_a_word_names_what_cut_it() -> None:
    async with ScriptedServer(*[message("", finish="length")] * 2) as server:
        outcome = await run(await World().open(model_at(server)), "say what is in a.txt")
    assert outcome.status == "failed"
    assert "bound on its length" in outcome.report.blocker


async def test_an_answer_that_its_server_gave_up_is_asked_for_again() -> None:
    given_up = message("It says", finish="insufficient_system_resource")
    async with ScriptedServer(given_up, message("It says hello")) as server:
        outcome = await run(await World().open(model_at(server)), "say what is in a.txt")
    assert (outcome.status, outcome.text) == ("completed", "It says hello")


async def test_the_person_may_say_go_on_after_a_cut_answer() -> None:
    async with ScriptedServer(message("It says hel", finish="length"), message("lo")) as server:
        session = await World().open(model_at(server))
        await run(session, "say what is in a.txt")
        outcome = await run(session, "go on")
    assert (outcome.status, outcome.text) == ("completed", "lo")
    assert [one["content"] for one in server.requests[1]["messages"][-2:]] == ["It says hel", "go on"]
