"""Odd first answers of endpoints, each with what must come of it: a table, of which most rows are public reports.

A row has the events of a stream (or a whole reply), the entries that the tool must have counted in the end, and words
of what the session says. Most of them call `add_entry` with `milk`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.agent.models.openai.scripted_server import EVENTS, Reply, Step, Stream, delta, failure, message, piece

TOOL = "add_entry"
ARGUMENTS = '{"item": "milk"}'
BREAD = '{"item": "bread"}'
CALL = {"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": ARGUMENTS}}
DONE = message("All is noted.")
GOOD = Stream([piece(0, ARGUMENTS, id="c1", name=TOOL), delta("tool_calls")])
HUB = "https://github.com"


@dataclass(frozen=True)
class Shape:
    """An odd first answer. `then` are the answers after it, `said` words of the end, `status` how the task ends.

    `told` are words of what the model is told of its call where it does not run. `source` is where it was reported, ""
    for what only an attacker sends.
    """

    first: Step
    source: str = ""
    entries: Sequence[str] = ("milk",)
    then: Sequence[Step] = (DONE,)
    said: str = "All is noted."
    status: str = "completed"
    told: str = ""


def stream(*events: Any, source: str = "", end: str = "done", **more: Any) -> Shape:
    """Return a stream that calls once and ends with the reason `tool_calls`."""
    return Shape(Stream([*events, delta("tool_calls")], end), source, **more)


def lines(*texts: str, source: str = "", kind: str = EVENTS, **more: Any) -> Shape:
    """Return a stream written by hand."""
    return Shape(Reply("".join(texts).encode(), content_type=kind), source, **more)


def event(chunk: Mapping[str, Any], space: str = " ", end: str = "\n\n") -> str:
    """Return a chunk as an event."""
    return f"data:{space}{json.dumps(chunk)}{end}"


def raw(*calls: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    """Return a chunk with these items of `tool_calls`, as they are."""
    return delta(finish, tool_calls=list(calls), **more)


def again(first: Step, source: str = "") -> Shape:
    """Return an answer that is asked for again, after which the call comes as it should."""
    return Shape(first, source, then=(GOOD, DONE))


def held(first: Step, told: str, source: str = "") -> Shape:
    """Return a call that does not run, because nothing it could mean is certain."""
    return Shape(first, source, entries=(), told=told)


HEAD, FINISH = piece(0, "", id="c1", name=TOOL), delta("tool_calls")
PIECES = [piece(0, ARGUMENTS[at : at + 5]) for at in range(0, len(ARGUMENTS), 5)]
WHOLE = piece(0, ARGUMENTS, id="c1", name=TOOL)
OTHER = piece(1, BREAD, id="c2", name=TOOL)
BOTH = ("milk", "bread")
RAW = event(WHOLE) + event(FINISH)
END = "data: [DONE]\n\n"

SENT_TWICE = {
    "a chunk twice": stream(WHOLE, WHOLE, source=f"{HUB}/vllm-project/vllm/issues/44098"),
    "a chunk three times": stream(WHOLE, WHOLE, WHOLE),
    "pieces, then the whole call in the last chunk": Shape(
        Stream([HEAD, *PIECES, raw({"index": 0, **CALL}, finish="tool_calls")]),
        f"{HUB}/vllm-project/vllm/issues/44098",
    ),
    "pieces, then all arguments again": stream(HEAD, *PIECES, piece(0, ARGUMENTS)),
    "pieces, then all arguments again with the reason": Shape(
        Stream([HEAD, *PIECES, raw({"index": 0, "function": {"arguments": ARGUMENTS}}, finish="tool_calls")])
    ),
    "the older form beside the newer": stream(WHOLE, delta(function_call={"name": TOOL, "arguments": ARGUMENTS})),
    "the older form before the newer": stream(delta(function_call={"name": TOOL, "arguments": ARGUMENTS}), WHOLE),
    "the whole message after its pieces": Shape(
        Stream([HEAD, *PIECES, {"choices": [{"index": 0, "message": {"tool_calls": [CALL]}, "finish_reason": "stop"}]}])
    ),
    "the same call at another index with its id": stream(WHOLE, piece(1, ARGUMENTS, id="c1", name=TOOL)),
    "one id for two calls": stream(WHOLE, piece(1, BREAD, id="c1", name=TOOL), entries=BOTH),
    "two ids for two calls of the same bytes": stream(
        WHOLE, piece(1, ARGUMENTS, id="c2", name=TOOL), entries=("milk", "milk")
    ),
    "an empty object first": stream(
        piece(0, "{}", id="c1", name=TOOL), *PIECES, source=f"{HUB}/BerriAI/litellm/issues/14056"
    ),
    "an empty object last": stream(WHOLE, piece(0, "{}")),
    "an empty object first, and all again": stream(piece(0, "{}", id="c1", name=TOOL), *PIECES, piece(0, ARGUMENTS)),
}

SPELLED = {
    "in pieces": stream(HEAD, *PIECES),
    "in one chunk": stream(WHOLE, source=f"{HUB}/comet-ml/opik/pull/7385"),
    "a character at a time": stream(HEAD, *(piece(0, one) for one in ARGUMENTS)),
    "arguments that are an object": stream(
        raw({"index": 0, "id": "c1", "function": {"name": TOOL, "arguments": {"item": "milk"}}}),
        source=f"{HUB}/huggingface/text-generation-inference/issues/2136",
    ),
    "arguments encoded twice": stream(piece(0, json.dumps(ARGUMENTS), id="c1", name=TOOL)),
    "arguments in a fence": stream(piece(0, f"```json\n{ARGUMENTS}\n```", id="c1", name=TOOL)),
    "null, then the arguments": stream(
        raw({"index": 0, "id": "c1", "function": {"name": TOOL, "arguments": None}}), *PIECES
    ),
    "blanks before and after": stream(piece(0, "  \n", id="c1", name=TOOL), *PIECES, piece(0, "\n")),
    "the id in each chunk": stream(
        HEAD, *(piece(0, ARGUMENTS[at : at + 5], id="c1") for at in range(0, len(ARGUMENTS), 5))
    ),
    "the name in each chunk": stream(
        HEAD,
        *(piece(0, ARGUMENTS[at : at + 5], name=TOOL) for at in range(0, len(ARGUMENTS), 5)),
        source=f"{HUB}/vllm-project/vllm/issues/44098",
    ),
    "id and name in each chunk": stream(
        HEAD,
        *(piece(0, ARGUMENTS[at : at + 5], id="c1", name=TOOL) for at in range(0, len(ARGUMENTS), 5)),
        source=f"{HUB}/spring-projects/spring-ai/pull/5973",
    ),
    "an empty id and name in each chunk": stream(
        HEAD,
        *(
            raw({"index": 0, "id": "", "function": {"name": "", "arguments": ARGUMENTS[at : at + 5]}})
            for at in range(0, len(ARGUMENTS), 5)
        ),
    ),
    "null for id and name in each chunk": stream(
        HEAD,
        *(
            raw({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": ARGUMENTS[at : at + 5]}})
            for at in range(0, len(ARGUMENTS), 5)
        ),
    ),
    "no index": stream(
        HEAD,
        *(raw({"function": {"arguments": ARGUMENTS[at : at + 5]}}) for at in (0, 5, 10, 15)),
        source=f"{HUB}/ollama/ollama/issues/15457",
    ),
    "no index at all": stream(raw(CALL)),
    "null for the index": stream(raw({"index": None, **CALL})),
    "a text for the index": stream(raw({"index": "0", **CALL})),
    "an index that begins with 1": stream(piece(1, ARGUMENTS, id="c1", name=TOOL)),
    "an index that jumps": stream(WHOLE, piece(7, BREAD, id="c2", name=TOOL), entries=BOTH),
    "two calls at index 0": stream(
        WHOLE, piece(0, BREAD, id="c2", name=TOOL), entries=BOTH, source=f"{HUB}/ollama/ollama/issues/15457"
    ),
    "two calls at index 0 in pieces": stream(
        HEAD,
        *PIECES,
        piece(0, "", id="c2", name=TOOL),
        piece(0, BREAD[:7]),
        piece(0, BREAD[7:]),
        entries=BOTH,
        source=f"{HUB}/NousResearch/hermes-agent/pull/3468",
    ),
    "two calls interleaved": stream(
        HEAD,
        piece(1, "", id="c2", name=TOOL),
        piece(0, ARGUMENTS[:4]),
        piece(1, BREAD[:4]),
        piece(0, ARGUMENTS[4:]),
        piece(1, BREAD[4:]),
        entries=BOTH,
    ),
    "two calls in one chunk": stream(
        raw({"index": 0, **CALL}, {"index": 1, **CALL, "id": "c2", "function": {"name": TOOL, "arguments": BREAD}}),
        entries=BOTH,
    ),
    "two calls at index 0 without ids": stream(
        piece(0, ARGUMENTS, name=TOOL), piece(0, BREAD, name=TOOL), entries=BOTH
    ),
    "calls without ids": stream(piece(0, ARGUMENTS, name=TOOL), piece(1, BREAD, name=TOOL), entries=BOTH),
    "one call that is no list": stream(
        delta(tool_calls={"index": 0, **CALL}), source=f"{HUB}/huggingface/text-generation-inference/issues/2794"
    ),
    "no list of calls in other chunks": stream(delta(content="Well", tool_calls=None), WHOLE, delta(tool_calls=None)),
    "an empty list of calls in other chunks": stream(delta(content="Well", tool_calls=[]), WHOLE, delta(tool_calls=[])),
    "words beside the call in one chunk": stream(raw({"index": 0, **CALL}, content="I note it.")),
    "an empty text beside the call": stream(raw({"index": 0, **CALL}, content="")),
    "null beside the call": stream(raw({"index": 0, **CALL}, content=None)),
    "the role in each chunk": stream(delta(role="assistant"), raw({"index": 0, **CALL}, role="assistant")),
    "the older form alone": Shape(Stream([delta(function_call={"name": TOOL, "arguments": ARGUMENTS}), FINISH])),
    "the older form in pieces": Shape(
        Stream(
            [
                delta(function_call={"name": TOOL, "arguments": ""}),
                delta(function_call={"arguments": ARGUMENTS[:6]}),
                delta(function_call={"arguments": ARGUMENTS[6:]}),
                delta("function_call"),
            ]
        )
    ),
    "a split name": stream(piece(0, id="c1", name="add_"), piece(0, id="c1", name="entry"), *PIECES),
    "thoughts in each chunk": stream(*(delta(reasoning_content=one) for one in "Hm."), WHOLE),
    "null thoughts in each chunk": stream(delta(reasoning_content=None, content=None), WHOLE),
    "content in parts": stream(
        delta(content=[{"type": "text", "text": "I note it."}]),
        WHOLE,
        source=f"{HUB}/epam/ai-dial-adapter-openai/issues/395",
    ),
    "functions. before the name": stream(piece(0, ARGUMENTS, id="c1", name=f"functions.{TOOL}")),
    "functions. before and a number behind it": stream(piece(0, ARGUMENTS, id="c1", name=f"functions.{TOOL}:0")),
    "default_api: before the name": stream(
        piece(0, ARGUMENTS, id="c1", name=f"default_api:{TOOL}"), source=f"{HUB}/langroid/langroid/pull/969"
    ),
    "blanks around the name": stream(piece(0, ARGUMENTS, id="c1", name=f" {TOOL}\n")),
    "tokens of a channel behind the name": stream(piece(0, ARGUMENTS, id="c1", name=f"{TOOL}<|channel|>commentary")),
    "a surrogate pair in two pieces": stream(
        HEAD, piece(0, '{"item": "\ud83d'), piece(0, '\ude00"}'), entries=("\U0001f600",)
    ),
    "escapes in pieces": stream(HEAD, *(piece(0, one) for one in '{"item": "\\u006dilk"}')),
}

AROUND = {
    "an empty list of choices first": stream(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        WHOLE,
        source=f"{HUB}/AbanteAI/archive-old-cli-mentat/issues/429",
    ),
    "a choice without a delta": stream(
        WHOLE, {"choices": [{"index": 0, "finish_reason": None}]}, source=f"{HUB}/microsoft/autogen/issues/6465"
    ),
    "null for a delta": stream(WHOLE, {"choices": [{"index": 0, "delta": None, "finish_reason": None}]}),
    "null for the choices": stream(WHOLE, {"choices": None, "usage": {"prompt_tokens": 1}}),
    "usage in each chunk": stream({**HEAD, "usage": {"prompt_tokens": 1}}, *({**one, "usage": None} for one in PIECES)),
    "usage in the choice": Shape(
        Stream(
            [
                WHOLE,
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "usage": {"prompt_tokens": 1}}]},
            ]
        ),
        f"{HUB}/earendil-works/pi/issues/2017",
    ),
    "two choices": stream({"choices": [*WHOLE["choices"], {"index": 1, "delta": OTHER["choices"][0]["delta"]}]}),
    "the reason stop": Shape(
        Stream([WHOLE, delta("stop")]), f"{HUB}/huggingface/text-generation-inference/issues/2794"
    ),
    "an empty reason": Shape(Stream([WHOLE, delta("")])),
    "an empty reason in each chunk": Shape(
        Stream([{"choices": [{**one["choices"][0], "finish_reason": ""}]} for one in (HEAD, *PIECES)])
    ),
    "no reason": Shape(Stream([WHOLE])),
    "a reason that nobody knows": Shape(Stream([WHOLE, delta("eos")])),
    "the reason twice": Shape(Stream([WHOLE, FINISH, FINISH])),
    "the reason with the last piece": Shape(
        Stream([HEAD, *PIECES[:-1], raw({"index": 0, "function": {"arguments": ARGUMENTS[15:]}}, finish="tool_calls")]),
        f"{HUB}/vllm-project/vllm-ascend/issues/8327",
    ),
    "no end": stream(WHOLE, end="open"),
    "an end with blanks": lines(RAW, "data:   [DONE]  \n\n"),
    "two ends": lines(RAW, END, END),
    "a chunk behind the end": lines(RAW, END, event(OTHER)),
    "a byte order mark": lines("\ufeff", RAW, END),
    "lines that end as on Windows": lines(RAW.replace("\n", "\r\n"), END.replace("\n", "\r\n")),
    "comments between": lines(
        ": OPENROUTER PROCESSING\n\n",
        event(WHOLE),
        ": keep-alive\n\n",
        event(FINISH),
        END,
        source=f"{HUB}/openai/openai-go/issues/227",
    ),
    "empty events between": lines("data: \n\n", event(WHOLE), "data:\n\n", event(FINISH), END),
    "names and numbers of events": lines("event: message\nid: 1\n", event(WHOLE), "retry: 10\n", event(FINISH), END),
    "no blank behind the colon": lines(event(WHOLE, ""), event(FINISH, ""), "data:[DONE]\n\n"),
    "an event of two lines": lines(event(WHOLE).replace(', "choices"', ',\ndata: "choices"'), event(FINISH), END),
    "a byte at a time": Shape(Stream([RAW.encode()[at : at + 1] for at in range(len(RAW))])),
    "a stream that is called JSON": lines(RAW, END, kind="application/json"),
    "a stream that is called a text": lines(RAW, END, kind="text/plain"),
    "a whole answer where a stream was asked for": Shape(
        message(None, finish="tool_calls", tool_calls=[CALL]), f"{HUB}/ollama/ollama/issues/9092"
    ),
    "a whole answer with line ends": Shape(
        Reply(json.dumps(message(None, tool_calls=[CALL]).body, indent=2).encode(), content_type="application/json")
    ),
}

BROKEN = {
    "an error at first": again(Stream([{"error": {"message": "overloaded", "code": 503}}])),
    "an error that is a text": again(Stream([{"error": "overloaded"}]), f"{HUB}/octos-org/octos/issues/13"),
    "an error in the choice": again(
        Stream([{"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "gone"}}]}]),
        "https://openrouter.ai/docs/api/reference/streaming",
    ),
    "an error behind a whole call": again(
        Stream([WHOLE, {"error": {"message": "gone", "code": 502}}]), f"{HUB}/diegosouzapw/OmniRoute/pull/8210"
    ),
    "an event called error": again(
        Reply(f'{event(WHOLE)}event: error\ndata: {{"error":{{"message":"gone"}}}}\n\n'.encode(), content_type=EVENTS)
    ),
    "a reason called error": again(Stream([WHOLE, delta("error")])),
    "a connection that breaks behind a whole call": again(Stream([WHOLE], "cut")),
    "a stream that ends without a word behind half a call": again(Stream([HEAD, *PIECES[:2]], "open")),
    "a chunk that is no JSON": again(
        Reply(f"{event(WHOLE)}data: {{\n\n".encode(), content_type=EVENTS), f"{HUB}/SamSaffron/term-llm/pull/448"
    ),
    "a chunk that is a number": again(Stream([7])),
    "an empty answer": again(Reply(b"", content_type=EVENTS)),
    "a page": again(Reply(b"<html>busy</html>", content_type="text/html")),
    "a status 500": again(failure(500, "it broke")),
    "a status 429": again(failure(429, "slow down")),
}

HELD = {
    "two objects one behind the other": held(
        Stream([piece(0, ARGUMENTS + BREAD, id="c1", name=TOOL), FINISH]), "invalid_arguments"
    ),
    "words behind the arguments": held(
        Stream([piece(0, f"{ARGUMENTS} so", id="c1", name=TOOL), FINISH]), "invalid_arguments"
    ),
    "arguments that are cut": held(Stream([HEAD, *PIECES[:2], FINISH]), "invalid_arguments"),
    "a list of arguments": held(Stream([piece(0, '["milk"]', id="c1", name=TOOL), FINISH]), "invalid_arguments"),
    "an argument that nobody knows": held(
        Stream([piece(0, '{"item": "milk", "x": 1}', id="c1", name=TOOL), FINISH]), "invalid_arguments"
    ),
    "a key twice": held(
        Stream([piece(0, '{"item": "milk", "item": "bread"}', id="c1", name=TOOL), FINISH]), "invalid_arguments"
    ),
    "depth without end": held(Stream([piece(0, '{"item":' * 50_000, id="c1", name=TOOL), FINISH]), "invalid_arguments"),
    "a tool that is not there": held(
        Stream([piece(0, ARGUMENTS, id="c1", name="add_entries"), FINISH]), "unknown_tool"
    ),
    "no name": held(Stream([piece(0, ARGUMENTS, id="c1"), FINISH]), "unnamed"),
    "an answer that is cut in a call": held(
        Stream([WHOLE, delta("length")]), "not_run_truncated", f"{HUB}/vllm-project/vllm/pull/47963"
    ),
}

WORDS = {
    "words": Shape(Stream([delta(content="All is"), delta(content=" noted."), delta("stop")]), entries=(), then=()),
    "words in parts": Shape(
        Stream([delta(content=[{"type": "text", "text": "All is noted."}]), delta("stop")]), entries=(), then=()
    ),
    "a refusal": Shape(Stream([delta(refusal="All is noted."), delta("stop")]), entries=(), then=()),
    "nothing, then words": Shape(Stream([delta("stop")]), entries=()),
    "only thoughts, then words": Shape(Stream([delta(reasoning_content="Hm."), delta("stop")]), entries=()),
}

SHAPES: Mapping[str, Shape] = {**SENT_TWICE, **SPELLED, **AROUND, **BROKEN, **HELD, **WORDS}
