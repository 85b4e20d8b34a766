"""A server at a URL: streamable HTTP with bounded answers, no redirect off its origin, no proxy of the environment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from foregate.agent.tools.mcp.server_configuration import ServerConfiguration, expand_variables
from foregate.agent.tools.mcp.traffic import Flood, Traffic
from foregate.policy.policy import Mcp


class ServerAtUrl:
    """One connection to a server at a URL. `ended` says why it broke where the server sent what no server may."""

    def __init__(self, server: ServerConfiguration, policy: Mcp, environ: Mapping[str, str], traffic: Traffic) -> None:
        self._server, self._policy, self._environ, self._traffic = server, policy, environ, traffic
        self.ended = self.stray = ""

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Any]:
        """Yield the streams of messages from and to the server; raise UsageError where a header's variable is unset."""
        headers = expand_variables(self._server.headers, self._environ)
        start = self._server.start_timeout or self._policy.start_timeout
        call = self._server.call_timeout or self._policy.call_timeout
        inner = httpx2.AsyncHTTPTransport(trust_env=False, retries=0)
        async with (
            httpx2.AsyncClient(
                transport=BoundedTransport(inner, self),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx2.Timeout(start, read=call),
                headers=headers,
            ) as client,
            streamable_http_client(
                self._server.url, http_client=client, max_sse_event_size=self._policy.max_message
            ) as streams,
        ):
            yield streams

    def count(self, size: int, total: int) -> None:
        """Take note of bytes that came, `total` of them in one answer; raise Flood where they are too many."""
        try:
            if total > self._policy.max_traffic:
                raise Flood(f"it answered with more than {self._policy.max_traffic} bytes")
            self._traffic.take(size)
        except Flood as flood:
            self.ended = str(flood)
            raise


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport whose answers are counted as they come."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, place: ServerAtUrl) -> None:
        self._inner, self._place = inner, place

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request unencoded answers are asked for, so that what is counted is what is kept."""
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError("it answered in a coding it was not asked for")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = CountedBody(response.stream, self._place)
        return response

    async def aclose(self) -> None:
        """Close what is behind it."""
        await self._inner.aclose()


class CountedBody(httpx2.AsyncByteStream):
    """The body of an answer, counted."""

    def __init__(self, inner: httpx2.AsyncByteStream, place: ServerAtUrl) -> None:
        self._inner, self._place = inner, place

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._inner:
            total += len(chunk)
            try:
                self._place.count(len(chunk), total)
            except Flood as flood:
                raise httpx2.ReadError(str(flood)) from None
            yield chunk

    async def aclose(self) -> None:
        """Close what is behind it."""
        await self._inner.aclose()
