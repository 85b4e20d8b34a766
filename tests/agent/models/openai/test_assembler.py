"""The adapter over real HTTP, streaming: pieces put together, whatever order and size they come in."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.models.openai.assembler import Assembler, Emitter, Prices
from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.refusals import InBand
from foregate.agent.models.openai.retries import Retries, Transient
from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError
from foregate.schemas.event import ModelResponded
from foregate.schemas.message import ModelRequest, WireNames
from foregate.schemas.model_response import Follower, ModelResponse
from foregate.schemas.tool_call import ToolCall
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, Stream, delta, failure, message, piece
from tests.agent.models.openai.test_model import HELLO, model_at, tool

TOOLS = ModelRequest(HELLO.messages, [tool("read"), tool("write")])
USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


def assembled(*chunks: Any, names: tuple[str, ...] = ("read", "write")) -> ModelResponse:
    """The response chunks make, without a server."""
    assembler = Assembler(WireNames(names), Emitter(None), Endpoint.of("http://h/v1", "k"), 10_000)
    for chunk in chunks:
        assembler.add(chunk)
    return assembler.build_response("m", Prices(), ())


async def test_text_is_handed_on_as_it_arrives_and_usage_is_asked_for() -> None:
    heard: list[str] = []
    async with ScriptedServer(Stream([delta(content="he"), delta(content="llo"), delta("stop"), USAGE])) as server:
        response = await model_at(server).respond(HELLO, heard.append)
    assert heard == ["he", "llo"]
    assert (response.text, response.usage.input_tokens, response.notes) == ("hello", 5, ())
    assert server.requests[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>It is 2 and 2.</think>\n\nIt is 4.", ["It is 4."]),
        ("[THINK]It is 2 and 2.[/THINK]It is 4.", ["It is 4."]),
        ("It is 2 and 2.\n</think>\n\nIt is 4.", ["It is 2 and 2.\n", "restart", "It is 4."]),
    ],
)
async def test_a_thought_in_the_words_is_never_shown_as_the_answer(text: str, shown: list[str]) -> None:
    class Listener(Follower):
        """Keeps what it is told."""

        def restart(self, why: str) -> None:
            """All is void."""
            heard.append("restart")

    heard: list[str] = []
    pieces = [delta(content=text[at : at + 3]) for at in range(0, len(text), 3)]
    async with ScriptedServer(Stream([*pieces, delta("stop")])) as server:
        response = await model_at(server).respond(HELLO, Listener(heard.append))
    assert (response.text, response.reasoning.strip()) == ("It is 4.", "It is 2 and 2.")
    parts, _, rest = "".join(heard).partition("restart")
    assert [part for part in (parts, "restart" if rest else "", rest) if part] == shown


async def test_an_endpoint_that_does_not_know_stream_options_streams_without_them() -> None:
    script = [Stream([delta("stop", content="hi")])] * 2
    async with ScriptedServer(*script, refuses=["stream_options"]) as server:
        model = model_at(server)
        responses = [await model.respond(HELLO, print) for _ in range(2)]
    assert ["stream_options" in body for body in server.requests] == [True, False, False]
    assert all("the endpoint refuses to report usage in a stream" in response.notes for response in responses)


async def test_pieces_of_one_byte_make_the_call() -> None:
    arguments = json.dumps({"path": "aä.txt", "text": 'say "hi"\n', "deep": [{"b": "}"}]}, ensure_ascii=False)
    pieces = [piece(0, char) for char in arguments]
    events = [piece(0, "", id="c", name="read"), *pieces, delta("tool_calls")]
    async with ScriptedServer(Stream(events)) as server:
        response = await model_at(server, stream=True).respond(TOOLS)
    assert [(call.name, call.raw) for call in response.calls] == [("read", arguments)]


async def test_events_split_at_every_byte_of_the_connection_are_read() -> None:
    whole = b"".join(
        b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n"
        for event in (delta(content="hällo"), piece(0, "{}", id="c", name="read"), delta("tool_calls"))
    )
    async with ScriptedServer(Stream([whole[at : at + 1] for at in range(len(whole))])) as server:
        response = await model_at(server, stream=True).respond(TOOLS)
    assert (response.text, len(response.calls)) == ("hällo", 1)


async def test_two_calls_interleaved_by_index_stay_apart_even_with_one_id() -> None:
    events = [
        piece(0, id="c", name="read"),
        piece(1, id="c", name="write"),
        piece(0, '{"a"'),
        piece(1, '{"b"', id="c"),
        piece(0, ":1}", id="c"),
        piece(1, ":2}"),
        delta("tool_calls"),
    ]
    async with ScriptedServer(Stream(events)) as server:
        response = await model_at(server, stream=True).respond(TOOLS)
    assert [(call.name, call.raw) for call in response.calls] == [("read", '{"a":1}'), ("write", '{"b":2}')]


@pytest.mark.parametrize("index", [0, None, "0"])
@pytest.mark.parametrize("ids", [("a", "b"), ("a", "a"), (None, None), ("", "")])
def test_whole_calls_stay_apart_whatever_index_and_id_they_carry(index: Any, ids: tuple[Any, Any]) -> None:
    chunks = [piece(index, f'{{"n":{n}}}', id=own, name="read") for n, own in enumerate(ids)]
    assert [call.arguments for call in assembled(*chunks, delta("tool_calls")).calls] == [{"n": 0}, {"n": 1}]


def test_a_name_repeated_in_each_piece_is_one_name_and_a_split_name_is_joined() -> None:
    repeated = [piece(0, part, id="c", name="read") for part in ("", '{"a"', ":1}")]
    split = [piece(1, id="d", name=char) for char in "write"]
    calls = assembled(*repeated, *split, delta("tool_calls")).calls
    assert [(call.name, call.raw) for call in calls] == [("read", '{"a":1}'), ("write", "{}")]


def test_reasoning_refusal_and_content_in_parts_have_their_places() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}, 3]
    response = assembled(
        delta(reasoning_content="a"), delta(reasoning="b"), delta(content=parts), delta("stop", refusal="no")
    )
    assert (response.reasoning, response.text) == ("abhm", "sono")


def test_a_surrogate_pair_split_over_pieces_is_one_character() -> None:
    heard: list[str] = []
    assembler = Assembler(WireNames([]), Emitter(heard.append), Endpoint.of("http://h/v1", "k"), 100)
    for char in ("a\ud83d", "\ude00b", "\ud83d"):
        assembler.add(delta(content=char))
    assert assembler.build_response("m", Prices(), ()).text == "a\U0001f600b\ufffd"
    assert heard == ["a", "\U0001f600b", "\ufffd"]


async def test_a_stream_that_breaks_is_asked_again_and_the_reader_is_told_once() -> None:
    heard: list[str] = []
    broken, whole = [delta(content="hel")], [delta(content="hello"), delta("stop")]
    async with ScriptedServer(
        Stream(broken, "cut"), Stream(broken, "open"), Stream([], "cut"), Stream(whole)
    ) as server:
        response = await model_at(server).respond(HELLO, heard.append)
    mark = "\n[the answer was cut off and begins again]\n"
    assert heard == ["hel", mark, "hel", mark, "hello"]
    assert response.text == "hello"


class Told(Follower):
    """Keeps what a response told while it arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def __call__(self, piece: str) -> None:
        self.heard.append(piece)

    def call(self, call: ToolCall) -> None:
        self.heard.append(f"{call.name} {call.raw}")

    def restart(self, why: str) -> None:
        self.heard.append(why)


