"""A real HTTP server on loopback that plays a row of the table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from serving.mind import Mind, Said
from serving.row import Refusal, Server
from serving.rules import count_tokens, fill, find_refusal
from serving.wire import build_events, build_message, build_whole

KEY = "sk-served-0123456789abcdef"
Made = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body of what is sent."""


class Played:
    """A server at work. `refusals` hold beside the mind; those without a condition once, at the request `at`.

    `requests` are the bodies that came, `refused` what was refused of them, `extra` how many were refused or asked for
    the same place of a conversation again.
    """

    def __init__(self, row: Server, refusals: Sequence[Refusal], once: Refusal | None = None, at: int = 0) -> None:
        self.row, self.refusals, self.once, self.at = row, refusals, once, at
        self.mind = Mind(one=row.answers.one)
        self.requests: list[Mapping[str, Any]] = []
        self.refused: list[str] = []
        self.place = ""
        self.extra = self.numbers = 0
        self.url = ""

    def answer(self, body: Mapping[str, Any]) -> Made | list[bytes]:
        """Return what is sent for a request."""
        self.requests.append(body)
        for refusal in self.refusals:
            if (words := find_refusal(refusal.when, body)) is not None:
                return self._refuse(refusal, words, body)
        if self.once is not None and self.numbers >= self.at:
            refusal, self.once = self.once, None
            return self._refuse(refusal, {"tokens": count_tokens(body)}, body)
        place, said = self.mind.answer(body["messages"])
        self.extra += place == self.place
        self.place = place
        return self._say(said, body)

    def _refuse(self, refusal: Refusal, words: Mapping[str, Any], body: Mapping[str, Any]) -> Made | list[bytes]:
        filled = fill(refusal.body, {**words, "model": body["model"]})
        text = filled if isinstance(filled, str) else json.dumps(filled)
        self.refused.append(text)
        self.extra += 1
        if refusal.inside and body.get("stream"):
            return [f"data: {text}\n\n".encode()]
        kind = "text/plain" if isinstance(filled, str) else "application/json"
        status = 200 if refusal.inside else refusal.status
        return status, {"Content-Type": kind, **refusal.headers}, text.encode()

    def _say(self, said: Said, body: Mapping[str, Any]) -> Made | list[bytes]:
        self.numbers += 1
        message = build_message(self.row, said, self.numbers, native=bool(body.get("tools")))
        if body.get("stream"):
            options = body.get("stream_options") or {}
            return list(build_events(self.row, message, usage=bool(options.get("include_usage"))))
        return 200, {"Content-Type": "application/json"}, json.dumps(build_whole(self.row, message)).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection, which holds one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            data = await reader.readexactly(int(headers.get("content-length", 0)))
            if head[0].split(" ")[1].endswith("/models"):
                listed = json.dumps({"object": "list", "data": [{"id": self.row.model, "object": "model"}]}).encode()
                sent: Made | list[bytes] = (200, {"Content-Type": "application/json"}, listed)
            else:
                sent = self.answer(json.loads(data))
            if isinstance(sent, list):
                write_head(writer, 200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
                for event in [*sent, b""]:
                    writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                    await writer.drain()
            else:
                status, more, content = sent
                write_head(writer, status, {"Content-Length": str(len(content)), **more})
                writer.write(content)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def write_head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    """Write the head of an answer."""
    lines = [f"HTTP/1.1 {status} Played", "Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))


@asynccontextmanager
async def listen(played: Played) -> AsyncIterator[Played]:
    """Serve on loopback for as long as the context lasts."""
    server = await asyncio.start_server(played.serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    played.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield played
    finally:
        server.close()
        await server.wait_closed()
