"""A model endpoint on loopback that says what a script says, for captured chats of what a model seldom does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Turn = tuple[str, str, Mapping[str, Any]]
"""What the model says, and the tool it calls with which arguments; no tool where it only says something."""


@contextmanager
def serve_script(script: Sequence[Turn]) -> Iterator[str]:
    """Answer each request with the next turn of the script; yield the address."""
    turns = iter(enumerate(script))

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            number, turn = next(turns, (len(script), None))
            self._send(200 if turn else 400, build_completion(number, *turn) if turn else {"error": "no turn is left"})

        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": "scripted"}]})

        def _send(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def build_completion(number: int, says: str, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn as a Chat Completions endpoint answers it."""
    message: dict[str, Any] = {"role": "assistant", "content": says}
    if tool:
        function = {"name": tool, "arguments": json.dumps(arguments)}
        message["tool_calls"] = [{"id": f"call{number}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tool else "stop"}
    usage = {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420}
    return {"id": f"{number}", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": usage}
