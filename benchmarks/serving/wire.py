"""How a server puts an answer on the wire: as one message, or as the chunks of a stream."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping
from typing import Any

from serving.mind import Said
from serving.row import Answers, Server, Streams, Thoughts
from serving.rules import fill
from serving.written import write_calls, write_json

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
_LETTERS = string.ascii_letters + string.digits
Message = dict[str, Any]


def spell(seed: int, size: int, letters: str = _LETTERS) -> str:
    """Return letters that are the same for the same number, and others for another."""
    found, state = "", seed * 7919 + 104729
    for _ in range(size):
        state = (state * 1103515245 + 12345) % 2**31
        found += letters[(state >> 8) % len(letters)]
    return found


def build_message(server: Server, said: Said, number: int, *, native: bool) -> Message:
    """Return an answer as one message; `number` is another for each, so are the ids of its calls.

    Where tools were not asked for natively, calls are JSON in the text.
    """
    form, text = server.answers, said.text
    message: Message = {"role": "assistant", "content": text, **form.message}
    if said.thought and server.thoughts is not None:
        message |= think(server.thoughts, said.thought, text)
    if said.calls and not native:
        message["content"] = f"{text}\n{write_json(said.calls)}"
    elif said.calls and form.written:
        message["content"] = f"{text}\n{write_calls(form.written, said.calls)}"
    elif said.calls:
        beside = {"null": None, "empty": "", "words": text, "absent": None}[form.content]
        if not isinstance(message["content"], list):
            message["content"] = beside
        if form.content == "absent":
            del message["content"]
        message["tool_calls"] = [build_call(form, call, number * 10 + at) for at, call in enumerate(said.calls)]
    return message


def think(thoughts: Thoughts, thought: str, text: str) -> Message:
    """Return the fields that hold a thought."""
    match thoughts.place:
        case "details":
            signed = {"type": "reasoning.encrypted", "data": "q1w2e3==", "id": "rs_1", "format": "x", "index": 1}
            spoken = {"type": "reasoning.text", "text": thought, "signature": "c2lnbmVk", "format": "x", "index": 0}
            return {"reasoning": thought, "reasoning_details": [spoken, signed]}
        case "parts":
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
            return {"content": [thinking, {"type": "text", "text": text}]}
        case "tags":
            return {"content": f"<think>\n{thought}\n</think>\n\n{text}"}
    return {thoughts.place: thought}


def build_call(form: Answers, call: tuple[str, Mapping[str, Any]], number: int) -> Message:
    """Return a call as it stands in a message."""
    name, arguments = call
    words = {
        "n": number,
        "name": name,
        "hex32": spell(number, 32, "0123456789abcdef"),
        "letters24": spell(number, 24),
        "letters9": spell(number, 9),
        "digits": spell(number, 19, string.digits),
        "long": spell(number, 3000),
    }
    written = arguments if form.arguments == "object" else json.dumps(arguments)
    own = fill(form.call, words)
    function = {"name": fill(form.name, {"name": name}), "arguments": written, **own.pop("function", {})}
    return {"id": str(fill(form.ids, words)), "type": "function", "function": function, **own}


def build_whole(server: Server, message: Message) -> Message:
    """Return the body of an answer that is no stream."""
    finish = server.answers.finish if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1764000000, "model": server.model}
    return {**head, "choices": [choice], "usage": USAGE}


def build_events(server: Server, message: Message, *, usage: bool) -> Iterator[bytes]:
    """Yield the events of a stream; `usage` says whether the request asked for it."""
    form = server.streams or Streams(source="https://platform.openai.com/docs/api-reference/chat-streaming")
    if form.mark:
        yield b"\xef\xbb\xbf"
    chunks = list(build_chunks(server, form, message))
    if form.usage == "chunk" and usage:
        chunks.append({"choices": [], "usage": USAGE})
    elif form.usage == "last":
        chunks[-1]["usage"] = USAGE
    elif form.usage == "choice":
        chunks[-1]["choices"][0]["usage"] = USAGE
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764000000, "model": server.model}
    chunks[:0] = [form.first] if form.first is not None else []
    for chunk in chunks:
        if form.between:
            yield form.between.encode()
        yield b"data: " + json.dumps({**head, **chunk}, ensure_ascii=False).encode() + form.lines.encode() * 2
    if form.done:
        yield f"data: [DONE]{form.lines * 2}".encode()


def build_chunks(server: Server, form: Streams, message: Message) -> Iterator[Message]:
    """Yield the chunks of a message, the last of which gives the reason for its end."""
    calls = message.get("tool_calls") or []

    def chunk(finish: str | None = None, **delta: Any) -> Message:
        role = {"role": "assistant"} if "role" in form.every else {}
        return {"choices": [{"index": 0, "delta": {**role, **delta}, "finish_reason": finish}]}

    yield chunk(role="assistant", content="")
    for name, value in message.items():
        if name in ("role", "tool_calls") or value is None:
            continue
        pieces = cut(value, 5) if isinstance(value, str) else [[one] for one in value] if name == "content" else [value]
        yield from (chunk(**{name: piece}) for piece in pieces)
    for at, call in enumerate(calls):
        yield from (chunk(tool_calls=piece if form.single else [piece]) for piece in cut_call(form, at, call))
    last: Message = {}
    if calls and form.again == "last":
        last = {"tool_calls": [{**number(form, at), **call} for at, call in enumerate(calls)]}
    if calls and form.again == "arguments":
        said = [{"arguments": call["function"]["arguments"]} for call in calls]
        last = {"tool_calls": [{**number(form, at), "function": one} for at, one in enumerate(said)]}
    ends = {"tool_calls": server.answers.finish, "null": None}.get(form.finish, form.finish)
    yield chunk(ends if calls else "stop", **last)


def cut_call(form: Streams, at: int, call: Message) -> Iterator[Message]:
    """Yield the pieces of a call."""
    arguments, function = call["function"]["arguments"], {**call["function"]}
    if not form.piece or not isinstance(arguments, str):
        yield from [{**number(form, at), **call}] * (2 if form.again == "chunk" else 1)
        return
    first = {**number(form, at), **call, "function": {**function, "arguments": form.opens}}
    yield first
    repeated = {"id": call["id"]} if "id" in form.every else {}
    named = {"name": function["name"]} if "name" in form.every else {}
    for piece in cut(arguments, form.piece):
        yield {**number(form, at), **repeated, "function": {**named, "arguments": piece}}


def number(form: Streams, at: int) -> Message:
    """Return the index of a call as the server gives it."""
    return {"count": {"index": at}, "zero": {"index": 0}, "null": {"index": None}, "absent": {}}[form.index]


def cut(text: str, size: int) -> list[str]:
    """Return a text in pieces, at least one."""
    return [text[at : at + size] for at in range(0, max(1, len(text)), size)]
