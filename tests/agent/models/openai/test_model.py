"""The adapter over real HTTP: whole answers, and what is asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from foregate.agent.models.openai.model import OpenAIModel
from foregate.schemas.errors import ModelError
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.tool_spec import ToolSpec
from tests.agent.models.openai.scripted_server import KEY, Reply, ScriptedServer, Stream, failure, message

HELLO = ModelRequest([Message("system", "be brief"), Message("user", "hello")])
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
STRICT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def tool(name: str = "f", description: str = "does f") -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": {}})


def model_at(server: ScriptedServer, sleeps: list[float] | None = None, **more: Any) -> OpenAIModel:
    """The adapter for a server, with waits that are recorded and take no time."""

    async def sleep(seconds: float) -> None:
        if sleeps is not None:
            sleeps.append(seconds)

    settings: dict[str, Any] = {"base_url": server.url, "api_key": KEY, "sleep": sleep, **more}
    return OpenAIModel(settings.pop("model", "m"), **settings)


async def test_a_plain_answer_brings_text_usage_cost_and_model() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    async with ScriptedServer(message("hi", usage=usage)) as server:
        response = await model_at(server, input_price=2_000_000, output_price=100_000).respond(HELLO)
    assert (response.text, response.finish_reason, response.model) == ("hi", "stop", "served-model")
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.cost) == (7, 3, 15)
    assert response.notes == ()
    assert server.requests[0] == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
    }


async def test_calls_keep_the_endpoints_id_and_are_parsed() -> None:
    async with ScriptedServer(message(None, finish="tool_calls", tool_calls=[CALL])) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]))
    assert [(call.name, call.arguments, call.wire_id) for call in response.calls] == [("f", {"a": 1}, "call_1")]
    assert (response.text, response.finish_reason) == ("", "tool_calls")
    assert server.requests[0]["tool_choice"] == "auto"


async def test_two_calls_with_one_id_both_survive_and_go_back_under_ids_of_their_own() -> None:
    other = {**CALL, "function": {**CALL["function"], "arguments": '{"b":2}'}}
    async with ScriptedServer(message(None, finish="tool_calls", tool_calls=[CALL, other]), message("ok")) as server:
        model, request = model_at(server), ModelRequest(HELLO.messages, [tool()])
        response = (await model.respond(request)).stamp_calls(4)
        answers = [Message("tool", "{}", call=call.id) for call in response.calls]
        await model.respond(
            ModelRequest(
                [*HELLO.messages, Message("assistant", "", response.calls, wire=response.wire), *answers], [tool()]
            )
        )
    sent = server.requests[1]["messages"]
    first, second = (call["id"] for call in sent[2]["tool_calls"])
    assert first == CALL["id"] != second
    assert [answer["tool_call_id"] for answer in sent[3:]] == [first, second]


@pytest.mark.parametrize("arguments", ["", "  ", None])
async def test_no_arguments_mean_an_empty_object(arguments: str | None) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    async with ScriptedServer(message("", finish="tool_calls", tool_calls=[call])) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]))
    assert response.calls[0].arguments == {}


async def test_arguments_sent_as_an_object_are_read() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": {"a": [1]}}}
    async with ScriptedServer(message("", finish="stop", tool_calls=[call])) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]))
    assert response.calls[0].arguments == {"a": [1]}
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("name", [7, "", None, ["f"]])
async def test_a_call_whose_name_is_no_name_says_so(name: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    async with ScriptedServer(message("", finish="tool_calls", tool_calls=[call])) as server:
        (found,) = (await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]))).calls
    assert (found.name, found.defect) == ("unnamed", "this call names no tool; send it with a name")


async def test_the_legacy_function_call_is_a_call() -> None:
    reply = message(None, finish="function_call", function_call={"name": "f", "arguments": '{"a":2}'})
    async with ScriptedServer(reply) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]))
    assert (response.calls[0].arguments, response.finish_reason) == ({"a": 2}, "tool_calls")


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("zap", "other"),
        (None, "other"),
    ],
)
async def test_finish_reasons_are_ours_and_an_unknown_one_is_noted(said: str | None, finish: str) -> None:
    async with ScriptedServer(message("hi", finish=said, usage={"prompt_tokens": 1})) as server:
        response = await model_at(server).respond(HELLO)
    assert response.finish_reason == finish
    assert bool(response.notes) == (finish == "other")


async def test_a_cut_response_with_calls_is_cut() -> None:
    async with ScriptedServer(message("", finish="length", tool_calls=[CALL])) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]))
    assert (response.finish_reason, len(response.calls)) == ("length", 1)


async def test_empty_content_a_refusal_and_reasoning_each_have_their_place() -> None:
    async with ScriptedServer(
        message(None),
        message(None, refusal="I will not"),
        message("a", reasoning="why"),
        message("b", reasoning_content="c"),
    ) as server:
        model = model_at(server)
        empty, refused, first, second = [await model.respond(HELLO) for _ in range(4)]
    assert (empty.text, refused.text) == ("", "I will not")
    assert "the model refused the request" in refused.notes
    assert [(r.text, r.reasoning) for r in (first, second)] == [("a", "why"), ("b", "c")]


async def test_an_argument_of_five_megabytes_arrives_whole() -> None:
    big = "ä" * 2_500_000
    call = {"id": "c", "function": {"name": "f", "arguments": json.dumps({"text": big}, ensure_ascii=False)}}
    async with ScriptedServer(message("", finish="tool_calls", tool_calls=[call])) as server:
        response = await model_at(server).respond(ModelRequest(HELLO.messages, [tool()]))
    assert response.calls[0].arguments == {"text": big}


async def test_surrogates_and_invalid_utf8_become_text_that_can_be_stored() -> None:
    raw = b'{"choices":[{"message":{"content":"a\\ud800b\xff"},"finish_reason":"stop"}]}'
    async with ScriptedServer(Reply(raw), message("ok")) as server:
        model = model_at(server)
        response = await model.respond(HELLO)
        await model.respond(ModelRequest([Message("user", "\ud83d\ude00 \udc00")]))
    assert response.text == "a\ufffdb\ufffd"
    assert server.requests[1]["messages"][0]["content"] == "\U0001f600 \ufffd"


async def test_a_strict_schema_is_asked_for_as_such() -> None:
    request = ModelRequest(HELLO.messages, schema_name="pre_plan.v1", schema=STRICT, purpose="plan")
    async with ScriptedServer(message('{"a":1}', usage={})) as server:
        response = await model_at(server).respond(request)
    form = server.requests[0]["response_format"]
    assert form == {"type": "json_schema", "json_schema": {"name": "pre_plan_v1", "strict": True, "schema": STRICT}}
    assert (response.text, response.notes) == ('{"a":1}', ())


async def test_an_endpoint_without_strict_schemas_gets_json_mode_and_is_asked_only_once() -> None:
    request = ModelRequest(HELLO.messages, schema_name="plan", schema=STRICT)
    async with ScriptedServer(message("{}"), message("{}"), refuses=["json_schema"]) as server:
        model = model_at(server)
        notes = [(await model.respond(request)).notes for _ in range(2)]
    assert [body["response_format"]["type"] for body in server.requests] == [
        "json_schema",
        "json_object",
        "json_object",
    ]
    assert '"additionalProperties": false' in server.requests[1]["messages"][0]["content"]
    assert all("the endpoint refuses strict JSON Schemas" in note[0] for note in notes)


async def test_an_endpoint_without_any_format_gets_the_schema_in_words() -> None:
    request = ModelRequest([Message("user", "plan")], schema_name="plan", schema=STRICT)
    async with ScriptedServer(message("{}", usage={}), refuses=["response_format"]) as server:
        response = await model_at(server).respond(request)
    assert "response_format" not in server.requests[2]
    assert server.requests[2]["messages"][0]["role"] == "system"
    assert len(response.notes) == 2


async def test_a_schema_that_is_not_strict_enough_is_refused_and_noted() -> None:
    request = ModelRequest(HELLO.messages, schema_name="plan", schema={"type": "object", "properties": {"a": {}}})
    async with ScriptedServer(message("{}", usage={})) as server:
        assert len((await model_at(server).respond(request)).notes) == 1


async def test_what_was_declined_is_forgotten_when_the_simpler_request_fails_too() -> None:
    request = ModelRequest(HELLO.messages, schema_name="plan", schema=STRICT)
    wrong = failure(400, "response_format is wrong")
    async with ScriptedServer(wrong, wrong, failure(400, "it is something else"), message("{}")) as server:
        model = model_at(server)
        with pytest.raises(ModelError, match="something else"):
            await model.respond(request)
        await model.respond(request)
    assert server.requests[3]["response_format"]["type"] == "json_schema"


LIMITED = ModelRequest(HELLO.messages, temperature=0.3, max_tokens=400)


async def test_temperature_and_the_bound_on_tokens_are_sent_only_where_they_are_asked_for() -> None:
    async with ScriptedServer(message("hi", usage={}), message("hi", usage={})) as server:
        model = model_at(server)
        assert (await model.respond(LIMITED)).notes == ()
        await model.respond(HELLO)
    assert {key: server.requests[0][key] for key in ("temperature", "max_tokens")} == {
        "temperature": 0.3,
        "max_tokens": 400,
    }
    assert server.requests[1].keys() == {"model", "messages"}


async def test_a_reasoning_model_is_asked_as_it_wants_to_be_and_only_once_otherwise() -> None:
    async with ScriptedServer(message("hi", usage={}), message("hi", usage={}), reasoning=True) as server:
        model = model_at(server)
        notes = [(await model.respond(LIMITED)).notes for _ in range(2)]
    sent = [{key: value for key, value in body.items() if key not in ("model", "messages")} for body in server.requests]
    assert sent == [
        {"temperature": 0.3, "max_tokens": 400},
        {"temperature": 0.3, "max_completion_tokens": 400},
        {"max_completion_tokens": 400},
        {"max_completion_tokens": 400},
    ]
    assert all(len(note) == 2 and "temperature" in note[0] and "`max_completion_tokens`" in note[1] for note in notes)


async def test_an_endpoint_that_knows_no_bound_on_tokens_is_asked_without_one() -> None:
    refused = ["max_tokens", "max_completion_tokens", "temperature"]
    async with ScriptedServer(message("hi", usage={}), refuses=refused) as server:
        response = await model_at(server).respond(LIMITED)
    assert server.requests[-1].keys() == {"model", "messages"}
    assert len(response.notes) == 3


async def test_a_refusal_that_speaks_of_neither_is_final() -> None:
    async with ScriptedServer(failure(400, "the messages are odd")) as server:
        with pytest.raises(ModelError, match="the messages are odd"):
            await model_at(server).respond(LIMITED)


async def test_words_only_forbids_calls_on_the_wire() -> None:
    async with ScriptedServer(message("hi"), message("hi")) as server:
        await model_at(server).respond(ModelRequest(HELLO.messages, [tool()], words_only=True))
        await model_at(server).respond(ModelRequest(HELLO.messages, words_only=True))
    assert server.requests[0]["tool_choice"] == "none"
    assert "tools" not in server.requests[1]


async def test_long_descriptions_are_cut_only_for_an_endpoint_that_refuses_them() -> None:
    request = ModelRequest(HELLO.messages, [tool(description="x" * 3000)])
    refused = failure(400, "Invalid 'tools[0].function.description': string too long.")
    async with ScriptedServer(refused, message("hi", usage={})) as server:
        notes = (await model_at(server).respond(request)).notes
    lengths = [len(body["tools"][0]["function"]["description"]) for body in server.requests]
    assert (lengths, len(notes)) == ([3000, 1024], 1)


async def test_the_only_model_of_an_endpoint_is_taken_and_otherwise_they_are_listed() -> None:
    async with ScriptedServer(message("hi"), models=["m"]) as server:
        await (model := model_at(server, model="")).respond(HELLO)
        assert model.name == "m"
    many = [f"model-{number}" for number in range(12)]
    async with ScriptedServer(models=many) as server:
        with pytest.raises(ModelError, match=r"set FOREGATE_MODEL to one that .*: model-0, .*, model-9 and 2 more"):
            await model_at(server, model="").resolve()
    async with ScriptedServer(models=[]) as server:
        with pytest.raises(ModelError, match="lists no models"):
            await model_at(server, model="").resolve()


@pytest.mark.parametrize(
    ("listing", "sentence"),
    [
        (Reply([], 404), "has no list of models"),
        (Reply(["x"]), "lists no models"),
        (Reply({"data": [3, {"id": 4}, {"id": "a\x1b"}]}), "lists no models"),
        (Reply(b"<html>"), "not valid JSON"),
    ],
)
async def test_an_endpoint_without_a_sound_list_of_models_is_said_to_be_one(listing: Reply, sentence: str) -> None:
    async with ScriptedServer(listing=listing) as server:
        with pytest.raises(ModelError, match=sentence):
            await model_at(server, model="").resolve()


async def test_cancelling_a_plain_request_hangs_up_at_once() -> None:
    async with ScriptedServer(Stream([], "hang")) as server:
        task = asyncio.create_task(model_at(server).respond(HELLO))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()


def test_one_model_serves_one_event_loop_after_another() -> None:
    model: list[OpenAIModel] = []

    async def once() -> str:
        async with ScriptedServer(message("hi")) as server:
            if not model:
                model.append(model_at(server))
                return (await model[0].respond(HELLO)).text
        return ""

    async def again() -> None:
        with pytest.raises(ModelError, match="cannot be reached"):
            await model[0].respond(HELLO)

    assert asyncio.run(once()) == "hi"
    asyncio.run(again())
