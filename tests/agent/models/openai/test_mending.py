"""Answers that are spelled badly, where only one thing can be meant: a call sent twice, odd names, odd streams."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.agent.models.openai.retries import Retries
from foregate.schemas.errors import ModelError
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, Stream, delta, piece
from tests.agent.models.openai.test_assembler import TOOLS
from tests.agent.models.openai.test_model import HELLO, model_at


@pytest.mark.parametrize(
    ("events", "raws"),
    [
        pytest.param([piece(0, "{}", id="c", name="write")] * 2, ["{}"], id="a chunk twice"),
        pytest.param(
            [piece(0, '{"a":', id="c", name="write"), piece(0, "1}"), piece(0, '{"a":1}', id="c", name="write")],
            ['{"a":1}'],
            id="pieces and the whole call again",
        ),
        pytest.param(
            [piece(0, '{"a":', id="c", name="write"), piece(0, "1}"), piece(0, '{"a":1}')],
            ['{"a":1}'],
            id="pieces and all arguments again",
        ),
        pytest.param(
            [piece(0, "{}", id="c", name="write"), piece(0, '{"a":'), piece(0, "1}")],
            ['{"a":1}'],
            id="an empty object first",
        ),
        pytest.param(
            [piece(0, '{"a":1}', id="c", name="write"), piece(0, "{}")], ['{"a":1}'], id="an empty object last"
        ),
        pytest.param(
            [piece(0, '{"a":1}', id="c", name="write"), piece(1, '{"a":2}', id="c", name="write")],
            ['{"a":1}', '{"a":2}'],
            id="one id, two calls",
        ),
        pytest.param(
            [piece(0, '{"a":1}', id="c", name="write"), piece(1, '{"a":1}', id="d", name="write")],
            ['{"a":1}', '{"a":1}'],
            id="two ids, two calls",
        ),
        pytest.param(
            [
                piece(0, '{"a":1}', id="c", name="write"),
                delta(function_call={"name": "write", "arguments": '{"a":1}'}),
            ],
            ['{"a":1}'],
            id="the older form beside the newer",
        ),
        pytest.param([piece(0, '"{\\"a\\":1}"', id="c", name="write")], ['{"a":1}'], id="encoded twice"),
        pytest.param([piece(0, '```json\n{"a":1}\n```', id="c", name="write")], ['{"a":1}'], id="in a fence"),
        pytest.param([piece(0, "null", id="c", name="write")], ["{}"], id="null"),
        pytest.param([piece(0, '{"a":1}{"a":2}', id="c", name="write")], ['{"a":1}{"a":2}'], id="nothing is certain"),
        pytest.param([piece(0, '{"a":1} so', id="c", name="write")], ['{"a":1} so'], id="words behind"),
    ],
)
async def test_a_call_that_is_sent_again_or_spelled_badly_is_the_one_call_it_can_only_be(
    events: list[Any], raws: list[str]
) -> None:
    async with ScriptedServer(Stream([*events, delta("tool_calls")])) as server:
        response = await model_at(server, stream=True).respond(TOOLS)
    assert [call.raw for call in response.calls] == raws
    assert all(call.sent is None or call.sent.arguments != call.raw for call in response.calls)


@pytest.mark.parametrize(
    "name",
    [
        "functions.write",
        "functions.write:0",
        "default_api:write",
        " write ",
        "wri te",
        "write<|channel|>commentary",
        "<|channel|>commentary to=functions.write",
        "analysis to=write <|message|>",
        "tools.write",
    ],
)
async def test_a_tool_is_known_under_the_names_that_providers_give_it_and_the_log_keeps_what_was_sent(
    name: str,
) -> None:
    async with ScriptedServer(Stream([piece(0, "{}", id="c", name=name), delta("tool_calls")])) as server:
        (call,) = (await model_at(server, stream=True).respond(TOOLS)).calls
    assert (call.name, call.sent and call.sent.name) == ("write", name)


@pytest.mark.parametrize("name", ["functions.erase", "wri fe", "to=erase", "write.py", "", "<|channel|>"])
async def test_a_name_that_means_no_tool_for_certain_stays_what_it_is(name: str) -> None:
    async with ScriptedServer(Stream([piece(0, "{}", id="c", name=name), delta("tool_calls")])) as server:
        (call,) = (await model_at(server, stream=True).respond(TOOLS)).calls
    assert call.name in (name, "unnamed")
    assert call.sent is None


HI = 'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
AROUND = {
    "a byte order mark": f"\ufeff{HI}",
    "empty events": f"data: \n\ndata:\r\n\r\n{HI}data: \n\n",
    "comments": f": ping\n\n{HI}",
    "an empty reason": HI.replace("stop", "") + "data: [DONE]\n\n",
}


@pytest.mark.parametrize("body", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_a_stream_is_read_whatever_stands_around_its_events(body: str, kind: str) -> None:
    async with ScriptedServer(Reply(body.encode(), content_type=kind)) as server:
        response = await model_at(server, stream=True).respond(HELLO)
    assert response.text == "hi"


async def test_a_choice_that_ends_in_an_error_is_tried_again_and_says_the_endpoint_s_words() -> None:
    broken = delta("error", content="It sa")
    broken["choices"][0]["error"] = {"code": 502, "message": "upstream is gone"}
    async with ScriptedServer(Stream([broken])) as server:
        with pytest.raises(ModelError, match="upstream is gone"):
            await model_at(server, stream=True, retries=Retries(attempts=1)).respond(HELLO)
