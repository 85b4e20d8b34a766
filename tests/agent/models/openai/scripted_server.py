"""A real HTTP server on loopback that answers as a script says, and refuses what a real endpoint refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tests.agent.models.openai.responses_rules import responses_refusals
from tests.agent.models.openai.wire_rules import IDS, reasoning_refusal, refusals

KEY = "sk-test-0123456789abcdef"
JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class Reply:
    """A whole answer. `body` is sent as it is when bytes, else as JSON."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON

    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Stream:
    """A stream of events, which waits where it comes to an `asyncio.Event`.

    `end` is `done`, `open` (no `[DONE]`), `cut` (the connection breaks) or `hang`.
    """

    events: Sequence[Any]
    end: str = "done"


Step = Reply | Stream


def message(content: Any = "", *, finish: Any = "stop", usage: Any = None, **more: Any) -> Reply:
    """Return a whole completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **more}, "finish_reason": finish}
    body = {"id": "x", "object": "chat.completion", "model": "served-model", "choices": [choice]}
    return Reply(body | ({} if usage is None else {"usage": usage}))


def delta(finish: Any = None, **more: Any) -> dict[str, Any]:
    """Return one chunk of a stream."""
    choice = {"index": 0, "delta": more, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "model": "served-model", "choices": [choice]}


def piece(index: Any, arguments: Any = None, *, id: Any = None, name: Any = None) -> dict[str, Any]:  # noqa: A002
    """Return a chunk with one piece of one tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    call = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return delta(tool_calls=[call | {"function": function}])


def failure(status: int, text: str = "it broke", *, headers: Mapping[str, str] | None = None, **more: Any) -> Reply:
    """Return an error as the API words it."""
    return Reply(
        {"error": {"message": text, "type": "error", "param": None, "code": None, **more}}, status, headers or {}
    )


def refuse_length(limit: int, asked: int) -> Reply:
    """Return what llama.cpp says of a request that is too long."""
    numbers = {"n_ctx": limit, "n_prompt_tokens": asked}
    return failure(400, "the request exceeds the available context size", type="exceed_context_size_error", **numbers)


class ScriptedServer:
    """Answers well-formed requests with the steps in order; leaving it fails when steps are left over.

    `refuses` names parts of a request this endpoint does not know, and with `reasoning` it refuses what a reasoning
    model does; `models` are those it has, and `listing` is what
    it says when asked for them, if that is something else. With `keyless` any key will do. `requests` keeps the
    body and `headers` the headers of every request, refused ones too; `asked` is set by the first request,
    `gone` when a client hangs up. A request of more than `window` tokens, of three bytes each, gets what `too_long`
    makes of that number and of its own. `objects` returns what it says against a body, None for nothing.
    """

    def __init__(
        self,
        *steps: Step,
        refuses: Sequence[str] = (),
        reasoning: bool = False,
        models: Sequence[str] = ("m",),
        listing: Reply | None = None,
        keyless: bool = False,
        ids: str = IDS,
        window: int = 0,
        too_long: Callable[[int, int], Reply] | None = None,
        objects: Callable[[dict[str, Any]], Reply | None] = lambda body: None,
    ) -> None:
        self.keyless, self.ids = keyless, ids
        self.steps, self.refuses, self.models, self.listing = list(steps), refuses, models, listing
        self.objects = objects
        self.reasoning, self.window, self.too_long = reasoning, window, too_long or refuse_length
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.asked, self.gone = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        assert kind is not None or not self.steps, f"{len(self.steps)} steps were never asked for"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            data = await reader.readexactly(int(headers.get("content-length", 0)))
            self.paths.append(head[0].split(" ")[1])
            self.headers.append(headers)
            await self._answer(self._step(headers, data), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()

    def _step(self, headers: Mapping[str, str], data: bytes) -> Step:
        if not self.keyless and headers.get("authorization") != f"Bearer {KEY}":
            return failure(401, f"Incorrect API key provided: {headers.get('authorization')}", code="invalid_api_key")
        if self.paths[-1].endswith("/models"):
            return self.listing or Reply({"data": [{"id": name} for name in self.models]})
        if not self.paths[-1].endswith(("/v1/chat/completions", "/v1/responses")):
            return Reply(b"<html>not found</html>", 404, content_type="text/html")
        body = json.loads(data.decode("utf-8"))
        self.requests.append(body)
        self.asked.set()
        if (objection := self.objects(body)) is not None:
            return objection
        is_chat = self.paths[-1].endswith("completions")
        if wrong := list(refusals(body, self.ids) if is_chat else responses_refusals(body)):
            return failure(400, wrong[0], code="invalid_request_error")
        if body["model"] not in self.models:
            return failure(404, f"The model `{body['model']}` does not exist", code="model_not_found")
        param, words = reasoning_refusal(body) if self.reasoning else ("", "")
        if param:
            return failure(400, words, param=param, code="unsupported_value")
        if self.window and (asked := len(data) // 3) > self.window:
            return self.too_long(self.window, asked)
        form = body.get("response_format", {}).get("type")
        for part in self.refuses:
            if part in body or part == form:
                return failure(400, f"{part} is not supported by this model", param=part)
        return self.steps.pop(0) if self.steps else failure(400, "the script is over")

    async def _answer(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(step, Reply):
            body = step.bytes()
            head = {"Content-Type": step.content_type, "Content-Length": str(len(body)), **step.headers}
            _head(writer, step.status, head)
            writer.write(body)
            await writer.drain()
            return
        _head(writer, 200, {"Content-Type": EVENTS, "Transfer-Encoding": "chunked"})
        for event in step.events:
            if isinstance(event, asyncio.Event):
                await event.wait()
                continue
            data = event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
            _chunk(writer, data)
            await writer.drain()
        if step.end == "done":
            _chunk(writer, b"data: [DONE]\n\n")
        if step.end in ("done", "open"):
            _chunk(writer, b"")
        if step.end == "hang":
            await reader.read()
            self.gone.set()
        await writer.drain()


def _head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    lines = [
        f"HTTP/1.1 {status} Scripted",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