async def test_a_restart_goes_to_a_follower_beside_the_words() -> None:
    told = Told()
    async with ScriptedServer(Stream([delta(content="hel")]), Stream([delta("stop", content="hello")])) as server:
        await model_at(server).respond(HELLO, told)
    assert told.heard == ["hel", "the answer was cut off and begins again", "hello"]


async def test_a_call_is_handed_on_when_the_next_begins_and_only_if_it_is_whole_by_then() -> None:
    told = Told()
    whole = [piece(0, '{"a":', id="c", name="write"), piece(0, "1}"), piece(1, "{}", id="d", name="write")]
    mixed = [piece(2, '{"a":', id="e", name="write"), piece(3, "{}", id="f", name="write"), piece(2, "2}")]
    late = [piece(4, "{}", id="g", name="write")]
    async with ScriptedServer(Stream([*whole, *mixed, *late, delta("tool_calls")])) as server:
        response = await model_at(server).respond(TOOLS, told)
    assert told.heard == ['write {"a":1}', "write {}"]
    assert [call.raw for call in response.calls] == ['{"a":1}', "{}", '{"a":2}', "{}", "{}"]


async def test_calls_of_a_broken_stream_are_never_returned() -> None:
    events = [piece(0, '{"a":1}', id="c", name="write")]
    async with ScriptedServer(Stream(events, "cut"), Stream(events, "open")) as server:
        with pytest.raises(ModelError, match="cut its answer off"):
            await model_at(server, stream=True, retries=Retries(attempts=2)).respond(TOOLS)


async def test_a_finished_answer_stands_though_the_connection_breaks_afterwards() -> None:
    async with ScriptedServer(Stream([delta("stop", content="hi")], "cut")) as server:
        response = await model_at(server).respond(HELLO, print)
    assert (response.text, response.notes) == ("hi", ("the endpoint reported no usage",))


async def test_a_finished_answer_does_not_wait_for_an_endpoint_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foregate.agent.models.openai.model.AFTER_FINISH", 0.0)
    async with ScriptedServer(Stream([delta("stop", content="hi"), USAGE], "hang")) as server:
        assert (await model_at(server).respond(HELLO, print)).text == "hi"
        await server.gone.wait()


