"""The lines between an editor and Foregate: messages of JSON-RPC, checked before anybody acts on them."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from foregate.agent.serving.lines import Lines, take_over_input
from foregate.schemas.strict_json import Json, as_object, get_list, scrub_json

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
_SECONDS = 2
"""How long the last words may take to be written when the editor is gone."""


class EditorTransport:
    """What the package reads messages from and writes them to, in the place of its own streams.

    Standard output carries the protocol and nothing else: what is printed elsewhere in the process goes to standard
    error. A line that is no message is answered with one error. `on_end` is awaited when the editor says nothing more,
    before that is told, so that what is under way ends in order.
    """

    def __init__(self, most: int, on_end: Callable[[], Awaitable[None]]) -> None:
        self._lines = aiter(Lines(take_over_input(0), most, self._refuse))
        self._out, self._on_end, self._ended = _take_over_output(), on_end, False
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_lines, daemon=True)
        self._writer.start()
        self.after_response: list[Callable[[], None]] = []
        """What is done once the next response is written."""

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end of input."""
        async for line in self._lines:
            message = json.loads(line)
            if (why := find_defect(message)) is None:
                return {**message, "params": _strip_meta(message.get("params"))} if "method" in message else message
            await self._refuse(_get_id(message), why, INVALID_REQUEST)
        await self.end()
        return None

    async def end(self) -> None:
        """End what is under way; from now on nobody waits until a message is written."""
        if not self._ended:
            self._ended = True
            await self._on_end()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; return when it is written."""
        if "error" in message:
            message = {**message, "error": word_error(message["error"])}
        line = json.dumps(scrub_json(message), separators=(",", ":"), default=str)
        written: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((line.encode() + b"\n", written))
        if not self._ended:
            await written
        if "method" not in message:
            hooks, self.after_response = self.after_response, []
            for hook in hooks:
                hook()

    async def close(self) -> None:
        """End what is under way, and write what is left as far as somebody still takes it."""
        await self.end()
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join, _SECONDS)

    async def _refuse(self, id: Json, why: str, code: int = PARSE_ERROR) -> None:  # noqa: A002
        await self.send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}})

    def _write_lines(self) -> None:
        """Write line after line. Once nobody takes them they are dropped, for what is recorded is in the log."""
        lost = False
        while (item := self._queue.get()) is not None:
            line, written = item
            try:
                while line and not lost:
                    line = line[os.write(self._out, line) :]
            except OSError:
                lost = True
            # The loop has ended.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_set_done, written)


def _set_done(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)


def _take_over_output() -> int:
    """Return a descriptor for what is written to the editor; what else is printed here goes to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    return own


def find_defect(message: Json) -> str | None:
    """Return why a line is no message of JSON-RPC, None where it is one.

    >>> find_defect({"id": 1, "method": 5})
    '`method` must be a text'
    """
    if not isinstance(message, dict):
        return "a message is one object; several in a list are not taken here"
    number = message.get("id")
    if number is not None and (isinstance(number, bool) or not isinstance(number, (int, str))):
        return "`id` must be a number without a fraction, or a text"
    if "method" in message:
        if not isinstance(message["method"], str):
            return "`method` must be a text"
        if not isinstance(message.get("params", {}), dict):
            return "`params` must be an object"
        return None
    if "id" in message and ("result" in message or isinstance(message.get("error"), dict)):
        return None
    return "this is neither a request nor an answer; send `method`, or `id` with `result`"


def _get_id(message: Json) -> Json:
    """Return the id of what is no message, None where it has none that can be given back."""
    number = message.get("id") if isinstance(message, dict) else None
    return number if isinstance(number, (int, str)) and not isinstance(number, bool) else None


def _strip_meta(params: Json) -> Json:
    """Return parameters without `_meta`: nothing in it means anything here, and it must not pass for a parameter."""
    return {key: value for key, value in params.items() if key != "_meta"} if isinstance(params, dict) else {}


def word_error(error: Mapping[str, Json]) -> dict[str, Json]:
    """Return an error whose message says what is wrong, in the place of the name of its class.

    >>> word_error({"code": -32602, "message": "Invalid params", "data": {"errors": [{"loc": ["cwd"], "msg": "no"}]}})
    {'code': -32602, 'message': '`cwd`: no'}
    """
    data = error.get("data")
    found = [as_object(one) for one in get_list(data, "errors")] if isinstance(data, dict) and "errors" in data else []
    if found:
        where = [".".join(str(part) for part in get_list(one, "loc")) for one in found]
        first = next((place for place in where if place), "params")
        return {"code": INVALID_PARAMS, "message": f"`{first}`: {str(found[where.index(first)].get('msg', ''))[:200]}"}
    said = error.get("message")
    if isinstance(data, dict) and set(data) == {"method"}:
        return {**error, "message": f"there is no method `{str(data['method'])[:80]}` here"}
    if isinstance(data, dict) and set(data) == {"details"}:
        return {**error, "message": f"{said}: {str(data['details'])[:300]}"}
    return {key: value for key, value in error.items() if value is not None}
