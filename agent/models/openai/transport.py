"""The client under the adapter: what leaves, where it may go, and how much may come back.

Only this module imports the heavy libraries at the top; the adapter loads it with the first request.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncIterator
from typing import cast

import httpx2
from openai import AsyncOpenAI

from foregate.agent.models.openai.endpoint import Endpoint
from foregate.schemas.errors import ModelError

EVENT_STREAM = "text/event-stream"
SENT_HEADERS = ("host", "content-length", "transfer-encoding", "content-type", "accept")
OWN_HEADERS = (("Accept-Encoding", "identity"), ("User-Agent", "foregate"))
BOUNDED = "foregate.bounded"
"""The extension of a response under which its stream stands."""
# "data: [DONE]".
_END = re.compile(rb"(?m)^data:\s*\[DONE\]")
# "data: \n".
_EMPTY = re.compile(rb"(?m)^data:[ \t]*\r?\n")
"""A line that holds no data, as in `data: `: some servers send one every few seconds."""
MAX_BODY = 64 * 1024 * 1024
"""Bytes of one JSON body, or of one event of a stream: room for 8 MiB of arguments with every character escaped."""


def build_client(endpoint: Endpoint, *, timeout: float, connect_timeout: float, proxy: str | None) -> AsyncOpenAI:
    """Return a client that talks to `endpoint` only.

    It follows no redirect, takes no proxy, certificate bundle or login from the environment, and keeps no connection
    open between requests, so that it may be used from one event loop after another.
    """
    transport = GuardedTransport(
        httpx2.AsyncHTTPTransport(
            trust_env=False, proxy=proxy, limits=httpx2.Limits(max_connections=64, max_keepalive_connections=0)
        ),
        endpoint,
    )
    return AsyncOpenAI(
        base_url=endpoint.url,
        api_key=endpoint.key,
        max_retries=0,
        timeout=httpx2.Timeout(timeout, connect=connect_timeout),
        http_client=httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False),
    )


def find_server(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port of an address, such as ("http", "127.0.0.1", 8000)."""
    return url.scheme, url.host, url.port


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends a fixed set of headers to one server, whatever the environment adds, and bounds what is read."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, endpoint: Endpoint) -> None:
        self._inner, self._endpoint = inner, endpoint
        self._server = find_server(httpx2.URL(endpoint.url))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request; raise ModelError for another server, and for a compressed answer, whose size is unknown."""
        if find_server(request.url) != self._server:
            raise ModelError(f"a request would have left for {request.url.host}, not {self._endpoint.url}; report this")
        headers = [(name, request.headers[name]) for name in SENT_HEADERS if name in request.headers]
        headers += [("Authorization", f"Bearer {self._endpoint.key}"), *OWN_HEADERS]
        request.headers = httpx2.Headers(headers)
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            raise ModelError(f"{self._endpoint.url} compresses its answers unasked; turn that off at the endpoint")
        events = (
            response.status_code == 200
            and request.headers.get("accept") == EVENT_STREAM
            and response.headers.get("content-type", "").lower().startswith(EVENT_STREAM)
        )
        stream = BoundedStream(cast(httpx2.AsyncByteStream, response.stream), self._endpoint, events)
        response.stream = response.extensions[BOUNDED] = stream
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class BoundedStream(httpx2.AsyncByteStream):
    """Passes bytes on as valid UTF-8, without a byte order mark and without lines of `data:` that hold none.

    It passes at most MAX_BODY of them, or of them between two blank lines when `events`. `has_ended` tells whether the
    line came that says that no event follows.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, endpoint: Endpoint, events: bool) -> None:
        self._inner, self._endpoint, self._events = inner, endpoint, events
        self.has_ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the chunks; raise ModelError for an answer without end."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        pending, half = 0, bytearray()
        async for chunk in self._inner:
            fresh = self._events and (b"\n\n" in chunk or b"\r\n\r\n" in chunk)
            pending = len(chunk) if fresh else pending + len(chunk)
            if pending > MAX_BODY:
                raise ModelError(f"{self._endpoint.url} sent more than {MAX_BODY} bytes in one piece; ask for less")
            whole = decoder.decode(chunk).encode("utf-8")
            if not self._events:
                yield whole
                continue
            lines, end, rest = whole.rpartition(b"\n")
            half += lines + end
            if end:
                yield self._keep_events(bytes(half))
                half = bytearray()
            half += rest
        yield self._keep_events(bytes(half) + decoder.decode(b"", final=True).encode("utf-8"))

    def _keep_events(self, lines: bytes) -> bytes:
        """Return whole lines without those that only keep the connection open."""
        if not self._events:
            return lines
        self.has_ended = self.has_ended or _END.search(lines) is not None
        return _EMPTY.sub(b"", lines)

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._inner.aclose()