async def test_a_silent_and_an_endless_endpoint_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    once = Retries(attempts=1)
    async with ScriptedServer(Stream([], "hang"), Stream([], "hang")) as server:
        with pytest.raises(ModelError, match="did not answer in time"):
            await model_at(server, timeout=0.05, retries=once).respond(HELLO, print)
        with pytest.raises(ModelError, match=r"did not finish within 0\.05 seconds"):
            await model_at(server, longest=0.05, retries=once).respond(HELLO, print)


@pytest.mark.parametrize(
    "event",
    [
        b"data: {\n\n",
        b"data: \xff\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: "x"\n\n',
        {"error": {"message": "x"}},
    ],
)
async def test_a_chunk_that_is_no_chunk_is_a_failure_that_may_pass(event: Any) -> None:
    async with ScriptedServer(Stream([event]), Stream([delta("stop", content="hi")])) as server:
        assert (await model_at(server).respond(HELLO, print)).text == "hi"


async def test_an_error_inside_a_stream_that_will_not_pass_ends_it() -> None:
    async with ScriptedServer(Stream([delta(content="x"), {"error": {"message": "too long", "code": 400}}])) as server:
        with pytest.raises(ModelError, match=r"refused the request \(400: too long"):
            await model_at(server).respond(HELLO, print)


async def test_an_endpoint_that_answers_a_stream_with_a_whole_answer_is_understood() -> None:
    heard: list[str] = []
    async with ScriptedServer(message("hi"), Reply(b"{"), failure(500), message("hi", finish=None)) as server:
        await model_at(server).respond(HELLO, heard.append)
        await model_at(server).respond(HELLO, heard.append)
    assert heard == ["hi", "hi"]


async def test_five_megabytes_arrive_in_pieces() -> None:
    big = "x" * 5_000_000
    text = json.dumps({"text": big})
    parts = [piece(0, text[at : at + 50_000]) for at in range(0, len(text), 50_000)]
    async with ScriptedServer(Stream([piece(0, id="c", name="write"), *parts, delta("tool_calls")])) as server:
        response = await model_at(server, stream=True).respond(TOOLS)
    assert response.calls[0].arguments == {"text": big}


async def test_cancelling_mid_stream_hangs_up_at_once() -> None:
    started = asyncio.Event()
    async with ScriptedServer(Stream([delta(content="hi")], "hang")) as server:
        task = asyncio.create_task(model_at(server).respond(HELLO, lambda _: started.set()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()


async def test_a_reader_that_fails_ends_the_stream_and_is_not_mistaken_for_the_endpoint() -> None:
    def read(_: str) -> None:
        raise ValueError("the screen is gone")

    async with ScriptedServer(Stream([delta(content="hi")], "hang")) as server:
        with pytest.raises(ValueError, match="the screen is gone"):
            await model_at(server).respond(HELLO, read)
        await server.gone.wait()


KEYS = [
    *("choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "index", "id", "usage"),
    *("finish_reason", "error", "code", "prompt_tokens", "reasoning", "text", "type", "model", "function_call"),
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JUNK | st.builds(lambda d: {"choices": [{"delta": d}]}, JUNK), max_size=4))
def test_whatever_an_endpoint_sends_there_is_a_response_or_a_known_failure(chunks: list[Any]) -> None:
    try:
        response = assembled(*chunks)
    except (Transient, InBand, ModelError):
        return
    recorded = strict_json.dump(ModelResponded.of(response.stamp_calls(3)))
    stored = strict_json.load(ModelResponded, recorded).response
    assert [call.name for call in stored.calls] == [call.name for call in response.calls]
    json.dumps(recorded, ensure_ascii=False).encode("utf-8")


@given(
    st.lists(
        st.tuples(st.sampled_from(["read", "write"]), st.dictionaries(st.text(), st.text())),
        max_size=4,
        unique_by=json.dumps,
    ),
    st.randoms(),
)
def test_however_pieces_are_cut_and_interleaved_the_calls_are_the_same(
    wanted: list[tuple[str, Any]], random: Any
) -> None:
    raws = [json.dumps(arguments) for _, arguments in wanted]
    queues = [[piece(n, id="same", name=name)] for n, (name, _) in enumerate(wanted)]
    for queue, (number, raw) in zip(queues, enumerate(raws), strict=True):
        at = 0
        while at < len(raw):
            step = random.randint(1, 9)
            queue.append(piece(number, raw[at : at + step]))
            at += step
    firsts = [queue.pop(0) for queue in queues]
    order = [number for number, queue in enumerate(queues) for _ in queue]
    random.shuffle(order)
    calls = assembled(*firsts, *(queues[number].pop(0) for number in order), delta("tool_calls")).calls
    assert [(call.name, call.raw) for call in calls] == [
        (name, raw) for (name, _), raw in zip(wanted, raws, strict=True)
    ]
